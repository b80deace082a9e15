"""A table fitted to the width of a terminal (``lay_out``).

Until the lines fit, space is saved in this order:

1. If all times are on one day, or in one year, the day or year is shown once above the table.
2. Ids that other commands take as arguments are never shortened. If the main columns (rank 1, see ``AnswerColumn``)
   don't fit beside such ids, the ids go on a separate line above the rows that share them.
3. Columns are left out. The first to go are columns without any value. Next are columns with the same value in all
   rows; the value is shown once below the table. Then the column with the highest rank goes. Main columns and columns
   of sentences are never left out: their texts go below their rows, each with its heading.
4. If columns with different values would still be left out, headings that are wider than their texts take two lines.
5. Columns get narrower, but never narrower than their declared width. Ids that no command takes as an argument are
   shortened, but different ids stay different. Milliseconds are left out if all times of a column stay different.
   Other texts continue in the next line of their column, or go below their rows if that takes fewer lines.

A table that is not for a terminal, or that is asked for with ``--wide``, is only aligned.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from itertools import zip_longest
from math import ceil

import click

from coordinator_replay.answer_columns import LAST, AnswerColumn
from coordinator_replay.cli.colours import style_of
from coordinator_replay.times import in_utc, moment_text

GAP = "  "
CUT = "…"

_INDENT = "  "
"""Indentation of rows and sentences that belong to a line above them."""

_BELOW = 3 * _INDENT
"""Indentation of the second line of a sentence."""

_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_UUID_START = 5
"""Characters of a uuid that are enough to distinguish most members, the dash before it included."""

_READABLE_ID = 22
"""Width up to which an id takes precedence over other columns; enough for a whole member id of KIP-848."""

_SAID_ONCE = LAST - 1
"""Rank of columns with one value in all rows. Columns that tell rows apart come first, because a common value can be
shown once."""

_LONGEST_SAID_ONCE = 40
"""Largest width of a text that is said once for all rows."""

_PART_END = re.compile(r"(?<=[^\W_])[-_ ]")
"""Places at which a heading may continue in the next line."""

_BREAK = "\x1f"
"""Mark of a possible line break, a character that safe texts don't have."""


Cell = str | datetime


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table ready to print.

    Attributes:
        date: the part that all times share, shown above the table: the day or the year, and the zone. Only the zone if
            the years differ; empty if times are shown in full.
        heading: the line of headings, or two lines.
        rows: the lines of each row. Lines above the row with ids and lines below the row with sentences are included.
        left_out: headings of the columns that did not fit and are not in ``everywhere``. Columns without values are not
            in the list.
        everywhere: heading and text of each column that did not fit and has the same text in all rows.
        is_cut: whether an id was shortened, or a line is not whole.
        is_folded: whether a text takes more than a line.
    """

    date: str
    heading: str
    rows: list[list[str]]
    left_out: list[str]
    everywhere: list[str]
    is_cut: bool
    is_folded: bool


def width_of(text: str) -> int:
    """Return the number of cells that a text takes on a terminal."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Return a text cut to a width.

    If something is missing, the text ends in ``…``.

    >>> cut("orders", 4)
    'ord…'
    """
    from rich.cells import set_cell_size

    return text if width_of(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + CUT[:width]


def _folded(text: str, width: int) -> list[str]:
    """Return a text in lines of limited width.

    Break lines between words if possible.
    """
    if width_of(text) <= width:
        return [text]
    from rich.console import Console
    from rich.text import Text

    # Lists of partitions have no blanks to end a line at.
    lines = Text(text.replace(",", f",{_BREAK}")).wrap(Console(width=width), width)
    return [line.plain.replace(_BREAK, "").rstrip() for line in lines]


def _in_two_lines(heading: str) -> tuple[str, str]:
    """Return a heading in two lines, as narrow as its hyphens, underscores and blanks allow.

    >>> _in_two_lines("GROUP-INSTANCE-ID"), _in_two_lines("committed_offset"), _in_two_lines("HOST")
    (('GROUP-', 'INSTANCE-ID'), ('committed_', 'offset'), ('', 'HOST'))
    """
    ends = [match.end() for match in _PART_END.finditer(heading)]
    parts = [(heading[:end].rstrip(), heading[end:]) for end in ends if heading[end:]]
    return min(parts, key=lambda part: max(map(width_of, part)), default=("", heading))


def _name_and_uuid(text: str, width: int) -> str:
    """Return a client's name, shortened if necessary, and the first digits of its uuid, as in ``client-0f3c…``."""
    match = _UUID.search(text)
    if match is None or width_of(text) <= width:
        return cut(text, width)
    name, uuid = text[: match.start()], match[0]
    if width_of(name) + _UUID_START < width:
        return cut(text, width)
    return cut(name, max(width - _UUID_START - 1, 1)) + uuid[:_UUID_START] + CUT


def _end(text: str, width: int) -> str:
    """Return an id cut to a width. The beginning is cut off (``…settler-1``), or the end if the id has a uuid.

    Ids of the same program often have the same beginning, and differ at their ends.
    """
    if width_of(text) <= width or _UUID.search(text):
        return cut(text, width)
    return cut(CUT + text[len(text) + 1 - width :], width)


_STYLES: tuple[Callable[[str, int], str], ...] = (_name_and_uuid, cut, _end)


def shortened_ids(texts: Iterable[str], width: int) -> dict[str, str]:
    """Return each id cut to a width, or to the next larger width that keeps all ids different.

    >>> shortened_ids(["worker-1-8d05801b", "worker-2-9a03038e"], 12)
    {'worker-1-8d05801b': 'worker-1-8d…', 'worker-2-9a03038e': 'worker-2-9a…'}
    """
    whole = sorted(set(texts))
    widest = max(map(width_of, whole), default=0)
    for tried in range(max(width, 1), widest):
        for style in _STYLES:
            short = {text: style(text, tried) for text in whole}
            if len(set(short.values())) == len(whole) and max(map(width_of, short.values())) <= tried:
                return short
    return {text: text for text in whole}


@dataclass(frozen=True, slots=True)
class _Times:
    """A form of the times in a table.

    Attributes:
        date: the part that all times share, which is shown above the table.
        pattern: the ``strftime`` pattern of the part that each cell shows; empty if cells show full times.
        has_milliseconds: whether milliseconds follow the pattern.
        zone: the zone of times that are shown in full.
    """

    date: str
    pattern: str
    has_milliseconds: bool
    zone: tzinfo = UTC

    def text(self, moment: datetime) -> str:
        if not self.pattern:
            return moment_text(moment, self.zone)
        text = moment.strftime(self.pattern)
        return f"{text}.{moment.microsecond // 1000:03}" if self.has_milliseconds else text


def _full_times(zone: tzinfo) -> _Times:
    return _Times("", "", has_milliseconds=True, zone=zone)


def _short_times(columns: Sequence[Sequence[Cell]], zone: tzinfo) -> list[_Times]:
    """Return the forms in which a table may show its times: with milliseconds, or without.

    If all times have the same day or the same year, the forms leave out this day or year. Milliseconds are not left out
    if two different times in a column would then look the same. If the offset from UTC changes within the table, the
    only form has full times with their offset.

    Args:
        columns: the values of each column.
        zone: the zone in which times are shown.
    """
    times = [{cell for cell in column if isinstance(cell, datetime)} for column in columns]
    everything = set().union(*times)
    if not everything or len({time.utcoffset() for time in everything}) > 1:
        return [_full_times(zone)]
    name = "UTC" if zone is UTC else f"{zone}"
    days = {time.date() for time in everything}
    if len(days) == 1:
        date, pattern = f"{min(days)}, {name}", "%H:%M:%S"
    elif len({day.year for day in days}) == 1:
        date, pattern = f"{min(days).year}, {name}", "%m-%d %H:%M:%S"
    else:
        date, pattern = name, "%Y-%m-%d %H:%M:%S"
    is_fine = any(time.microsecond for time in everything)
    is_needed = any(len({time.replace(microsecond=0) for time in column}) < len(column) for column in times)
    forms = [_Times(date, pattern, has_milliseconds=True)] if is_fine else []
    return forms if is_needed else [*forms, _Times(date, pattern, has_milliseconds=False)]


class _Fitted:
    """A column whose width the layout is choosing: its texts, and the widths that it may get."""

    def __init__(
        self,
        column: AnswerColumn,
        texts: Sequence[str],
        *,
        is_number: bool,
        nothing: str,
        has_styles: bool,
        is_heading_folded: bool,
    ) -> None:
        self.column = column
        self.has_styles = has_styles
        self.is_number = is_number
        self.nothing = nothing
        self.texts = texts
        self.longest = max(map(width_of, texts), default=0)
        self.rank = self._rank()
        is_narrower = is_heading_folded and self.longest < width_of(column.heading)
        self.heading = _in_two_lines(column.heading) if is_narrower else ("", column.heading)
        self.widest = max(self.longest, *map(width_of, self.heading))
        self.width = self.widest

    def _rank(self) -> int:
        if all(map(self.is_empty, self.texts)):
            return LAST
        is_said_once = len(self.texts) > 1 and self.column.rank > 1 and self.is_same_everywhere
        return max(self.column.rank, _SAID_ONCE) if is_said_once else self.column.rank

    def is_empty(self, text: str) -> bool:
        """Return whether the text of a cell shows no value: it is blank, or the sign for null."""
        return text == self.nothing or not text.strip()

    @property
    def is_missed(self) -> bool:
        """Return whether a message must name this column if it is left out.

        Columns without any value are not named. A column that is shown only if all others have room (rank ``LAST``) is
        named only if its texts differ.
        """
        return self.rank < LAST or (self.column.rank >= LAST and len(set(self.texts)) > 1)

    @property
    def is_same_everywhere(self) -> bool:
        """Return whether all rows have the same text, and the text is short enough to be shown once for all of them."""
        return len(set(self.texts)) == 1 and self.longest <= _LONGEST_SAID_ONCE

    @cached_property
    def least(self) -> int:
        """Return the smallest width that the column may get.

        For numbers, this is the full width. For ids, it is a width at which different ids still look different.
        """
        if self.is_number or self.column.least is None:
            return self.widest
        least = min(self.column.least, self.widest)
        if not self.column.is_id:
            return least
        return max([least, *map(width_of, shortened_ids(self.texts, least).values())])

    @cached_property
    def readable(self) -> int:
        """Return the width at which the column is readable.

        For a column of ids, this width shows the whole name of each client, and the first digits of its uuid.
        """
        if not self.column.is_id:
            return self.widest if self.least == self.widest else max(self.least, min(self.widest, self.column.good))
        names = (
            match.start() + _UUID_START + 1 if (match := _UUID.search(text)) else width_of(text) for text in self.texts
        )
        return max(self.least, min(max(names, default=0), _READABLE_ID, self.widest))

    def needed_beside(self, other: "_Fitted") -> int:
        """Return the width that this column keeps if another column is shown beside this one.

        - ``least`` beside a column of rank 1.
        - ``widest`` beside a column that is shown only if there is room for all columns (``LAST``).
        - ``readable`` beside any other column.

        If there is no room for both columns, the other column is left out.
        """
        return self.least if other.rank == 1 else self.readable if other.rank < LAST else self.widest

    @property
    def is_needed(self) -> bool:
        """Return whether the column is never left out. If the table has no room for it, its texts go below the rows."""
        return self.rank == 1 or (self.rank < _SAID_ONCE and self.column.is_sentence)

    @property
    def wanted(self) -> int:
        """Return the smallest width that this column needs if the table also has a column of ids that are not cut.

        If this column has ids too, the ids stay readable at this width.
        """
        return self.readable if self.column.is_id else self.least

    @property
    def is_text(self) -> bool:
        """Return whether the column's texts may take several lines."""
        return not (self.is_number or self.column.is_id or self.column.is_cut)

    def is_shorter_below(self, width: int) -> bool:
        """Return whether the column's texts take fewer lines if each is printed below its row instead of in the column.

        Args:
            width: the width of a line below a row.
        """
        if not (self.is_text and self.is_tight):
            return False
        heading = width_of(self.column.heading) + len(": ")
        lengths = [width_of(text) for text in self.texts if not self.is_empty(text)]
        in_column = sum(ceil(length / self.width) for length in lengths)
        return sum(1 + ceil((heading + length) / width) for length in lengths) < in_column

    @property
    def is_tight(self) -> bool:
        """Return whether the column has less room than its texts need in one line."""
        return self.width < self.longest

    @property
    def is_whole_id(self) -> bool:
        """Return whether the column has ids that are never cut.

        Such ids may stand above the rows.
        """
        return self.column.is_id and self.column.least is None and self.rank == 1

    def aligned(self, text: str) -> str:
        """Return a text with blanks that fill the column's width. The text must not be wider than the column."""
        space = " " * (self.width - width_of(text))
        style = style_of(self.column.name, text) if self.has_styles else None
        shown = text if style is None else click.style(text, **style)  # type: ignore[arg-type]  # as click names them
        return space + shown if self.is_number else shown + space

    def lines(self) -> Iterator[list[str]]:
        """Yield for each row the lines of its text in this column.

        Each line is padded or cut to the column's width.
        """
        if not self.is_tight:
            for text in self.texts:
                yield [self.aligned(text)]
        elif self.is_text:
            for text in self.texts:
                yield [self.aligned(line) for line in _folded(text, self.width)]
        else:
            short = shortened_ids(self.texts, self.width) if self.column.is_id else {}
            for text in self.texts:
                yield [self.aligned(cut(short.get(text, text), self.width))]


def _chosen(fitted: Sequence[_Fitted], width: int) -> list[_Fitted]:
    """Return the columns to show, in the order in which they were declared.

    The columns with the lowest rank are tried first. A column is shown if the width is enough for it and for the
    columns that were chosen before it. Columns of rank ``LAST`` are tried only if all other columns are shown.
    """
    kept: list[_Fitted] = []
    with_values = sum(column.rank < LAST for column in fitted)
    for column in sorted(fitted, key=lambda column: column.rank):
        if column.rank == LAST and len(kept) < with_values:
            # A column with values was left out, because there was no room.
            break
        needed = sum(other.needed_beside(column) + len(GAP) for other in (*kept, column)) - len(GAP)
        if needed <= width or not kept:
            kept.append(column)
    return [column for column in fitted if column in kept]


_Parts = tuple[list[_Fitted], list[_Fitted], list[_Fitted]]
"""Columns whose texts are above the rows, the columns of the table, and columns whose texts are below the rows."""


def _split(fitted: Sequence[_Fitted], width: int, without_room: Sequence[_Fitted]) -> _Parts:
    """Choose which columns go above the rows, which stay in the table, and which go below the rows.

    Args:
        fitted: all columns.
        width: the width of a line.
        without_room: the columns that must go below the rows, because the table is not wide enough for all columns.
    """
    below = [column for column in fitted if column in without_room]
    table = [column for column in fitted if column not in below]
    # If only ids have rank 1, as in answers of statements, other columns get half of the line.
    reserve = 0 if any(column.rank == 1 and not column.is_whole_id for column in table) else width // 2
    above: list[_Fitted] = []
    for column in [column for column in table if column.is_whole_id]:
        first = [other for other in table if other.rank == 1]
        if len(table) == 1 or sum(other.wanted + len(GAP) for other in first) - len(GAP) + reserve <= width:
            break
        above.append(column)
        table.remove(column)
    return above, table, below


def _fit(fitted: Sequence[_Fitted], width: int) -> _Parts:
    """Choose which columns go above the rows, which stay in the table, and which go below the rows.

    Set the widths of the columns that stay in the table.
    """
    without_room: list[_Fitted] = []
    below_width = max(width - len(_BELOW), 1)
    while True:
        above, table, below = _split(fitted, width, without_room)
        room = width - len(_INDENT) * bool(above)
        chosen = _chosen(table, room)
        _widen(chosen, room)
        more = [
            column
            for column in table
            if column is not chosen[0]
            and (column.is_shorter_below(below_width) if column in chosen else column.is_needed)
        ]
        if not more:
            return above, chosen, below
        without_room += more


def _widen(chosen: Sequence[_Fitted], width: int) -> None:
    """Set the widths of a table's columns.

    First, each column gets its smallest width. The rest of the width is given out in two rounds:

    1. Each column gets the width at which it is readable.
    2. Each column gets the width of its longest text.

    Columns of lower rank come first in each round.
    """
    for column in chosen:
        column.width = column.least
    room = width - sum(column.width for column in chosen) - len(GAP) * (len(chosen) - 1)
    by_rank = sorted(chosen, key=lambda column: column.rank)
    for goals in ([column.readable for column in by_rank], [column.widest for column in by_rank]):
        for column, goal in zip(by_rank, goals, strict=True):
            more = max(0, min(room, goal - column.width))
            column.width += more
            room -= more


def lay_out(
    columns: Sequence[AnswerColumn],
    rows: Sequence[Sequence[Cell]],
    *,
    width: int | None,
    numbers: Sequence[bool],
    nothing: str,
    has_styles: bool = False,
    zone: tzinfo = UTC,
) -> TextTable:
    """Return a table, fitted to the width of a terminal.

    Args:
        columns: columns of the table, each with a heading.
        rows: a cell for each column.
        width: number of cells in a line of the terminal; None to show everything in full.
        numbers: for each column, whether its values are aligned to the right.
        nothing: the sign for null.
        has_styles: whether words have colours.
        zone: the zone of the times shown.
    """
    cells = [
        [in_utc(cell).astimezone(zone) if isinstance(cell := row[place], datetime) else cell for row in rows]
        for place in range(len(columns))
    ]

    def laid_out(*, is_heading_folded: bool) -> TextTable:
        fitted: list[_Fitted] = []
        for times in [_full_times(zone)] if width is None else _short_times(cells, zone):
            texts = [[times.text(cell) if isinstance(cell, datetime) else cell for cell in own] for own in cells]
            before: Sequence[_Fitted | None] = fitted or [None] * len(columns)
            # A column without times is measured once.
            fitted = [
                cell
                if cell is not None and cell.texts == own
                else _Fitted(
                    column,
                    own,
                    is_number=is_number,
                    nothing=nothing,
                    has_styles=has_styles,
                    is_heading_folded=is_heading_folded,
                )
                for cell, column, own, is_number in zip(before, columns, texts, numbers, strict=True)
            ]
            table = _laid_out(fitted, times.date, width)
            if not (table.left_out or table.everywhere or table.is_cut or table.is_folded):
                break
        return table

    table = laid_out(is_heading_folded=False)
    if not table.left_out:
        return table
    # Headings in two lines are harder to read. So they are used only if they make room for a column, and if no column
    # of a lower rank is left out for it.
    by_rank = [column.heading for column in sorted(columns, key=lambda column: column.rank)]
    folded = laid_out(is_heading_folded=True)
    return min(table, folded, key=lambda tried: [heading in tried.left_out for heading in by_rank])


def _laid_out(fitted: Sequence[_Fitted], date: str, width: int | None) -> TextTable:
    above, chosen, below = ([], fitted, []) if width is None else _fit(fitted, width)
    if width is None:
        width = sum(column.widest + len(GAP) for column in fitted)
    indent = _INDENT if above else ""
    ids = [GAP.join(texts) for texts in zip(*(column.texts for column in above), strict=True)]
    rows = [_joined(lines, chosen, indent) for lines in zip(*(column.lines() for column in chosen), strict=True)]
    headings = [[column.aligned(cut(line, column.width)) for line in column.heading] for column in chosen]
    heading = [cut(line, width) for line in _joined(headings, chosen, indent) if line.strip()]
    whole = _with_neighbours(ids, rows, below, width)
    shown = [[_cut_line(line, width) for line in lines] for lines in whole]
    without = [column for column in fitted if column not in (*above, *chosen, *below) and column.is_missed]
    return TextTable(
        date=date,
        heading="\n".join(heading),
        rows=shown,
        left_out=[column.column.heading for column in without if not column.is_same_everywhere],
        everywhere=[
            f"{column.column.heading} {_quoted(column.texts[0])}" for column in without if column.is_same_everywhere
        ],
        is_cut=shown != whole or any(column.is_tight for column in chosen if not column.is_text),
        is_folded=any(column.is_tight for column in chosen),
    )


def _quoted(text: str) -> str:
    """Put a text of several words in quotes, so that a reader can tell it from the heading before it."""
    return f'"{text}"' if " " in text else text


def _cut_line(line: str, width: int) -> str:
    """Return a line cut to a width.

    A cut line loses its colours.
    """
    plain = click.unstyle(line)
    return line if width_of(plain) <= width else cut(plain, width)


def _joined(columns: Sequence[Sequence[str]], chosen: Sequence[_Fitted], indent: str) -> list[str]:
    """Return the lines of a row of the table.

    Args:
        columns: the lines of each column in this row.
        chosen: the columns, with their widths.
        indent: the indentation of each line.
    """
    nothing = [" " * column.width for column in chosen]
    lines = zip_longest(*columns)
    return [
        indent + GAP.join(cell or space for cell, space in zip(line, nothing, strict=True)).rstrip() for line in lines
    ]


def _with_neighbours(
    ids: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[_Fitted], width: int
) -> list[list[str]]:
    """Return the lines of each row, with the ids above the row and the sentences below it.

    Args:
        ids: the ids of each row. The ids of a row are shown only if they differ from the ids of the row before.
        rows: the lines of each row.
        below: the columns whose texts go below the row.
        width: the width of a line.
    """
    every: list[list[str]] = []
    for place, lines in enumerate(rows):
        is_first = bool(ids) and (not place or ids[place] != ids[place - 1])
        shown = [ids[place], *lines] if is_first else [*lines]
        for column in below:
            if not column.is_empty(column.texts[place]):
                first, *more = _folded(f"{column.column.heading}: {column.texts[place]}", max(width - len(_BELOW), 1))
                shown += [_BELOW[: -len(_INDENT)] + first, *(_BELOW + line for line in more)]
        every.append(shown)
    return every
