"""What a group's page shows of committed offsets: steps, and what went backwards or was taken away."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from coordinator_replay.query.life import Commit, GroupLife
from coordinator_replay.report.columns import Clock, Columns, columns
from coordinator_replay.report.wording import COLOURS, GAP_COLOUR, neutral

LINES = ("times", "offset", "progress", "name", "colour")
ENDS = ("at", "offset", "progress", "name", "what", "colour", "text")

Lines = Mapping[tuple[str, int], list[Commit]]


def _lines(life: GroupLife) -> Lines:
    lines: dict[tuple[str, int], list[Commit]] = {}
    for commit in life.commits:
        if commit.committed_offset is not None:
            lines.setdefault((commit.topic, commit.partition), []).append(commit)
    return lines


def topic_colours(life: GroupLife) -> Mapping[str, str]:
    """A colour for the lines of each topic."""
    topics = dict.fromkeys(commit.topic for commit in life.commits if commit.committed_offset is not None)
    return {topic: COLOURS[place % len(COLOURS)] for place, topic in enumerate(topics)}


def offset_columns(life: GroupLife, clock: Clock) -> Mapping[str, Columns]:
    """A line for each partition as times and offsets, from which the page's script makes steps."""
    lines, colours = _lines(life), topic_colours(life)
    rows = [_line(key, commits, clock, colours[key[0]]) for key, commits in lines.items()]
    # The script knows progress from the first offset of a line, and the ends of lines from a missing offset.
    return {
        "offset-lines": columns(rows, ("times", "offset", "name", "colour"), ("times",)),
        "offset-ends": columns(_ends(lines, clock), ENDS, ("at",)),
    }


def _line(key: tuple[str, int], commits: list[Commit], clock: Clock, colour: str) -> dict[str, Any]:
    times: list[int] = []
    offsets: list[int | None] = []
    for commit in commits:
        times.append(clock.left(commit.at))
        offsets.append(commit.committed_offset)
        # The offset holds until something ends it: where no commit follows, the line goes on to there.
        if commit.ended_by != "COMMIT":
            times.append(clock.right(commit.until))
            offsets.append(None)
        elif commit is commits[-1]:
            times.append(clock.right(commit.until))
            offsets.append(commit.committed_offset)
    return {"times": times, "offset": offsets, "name": neutral(f"{key[0]}-{key[1]}"), "colour": colour}


def _ends(lines: Lines, clock: Clock) -> list[dict[str, Any]]:
    """Marks where an offset went backwards, or ended other than by the next commit."""
    marks = []
    for (topic, partition), commits in lines.items():
        base = commits[0].committed_offset or 0
        for commit in commits:
            told: list[tuple[datetime | None, str, str]] = []
            if commit.back_from is not None:
                told.append((commit.at, "rewound", f"from {commit.back_from:,} to {commit.committed_offset:,}"))
            if commit.ended_by != "COMMIT" and commit.until is not None and commit.until <= clock.end:
                told.append((commit.until, commit.ended_by, f"the offset was {commit.committed_offset:,}"))
            marks += [
                {
                    "at": clock.right(at),
                    "offset": commit.committed_offset,
                    "progress": (commit.committed_offset or 0) - base,
                    "name": neutral(f"{topic}-{partition}"),
                    "what": neutral(what),
                    "colour": "#e07b1a" if what == "rewound" else GAP_COLOUR,
                    "text": text,
                }
                for at, what, text in told
            ]
    return marks
