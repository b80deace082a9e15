"""Committed offsets on the page of a group.

Each partition whose committed offset changed has a line with steps. Marks on the line show offsets that went backwards,
were removed, or were replaced by a negative offset.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator_replay.listing import ranges_by_topic
from coordinator_replay.report.columns import EXACT, Columns, columns, packed
from coordinator_replay.report.life import GroupLife, OffsetLine
from coordinator_replay.report.wording import COLOURS, GAP_COLOUR, neutral

LINES = ("times", "offset", "progress", "name", "colour", "note")
ENDS = ("at", "offset", "progress", "name", "what", "colour", "text")


def moving_lines(life: GroupLife) -> Sequence[OffsetLine]:
    """Return the lines of partitions whose committed offset changed: lines with several offsets or with a mark."""
    return [line for line in life.lines if line.marked or min(line.offsets) != max(line.offsets)]


def unmoved_partitions(life: GroupLife) -> str:
    """Return the partitions whose committed offset did not change, as ``orders:0-3; payments:1``."""
    moving = {(line.topic, line.partition) for line in moving_lines(life)}
    return ranges_by_topic({(line.topic, line.partition) for line in life.lines} - moving)


def topic_colours(life: GroupLife) -> Mapping[str, str]:
    """Return a colour for the lines of each topic."""
    topics = dict.fromkeys(line.topic for line in moving_lines(life))
    return {topic: COLOURS[place % len(COLOURS)] for place, topic in enumerate(topics)}


def offset_columns(life: GroupLife) -> Mapping[str, Columns]:
    """Return the lines of committed offsets, and the marks on these lines, as columns that the page's script reads."""
    colours, shown = topic_colours(life), moving_lines(life)
    points = [_points(line) for line in shown]
    # The script knows progress from the first offset of a line, and the ends of lines from a missing offset.
    lines: dict[str, list[Any]] = {
        "times": [times for times, _ in points],
        "offset": [offsets for _, offsets in points],
        "name": [_name(line) for line in shown],
        "colour": [colours[line.topic] for line in shown],
        "note": [_note(line) for line in shown],
    }
    marks = [mark for line in shown for mark in _marks(line)]
    return {"offset-lines": packed(lines, ("times",)), "offset-ends": columns(marks, ENDS, ("at",))}


def _name(line: OffsetLine) -> str:
    return neutral(f"{line.topic}-{line.partition}")


def _note(line: OffsetLine) -> str:
    """Return a note for a line's tooltip that says that the line's offsets are rounded, because they exceed 2^53.

    Return an empty text if the offsets are not rounded.
    """
    lowest, highest = min(line.offsets), max(line.offsets)
    if lowest >= -EXACT and highest <= EXACT:
        return ""
    return f"offsets beyond 2^53 are rounded here: they lie between {lowest:,} and {highest:,}"


def _points(line: OffsetLine) -> tuple[list[int], list[int | None]]:
    """Return the times and the offsets of the points of a line. An offset of None interrupts the line.

    If no commit follows an offset, the line ends when the offset was removed, or at the end of the page's time range.
    """
    times: list[int] = []
    offsets: list[int | None] = []
    drawn = 0
    for place, until in enumerate(line.until):
        if until is not None:
            times += [*line.at[drawn : place + 1], until]
            offsets += [*line.offsets[drawn : place + 1], None]
            drawn = place + 1
    if drawn < len(line.at):
        times += [*line.at[drawn:], line.last_until]
        offsets += [*line.offsets[drawn:], line.offsets[-1]]
    return times, offsets


def _marks(line: OffsetLine) -> Iterator[dict[str, Any]]:
    """Yield a mark for each offset of a line that went backwards, was removed, or was replaced by a negative offset."""
    for mark in line.marked:
        lost = mark["lost_offset"]
        offset = mark["committed_offset"] if lost is None else lost
        about = {"offset": offset, "progress": offset - line.offsets[0], "name": _name(line)}
        if lost is not None and lost >= 0:
            text = f"{mark['committed_offset']:,} was committed, which means no offset; before it was {lost:,}"
            yield {**about, "at": mark["at"], "what": "position lost", "colour": "#e07b1a", "text": text}
        if mark["back_from"] is not None:
            text = f"from {mark['back_from']:,} to {offset:,}"
            yield {**about, "at": mark["at"], "what": "rewound", "colour": "#e07b1a", "text": text}
        if mark["removed_by"] is not None and lost is None:
            what, text = neutral(mark["removed_by"]), f"the offset was {offset:,}"
            yield {**about, "at": mark["until"], "what": what, "colour": GAP_COLOUR, "text": text}
