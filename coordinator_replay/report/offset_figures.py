"""Committed offsets as lines, with what went backwards or was taken away."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bokeh.models import BasicTickFormatter, Range1d
from bokeh.models.annotations import Legend, LegendItem
from bokeh.palettes import Category10
from bokeh.plotting import figure

from coordinator_replay.query.life import Commit, GroupLife
from coordinator_replay.report.figures import (
    COMPACT,
    GAP_COLOUR,
    Stretch,
    add_hover,
    columns,
    neutral,
    time_figure,
)


def offset_lines(life: GroupLife, times: Range1d) -> figure:
    """Committed offsets, a line for each partition: progress since the start of the page, or as committed."""
    stretch = Stretch(life.start, life.end)
    lines: dict[tuple[str, int], list[Commit]] = {}
    for commit in life.commits:
        if commit.committed_offset is not None:
            lines.setdefault((commit.topic, commit.partition), []).append(commit)
    topics = list(dict.fromkeys(topic for topic, _ in lines))
    colours = {topic: Category10[10][place % 10] for place, topic in enumerate(topics)}
    drawn = time_figure("offsets", times, height=300, is_tall=True, title="Committed offsets")
    names = ("times", "offset", "progress", "name", "topic", "colour")
    rows = [_line(key, commits, stretch, colours) for key, commits in lines.items()]
    marks = drawn.multi_line(
        "times", "progress", color="colour", line_width=1.5, source=columns(rows, names), name="offset-lines"
    )
    ends = _ends(lines, stretch)
    end_names = ("at", "offset", "progress", "name", "what", "colour", "told")
    crosses = drawn.scatter(
        "at",
        "progress",
        marker="x",
        size=9,
        line_width=2,
        color="colour",
        source=columns(ends, end_names),
        name="offset-ends",
    )
    # Bokeh's types take a renderer for any glyph, and not one for a glyph of a known kind.
    line_marks: list[Any] = [marks]
    cross_marks: list[Any] = [crosses]
    items = [
        LegendItem(label=neutral(topic, 60), renderers=line_marks, index=_first(rows, topic)) for topic in topics[:8]
    ]
    if ends:
        items.append(LegendItem(label="went backwards, or was taken away", renderers=cross_marks))
    if items:
        drawn.add_layout(Legend(items=items, **COMPACT), "above")
    drawn.yaxis.formatter = BasicTickFormatter(use_scientific=False)
    add_hover(drawn, [marks], [("partition", "@name"), ("value", "$snap_y{0,0}"), ("about", "$snap_x{%F %T}")], [])
    drawn.hover[-1].formatters = {"$snap_x": "datetime"}
    add_hover(drawn, [crosses], [("partition", "@name"), ("what", "@what"), ("at", "@at"), ("", "@told")], ["at"])
    return drawn


def _first(rows: list[dict[str, Any]], topic: str) -> int:
    return next(place for place, row in enumerate(rows) if row["topic"] == neutral(topic))


def _line(
    key: tuple[str, int], commits: list[Commit], stretch: Stretch, colours: Mapping[str, str]
) -> dict[str, list[float] | str]:
    times: list[float] = []
    offsets: list[float] = []
    for commit in commits:
        times.append(stretch.left(commit.at))
        offsets.append(commit.committed_offset or 0)
        # The offset holds until something ends it: where no commit follows, the line is drawn on to there.
        if commit is commits[-1] or commit.ended_by != "COMMIT":
            times.append(stretch.right(commit.until))
            offsets.append(commit.committed_offset or 0)
        if commit.ended_by != "COMMIT":
            times.append(stretch.right(commit.until))
            offsets.append(float("nan"))
    return {
        "times": times,
        "offset": offsets,
        "progress": [offset - offsets[0] for offset in offsets],
        "name": neutral(f"{key[0]}-{key[1]}"),
        "topic": neutral(key[0]),
        "colour": colours[key[0]],
    }


def _ends(lines: Mapping[tuple[str, int], list[Commit]], stretch: Stretch) -> list[dict[str, Any]]:
    """Marks where an offset went backwards, or ended other than by the next commit."""
    marks = []
    for (topic, partition), commits in lines.items():
        base = commits[0].committed_offset or 0
        for commit in commits:
            told: list[tuple[datetime | None, str, str]] = []
            if commit.back_from is not None:
                back = f"from {commit.back_from:,} to {commit.committed_offset:,}"
                told.append((commit.at, "went backwards", back))
            if commit.ended_by != "COMMIT" and commit.until is not None and commit.until <= stretch.end:
                told.append((commit.until, commit.ended_by, f"the offset was {commit.committed_offset:,}"))
            marks += [
                {
                    "at": stretch.right(at),
                    "offset": commit.committed_offset,
                    "progress": (commit.committed_offset or 0) - base,
                    "name": neutral(f"{topic}-{partition}"),
                    "what": neutral(what),
                    "told": text,
                    "colour": "#e07b1a" if what == "went backwards" else GAP_COLOUR,
                }
                for at, what, text in told
            ]
    return marks
