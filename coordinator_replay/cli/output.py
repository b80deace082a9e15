"""Rows as people and programs want them: an aligned table, one JSON object a line, or CSV.

What the rows hold was written by clients of a cluster, so a table shows control characters as escapes and knows no
markup: nothing in a group's name or a commit's metadata reaches the terminal as a command. CSV is opened in
spreadsheets, which run what begins like a formula: such a text gets an apostrophe in front, as spreadsheets themselves
mark text. JSON keeps the data as it is.
"""

import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import click

NOTHING = "-"
"""What a table shows for null, as Kafka's own tools do."""

MOST_FOLDED_ROWS = 1000
"""Longer answers are not folded to the terminal's width: nobody reads them there, and a pager can scroll."""

# Controls (C0, DEL, C1), line separators, and the characters that turn the direction of writing.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# What a spreadsheet takes for a formula; a number with a sign is none.
_FORMULA = re.compile(r"[=@\t\r]|[+-](?!\d+(\.\d+)?\Z)(?=.)", re.DOTALL)

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer.

    Attributes:
        name: its name in JSON and CSV.
        heading: its name above the table; empty for a column that a table leaves out.
    """

    name: str
    heading: str


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def neutral(text: str) -> str:
    r"""Text that a terminal shows and does not obey.

    >>> neutral("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _UNSAFE.sub(_escape, text)


def moment_text(value: datetime) -> str:
    """ISO-8601 in UTC, in a form that every command takes back."""
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    precision = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    return value.isoformat(timespec=precision).replace("+00:00", "Z")


def _plain(value: object) -> Any:
    """A value in the types that JSON has."""
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    return str(value)


def to_json(value: object) -> str:
    """A value as one line of JSON, safe to show."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    # All that needs escaping still stands inside strings, where JSON has an escape for it.
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _cell(value: object) -> str:
    """A value as a table shows it; what has a text form of its own is shown in it."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) or is_dataclass(item) for item in value):
        return neutral("; ".join(map(str, value))) or NOTHING
    plain = _plain(value)
    if plain is None:
        return NOTHING
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, list | dict):
        return to_json(plain)
    return neutral(str(plain)) or NOTHING


def _csv_cell(value: object) -> object:
    plain = _plain(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, str) and _FORMULA.match(plain):
        return f"'{plain}"
    return to_json(plain) if isinstance(plain, list | dict) else plain


def _are_numbers(cells: Iterable[object]) -> bool:
    """Whether a column holds numbers and nothing else, so that it is set to the right."""
    kinds = {type(value) for value in cells} - {type(None)}
    return bool(kinds) and kinds <= {int, float, Decimal}


def _print_folded(headings: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading, is_number in zip(headings, numbers, strict=True):
        shown.add_column(Text(heading), justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        shown.add_row(*map(Text, row))
    Console(file=sys.stdout).print(shown)


def _print_lines(headings: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
    from rich.cells import cell_len

    lines = [headings, *cells]
    widths = [max(cell_len(line[place]) for line in lines) for place in range(len(headings))]
    for line in lines:
        padded = []
        for text, width, is_number in zip(line, widths, numbers, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if is_number else text + space)
        click.echo("  ".join(padded).rstrip())


def _print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    places = [place for place, column in enumerate(columns) if column.heading]
    headings = [columns[place].heading for place in places]
    cells = [[_cell(row[place]) for place in places] for row in rows]
    numbers = [_are_numbers(row[place] for row in rows) for place in places]
    if sys.stdout.isatty() and len(rows) <= MOST_FOLDED_ROWS:
        _print_folded(headings, cells, numbers)
    else:
        _print_lines(headings, cells, numbers)


def _print_csv(columns: Sequence[Column], rows: Iterable[Row]) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([column.name for column in columns])
    is_seen = sys.stdout.isatty()
    for row in rows:
        cells = [_csv_cell(value) for value in row]
        # A terminal obeys control characters whatever form they come in; a file keeps them.
        writer.writerow([neutral(cell) if is_seen and isinstance(cell, str) else cell for cell in cells])
        if buffer.tell() > 1 << 16:
            click.echo(buffer.getvalue(), nl=False)
            buffer.seek(0)
            buffer.truncate()
    click.echo(buffer.getvalue(), nl=False)


def print_rows(columns: Sequence[Column], rows: Iterable[Row], form: str) -> None:
    """Print an answer.

    Args:
        columns: what the values of a row are, in their order.
        rows: the values; ``table`` needs all of them to align, ``json`` and ``csv`` print as they come.
        form: ``table``, ``json`` or ``csv``.
    """
    if form == "json":
        for row in rows:
            named = {column.name: value for column, value in zip(columns, row, strict=True)}
            click.echo(to_json(named))
    elif form == "csv":
        _print_csv(columns, rows)
    else:
        _print_table(columns, list(rows))


def print_note(text: str) -> None:
    """Say something about the answer, beside it: on standard error, where it disturbs no program."""
    colour = not os.environ.get("NO_COLOR")
    click.secho(neutral(text), err=True, dim=colour)
