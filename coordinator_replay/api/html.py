"""Answers as HTML tables for notebooks.

The texts in rows come from clients of a cluster, so they may be hostile. Every text is escaped, and control characters
are shown as escapes. A table has no scripts. Its styles apply only to its own elements.
"""

from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from html import escape
from typing import Any

from coordinator_replay.json_values import json_text
from coordinator_replay.safe_text import neutral
from coordinator_replay.times import moment_text

MOST_ROWS = 100
"""Largest number of rows that a table in a notebook shows; the answer has all of them."""

MOST_CHARACTERS = 300
"""Largest number of characters of a cell that a table in a notebook shows."""

_CELL = ' style="text-align:left;white-space:pre-wrap;vertical-align:top"'


def text_of(value: Any) -> str:
    """Return a value as text for people.

    The text is not escaped for HTML, see ``safe``.
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Enum():
            return str(value.value)
        case datetime():
            return moment_text(value)
        case bytes() | bytearray():
            return bytes(value).hex()
        case list() | tuple():
            if all(isinstance(element, str) or is_dataclass(element) for element in value):
                return "; ".join(map(str, value))
            return json_text(value)
        case dict():
            return json_text(value)
    return str(value)


def safe(value: Any) -> str:
    """Return the first MOST_CHARACTERS of a value's text, escaped for HTML."""
    text = text_of(value)
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    return escape(neutral(cut))


def filled_places(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Sequence[int]:
    """Return the indexes of the columns that have a value in at least one row.

    If all columns are empty, return the indexes of all columns.
    """
    places = range(len(names))
    return [place for place in places if any(row[place] is not None for row in rows)] or places


def table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the first MOST_ROWS rows as an HTML table.

    If there are more rows, a paragraph below the table says how many rows there are in all.

    Leave out columns that are empty in all these rows. If all columns are empty, keep them.
    """
    shown = rows[:MOST_ROWS]
    places = filled_places(names, shown)
    head = "".join(f"<th{_CELL}>{safe(names[place])}</th>" for place in places)
    body = "".join(
        "<tr>" + "".join(f"<td{_CELL}>{safe(row[place])}</td>" for place in places) + "</tr>" for row in shown
    )
    more = f"<p>The first {len(shown):,} of {len(rows):,} rows.</p>" if len(rows) > len(shown) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def notes(texts: Iterable[str]) -> str:
    """Return the notes of an answer as HTML paragraphs."""
    return "".join(f"<p><em>{safe(text)}</em></p>" for text in texts)
