"""Answers as plain text, for ``print``."""

from collections.abc import Sequence
from typing import Any

from coordinator_replay.api.html import MOST_ROWS, filled_places, text_of
from coordinator_replay.safe_text import neutral

MOST_CHARACTERS = 60
"""Largest number of characters of a cell; the answer has the whole text."""

_GAP = "  "


def _cell(value: Any) -> str:
    text = neutral(text_of(value)) or "-"
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return a heading and the first MOST_ROWS rows as aligned lines; nothing if there are no rows.

    If there are more rows, the last line says how many rows are left out.

    Leave out columns that are empty in all these rows. If all columns are empty, keep them.
    """
    shown = rows[:MOST_ROWS]
    places = filled_places(names, shown)
    # Names of columns may be texts that clients wrote: PIVOT makes them from values.
    lines = [[neutral(names[place]) for place in places], *([_cell(row[place]) for place in places] for row in shown)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    aligned = [
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    left = len(rows) - len(shown)
    return [*(aligned if shown else []), *([f"{left:,} more rows: to_pandas() has them."] if left else [])]


def sentences(texts: Sequence[str]) -> list[str]:
    """Return sentences as lines that are safe to print."""
    return [neutral(text) for text in texts]
