"""Rows as an aligned table, as JSON lines, or as CSV.

On a terminal, a table is fitted to the width (``layout.py``); anywhere else it is aligned and complete.

The texts in rows come from clients of a cluster, so they may be hostile. A table shows control characters as escapes
and has no markup. So the terminal obeys nothing in a group's name or a commit's metadata. A spreadsheet would run a
text that begins like a formula. In CSV, such a text gets an apostrophe in front, and the spreadsheet shows it as text.
JSON keeps the data as it is.
"""

import csv
import re
import shutil
import sys
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from datetime import datetime, tzinfo
from decimal import Decimal
from itertools import accumulate, chain
from math import inf

import click

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli.colours import style_of, wants_styles
from coordinator_replay.cli.layout import Cell, TextTable, lay_out
from coordinator_replay.cli.option_types import zone_of
from coordinator_replay.cli.pager import pager_command, show_in_pager
from coordinator_replay.cli.waiting import end_waiting
from coordinator_replay.json_values import json_text, json_value
from coordinator_replay.safe_text import UNSAFE, neutral, neutral_json
from coordinator_replay.times import moments_in_zone

NOTHING = "-"
"""The sign for null in a table, as in Kafka's own tools."""

# A text that a spreadsheet takes for a formula; a number with a sign is none. The spreadsheet, or a program before it,
# may drop invisible characters: terminal sequences, control and format characters, blanks. A spreadsheet also knows
# full-width signs.
_UNSEEN = rf"(?:\x1b\[[0-?]*[ -/]*[@-~]|{UNSAFE.pattern}|\s)*"
_FORMULA = re.compile(
    rf"(?![+-]\d+(?:\.\d+)?\Z)(?:[\t\r]|{_UNSEEN}(?:[=@\uff1d\uff20]|[+\-\uff0b\uff0d](?=.)))", re.DOTALL
)

Row = Sequence[object]


def to_json(value: object) -> str:
    """Return a value as one line of JSON, in which unsafe characters are escaped (``neutral_json``)."""
    return neutral_json(json_text(value))


def _cell(value: object) -> str:
    """Return a value as text for a table.

    The items of a list are shown by ``str`` if all are texts or dataclasses. A mapping from names to counts is
    shown with the largest count first. Other lists and mappings are shown as JSON.
    """
    if isinstance(value, list | tuple) and all(isinstance(item, str) or is_dataclass(item) for item in value):
        return neutral("; ".join(map(str, value))) or NOTHING
    plain = json_value(value)
    if plain is None:
        return NOTHING
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, dict) and plain and all(type(count) is int for count in plain.values()):
        most_first = sorted(plain.items(), key=lambda pair: -pair[1])
        return neutral(", ".join(f"{name} {count}" for name, count in most_first))
    if isinstance(plain, list | dict):
        return to_json(plain)
    return neutral(str(plain)) or NOTHING


def empty_list_shown(value: object) -> object:
    """Return a value of a statement's answer as a table shows it.

    An empty list is shown as ``[]``, so that it differs from null.
    """
    return "[]" if value == [] else value


def _csv_cell(value: object) -> object:
    plain = json_value(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, str) and _FORMULA.match(plain):
        return f"'{plain}"
    return to_json(plain) if isinstance(plain, list | dict) else plain


def _are_numbers(cells: Iterable[object]) -> bool:
    """Return whether a column has only numbers (and nulls), so that it is aligned to the right."""
    kinds = {type(value) for value in cells} - {type(None)}
    return bool(kinds) and kinds <= {int, float, Decimal}


def terminal_width(*, err: bool = False) -> int | None:
    """Return the width of the terminal on standard output (or standard error).

    Return None if there is no terminal.
    """
    return shutil.get_terminal_size().columns if (sys.stderr if err else sys.stdout).isatty() else None


def styled(text: str, **style: object) -> str:
    """Return a text with the style that the arguments of ``click.style`` describe.

    Return the text unchanged if the terminal wants no styles.
    """
    return click.style(text, **style) if wants_styles() else text  # type: ignore[arg-type]  # as click names them


def print_table(
    columns: Sequence[AnswerColumn],
    rows: Sequence[Row],
    *,
    is_wide: bool = False,
    most_lines: float = inf,
    is_excerpt: bool = False,
) -> int:
    """Print an answer as a table.

    Args:
        columns: the columns of a row, in their order.
        rows: the values of each row.
        is_wide: whether the table has all columns in full, whatever the terminal's width.
        most_lines: largest number of lines; the table ends before the first row that does not fit, but has
            one row at least.
        is_excerpt: whether ``rows`` are only the first rows of the answer. The caller says how to see all of them.

    Returns:
        The number of printed rows.
    """
    # PIVOT makes headings from values, which clients may have written.
    headings = [neutral(_heading(column) if is_wide else column.heading) for column in columns]
    shown = [replace(column, heading=heading) for column, heading in zip(columns, headings, strict=True)]
    places = [place for place, column in enumerate(shown) if column.heading]
    end_waiting()
    seen = terminal_width()
    width = None if is_wide else seen
    # A row takes a line at least, so no row behind these is printed.
    most_rows = len(rows) if most_lines == inf else min(len(rows), max(1, int(most_lines)))
    cells = [[_table_cell(row[place], shown[place]) for place in places] for row in rows[:most_rows]]
    numbers = [_are_numbers(row[place] for row in rows) for place in places]

    def fitted(count: int) -> TextTable:
        return lay_out(
            [shown[place] for place in places],
            cells[:count],
            width=width,
            numbers=numbers,
            nothing=NOTHING,
            has_styles=seen is not None and wants_styles(),
            zone=_zone(),
        )

    table = fitted(most_rows)
    # Only rows that are printed decide which columns have room: a column that they leave empty takes none.
    while len(table.rows) > (count := _fitting(table.rows, most_lines)):
        table = fitted(count)
    printed = table.rows
    head = [
        *([styled(table.date, dim=True)] if table.date else []),
        *(styled(line, bold=True) for line in table.heading.split("\n")),
    ]
    lines = [*head, *chain.from_iterable(printed)]
    pager = pager_command() if seen is not None and any(_too_wide(line, seen) for line in lines) else None
    if pager is not None and show_in_pager(lines, pager):
        return len(printed)
    for line in lines:
        click.echo(line)
    if width is not None and (table.left_out or table.everywhere or (table.is_cut and not is_excerpt)):
        print_note(" ".join(_beside(table, len(rows), is_excerpt=is_excerpt)))
    if is_wide and seen is not None and any(_too_wide(line, seen) for line in lines):
        print_note("Lines are wider than the terminal: | less -S scrolls to the side, and so does a PAGER=less.")
    return len(printed)


def _fitting(rows: Sequence[Sequence[str]], most_lines: float) -> int:
    """Return how many of the first rows fit into ``most_lines`` lines; at least 1."""
    return max(bisect_right(list(accumulate(map(len, rows))), most_lines), 1)


def _beside(table: TextTable, row_count: int, *, is_excerpt: bool) -> Iterator[str]:
    """Yield sentences on what a printed table does not show.

    Args:
        table: the table.
        row_count: number of rows of the answer.
        is_excerpt: whether the table has only the first rows of the answer.
    """
    if table.everywhere:
        yield f"{_said_of(len(table.rows), inf if is_excerpt else row_count)}: {', '.join(table.everywhere)}."
    if table.left_out:
        yield f"Left out: {', '.join(table.left_out)}."
    if not is_excerpt:
        yield "--wide shows everything in full."


def _said_of(printed: int, rows: float) -> str:
    """Return the words that introduce the values that all printed rows share, such as ``In all rows``.

    Args:
        printed: number of printed rows.
        rows: number of rows of the answer.
    """
    if rows == 1:
        return "Also"
    if printed == rows:
        return "In all rows"
    return "In these rows" if printed > 1 else "In this row"


def _too_wide(line: str, width: int) -> bool:
    return len(click.unstyle(line)) > width


def _heading(column: AnswerColumn) -> str:
    return column.heading or column.name.upper().replace("_", "-")


_SENTENCES = ("message", "evidence", "detail", "note", "holders")
"""Columns whose texts may have times."""


def _zone() -> tzinfo:
    """Return the zone in which the running command shows times."""
    return zone_of(click.get_current_context(silent=True))


def in_shown_zone(text: str) -> str:
    """Return a sentence with its times in the zone of the running command."""
    return moments_in_zone(text, _zone())


def _table_cell(value: object, column: AnswerColumn) -> Cell:
    """Return a value in the form that ``lay_out`` takes: a text, or a time, which ``lay_out`` formats itself."""
    if column.text is not None and value is not None:
        value = column.text(value)
    if isinstance(value, datetime):
        return value
    return in_shown_zone(_cell(value)) if column.is_sentence or column.name in _SENTENCES else _cell(value)


def _print_csv(columns: Sequence[AnswerColumn], rows: Iterable[Row]) -> None:
    # Written without click, which would remove terminal sequences from files and from names.
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    is_seen = sys.stdout.isatty()
    # PIVOT makes column names from values.
    for row in chain([[column.name for column in columns]], rows):
        cells = [_csv_cell(value) for value in row]
        # A terminal would obey control characters in any output form, so they are escaped there; a file keeps them.
        writer.writerow([neutral(cell) if is_seen and isinstance(cell, str) else cell for cell in cells])
    # Notes on standard error must come after the answer.
    sys.stdout.flush()


def print_rows(columns: Sequence[AnswerColumn], rows: Iterable[Row], form: str, *, is_wide: bool = False) -> None:
    """Print rows as a table, as JSON lines or as CSV.

    Args:
        columns: the columns of a row, in their order.
        rows: the values; ``table`` needs all of them to align, ``json`` and ``csv`` print them as they come.
        form: ``table``, ``json`` or ``csv``.
        is_wide: whether a table has all columns in full, whatever the terminal's width.
    """
    end_waiting()
    if form == "json":
        for row in rows:
            named = {column.name: value for column, value in zip(columns, row, strict=True)}
            click.echo(to_json(named))
    elif form == "csv":
        _print_csv(columns, rows)
    else:
        print_table(columns, list(rows), is_wide=is_wide)


def text_lines(text: str, *, indent: str = "", err: bool = False) -> list[str]:
    """Return the lines that ``print_text`` prints."""
    width = terminal_width(err=err)
    text = in_shown_zone(text)
    if width is None:
        return [indent + neutral(text)]
    lines = textwrap.wrap(
        neutral(text), width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
    return lines or [""]


def print_text(text: str, *, indent: str = "", style: Mapping[str, object] | None = None, err: bool = False) -> None:
    """Print a sentence.

    On a terminal, lines after the first are indented by two more blanks.

    Args:
        text: text to print; control characters are shown, not obeyed.
        indent: the indentation of each line.
        style: style of the text, as arguments of ``click.style``.
        err: whether to print on standard error.
    """
    end_waiting()
    for line in text_lines(text, indent=indent, err=err):
        click.echo(styled(line, **style) if style else line, err=err)


def severity_style(severity: str) -> Mapping[str, object]:
    """Return the style in which a finding of this severity begins, such as bold and red."""
    return {"bold": True, **(style_of("severity", severity) or {})}


def print_note(text: str) -> None:
    """Print a note on the answer on standard error, so that programs that read the output don't get it."""
    print_text(text, style={"dim": True}, err=True)
