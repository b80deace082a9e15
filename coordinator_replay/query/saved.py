"""Saved queries: the files of ``conf/queries``.

A file begins with comments: what the query answers, then a line for each parameter it takes::

    -- Groups that rebalance most often, with the usual cause and the busiest hour.
    -- param group text: only this group
    -- param least number = 2: rebalances from which on a group counts
    -- note A rebalance that is not over counts, too.
    -- then why GROUP explains each rebalance
    SELECT ...

``$group`` in the statement is the value of the parameter ``group``. It is null if the user gives no value and the line
has no default. ``$cluster`` is the cluster that the user asks about, and needs no line. Types are text, number and
time. A time ``to`` is the end of a range, so a date means the end of that day. The line ``note`` says how to read the
rows, and what they lack. It is shown with every answer. The line ``then`` names the command to type next. These lines
are optional, too::

    -- none No group has missing records.
    -- total unowned_ms by group_id; topic:partition
    -- instead rewinds: offsets that went back
    -- also never-owned-partitions: partitions without an owner
    -- row {group_id} {topic}:{partition} to {committed_offset} at {at}
    -- old at

``none`` is the conclusion from an answer without rows. ``total`` names a column: a note has the sum of its values, and
the largest sums by other columns. ``also`` names another saved query: a note says how many rows the other query has for
the same values of its parameters. ``instead`` also names another query, but the note appears only if this query has no
rows and the other query has rows. The note also shows the first row of the other query. The line ``row`` in the file of
the other query has the form of this text. ``old`` names columns that have a new name: JSON, CSV and ``--wide`` keep
them for one release.

``{never-owned-partitions}`` in the statement stands for all rows of the saved query of this name. It becomes a
subquery: the statement of that query without the ``ORDER BY`` and ``LIMIT`` at its end, which a file must have on lines
of their own. Parameters of the same name have the same value in both queries. ``{jumps-ahead threshold=ahead}`` gives
the parameter ``threshold`` of ``jumps-ahead`` the value of ``$ahead``.
"""

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from coordinator_replay.answer_columns import column
from coordinator_replay.errors import DefinitionError, UsageError
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.listing import counted, listed
from coordinator_replay.query.similar import LEAST_PART, did_you_mean
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import moment_text

_PARAMETER = re.compile(
    r"^-- param (?P<name>[a-z][a-z_]*) (?P<type>[a-z]+)(?: = (?P<default>[^:]+))?: (?P<about>.+)$", re.MULTILINE
)
_NOTE = "note "
_THEN = "then "
_NONE = "none "
_TOTAL = "total "
_INSTEAD = "instead "
_ALSO = "also "
_ROW = "row "
_OLD = "old "
_MARKS = ("param ", _NOTE, _THEN, _NONE, _TOTAL, _INSTEAD, _ALSO, _ROW, _OLD)
_START, _END = "from", "to"
"""Parameters that begin and end a time range."""
_MOST = "most"
"""The parameter with the largest number of rows to show."""
_MOST_SUMS = 4
"""Largest number of sums by other columns that a note names."""
_OTHER_QUERY = re.compile(r"\{(?P<name>[a-z]+(?:-[a-z]+)*)(?P<renamed>(?: [a-z_]+=[a-z_]+)*)\}")
"""The text in a statement that stands for another saved query, with other names for that query's parameters."""
_ORDER_AND_LIMIT = re.compile(r"(?:\nORDER BY [^\n]+(?:\n [^\n]+)*)?(?:\nLIMIT [^\n]+)?\Z")
"""The end of a saved query's statement. It is cut off where another query includes the statement."""
_PARTS = re.compile(r"\w+|\W+")
"""The names of columns and the texts between them."""
_USED = re.compile(r"\$([a-z_]+)")
"""A parameter in a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a saved query.

    Attributes:
        type: ``text``, ``number`` or ``time``.
        default: the value to use if the user gives none, in the form that a user types; None for null.
        about: the effect of the parameter.
    """

    name: str
    type: str
    default: str | None
    about: str

    def __str__(self) -> str:
        return self.name if self.default is None else f"{self.name}={self.default}"

    def read(self, text: str, warehouse: Tables) -> Any:
        """Convert a value that the user typed to the parameter's type.

        Raises:
            UsageError: the text is not a value of the parameter's type.
        """
        try:
            if self.type == "time" and self.name == _END:
                return warehouse.resolve_end(warehouse.read_end_time(text))
            if self.type == "time":
                return warehouse.resolve(warehouse.read_time(text))
            if self.type == "number":
                return _number(text, is_limit=self.name == _MOST)
            return text
        except UsageError as problem:
            raise UsageError(f"parameter {self.name}: {problem}") from None
        except (ValueError, OverflowError):
            raise UsageError(f"parameter {self.name}: {text!r} is no {self.type}") from None


def _number(text: str, *, is_limit: bool) -> int | float:
    """Return a number that the user typed.

    Args:
        text: the text that the user typed.
        is_limit: whether the number is the largest number of rows to show.

    Raises:
        UsageError: the number is too large for SQL, or it is a limit and no whole number of at least 1.
        ValueError: the text is no number.
        OverflowError: the number is infinite.
    """
    value = float(text)
    number = int(text) if text.strip().lstrip("+-").isdecimal() else int(value) if value == int(value) else value
    if abs(number) > LARGEST_INT64:
        raise UsageError(f"{text!r} is too large: the largest number is {LARGEST_INT64}")
    if is_limit and (number < 1 or isinstance(number, float)):
        raise UsageError(f"{text!r} is no number of rows: write a whole number, 1 or more")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """A saved query: a file of ``conf/queries``.

    Attributes:
        about: a sentence with the question that the query answers.
        parameters: the query's parameters, in the order of the file.
        note: how to read the rows, and what they lack; empty if the file has no such line.
        then: a sentence with the command to type next and its result; empty if the file has no such line.
        none: the conclusion from an answer without rows; empty if the file has no such line.
        total: the column whose values a note sums up; empty if the file has no such line.
        total_by: columns by which a note groups these sums, as texts such as ``group_id`` or ``topic:partition``.
        instead: name of another query to ask if this query has no rows, with a description of that query's rows.
        also: name of another query whose rows belong to the answer, with a description of these rows.
        row: pattern of the text with which a note shows a row, with names of columns in braces; empty if the file has
            no such line.
        old: old names of columns that were renamed. The query returns such a column twice, under the old and the new
            name.
        sql: a SELECT in DuckDB's SQL.
    """

    name: str = column("NAME", 1)
    parameters: tuple[Parameter, ...] = column("PARAMETERS", 2, 12)
    about: str = column("ANSWERS", 1, 20, good=20)
    note: str
    then: str
    none: str
    total: str
    total_by: tuple[str, ...]
    instead: tuple[str, str] | None
    also: tuple[str, str] | None
    row: str
    old: tuple[str, ...]
    sql: str

    def parameter(self, name: str) -> Parameter:
        """Return a parameter by its name.

        Raises:
            UsageError: the query has no parameter of this name.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = ", ".join(parameter.name for parameter in self.parameters) or "none"
        raise UsageError(f"saved query {self.name} takes no parameter {name!r}; it takes {names}")

    def defaults(self, warehouse: Tables) -> dict[str, Any]:
        """Return the default of each parameter, by the parameter's name.

        The default is None if the file of the query names none.
        """
        return {
            parameter.name: None if parameter.default is None else parameter.read(parameter.default, warehouse)
            for parameter in self.parameters
        }


def queries_folder() -> Path:
    """Return the folder with the files of the saved queries.

    The folder is in the installed package, or next to the package in a checkout.

    Raises:
        DefinitionError: neither folder exists, so the installation is broken.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "queries", package.parent / "conf" / "queries"):
        if folder.is_dir():
            return folder
    raise DefinitionError("the saved queries under conf/queries are missing: install the package again")


def _read(path: Path) -> SavedQuery:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    head = [line.removeprefix("--").strip() for line in itertools.takewhile(lambda line: line.startswith("--"), lines)]
    total, _, by = _marked(head, _TOTAL).partition(" by ")
    return SavedQuery(
        name=path.stem,
        about=" ".join(line for line in head if not line.startswith(_MARKS)),
        note=_marked(head, _NOTE),
        then=_marked(head, _THEN),
        none=_marked(head, _NONE),
        total=total,
        total_by=tuple(filter(None, by.split("; "))),
        instead=_other(_marked(head, _INSTEAD)),
        also=_other(_marked(head, _ALSO)),
        row=_marked(head, _ROW),
        old=tuple(_marked(head, _OLD).split()),
        parameters=tuple(Parameter(**match.groupdict()) for match in _PARAMETER.finditer(text)),
        sql=_OTHER_QUERY.sub(
            lambda match: f"(\n{_all_rows(_read(path.with_stem(match['name'])).sql, match['renamed'])}\n)",
            "\n".join(lines[len(head) :]).strip(),
        ),
    )


def _all_rows(sql: str, renamed: str) -> str:
    """Return the statement of a saved query as a subquery for another saved query (the outer query).

    The subquery has no ``ORDER BY`` and no ``LIMIT``, because the outer query must see all rows.

    Args:
        sql: the statement.
        renamed: pairs such as ``threshold=ahead``, separated by blanks. With this pair, the parameter ``threshold`` of
            the statement gets the value of the outer query's parameter ``ahead``.
    """
    names = dict(pair.split("=") for pair in renamed.split())
    # The outer query filters and counts, so rows must not be cut before.
    return _USED.sub(lambda match: f"${names.get(match[1], match[1])}", _ORDER_AND_LIMIT.sub("", sql))


def _marked(head: Sequence[str], mark: str) -> str:
    """Return the text of the comment lines that begin with a mark such as ``-- note``, without the mark.

    Args:
        head: the comment lines at the beginning of a saved query's file.
        mark: the mark.
    """
    return " ".join(line.removeprefix(mark) for line in head if line.startswith(mark))


def _other(text: str) -> tuple[str, str] | None:
    """Split the text ``rewinds: offsets that went back`` into ``rewinds`` and ``offsets that went back``.

    Such a text is in a line ``-- instead`` or ``-- also`` of a saved query. It has the name of another query, and words
    for the rows of that query. Return None if the text is empty.
    """
    name, _, rows = text.partition(": ")
    return (name, rows) if text else None


@cache
def saved_queries() -> dict[str, SavedQuery]:
    """Return all saved queries by name."""
    return {path.stem: _read(path) for path in sorted(queries_folder().glob("*.sql"))}


def saved_query(name: str) -> SavedQuery:
    """Return a saved query by its name.

    A unique part of a name is enough: ``storms`` for rebalance-storms.

    Raises:
        UsageError: no query has this name.
    """
    queries = saved_queries()
    name = name.strip().lower().replace("_", "-")
    if name not in queries:
        parts = [other for other in queries if len(name) >= LEAST_PART and name in other]
        if len(parts) == 1:
            return queries[parts[0]]
        hint = did_you_mean(name, list(queries), "coordinator-replay sql --list shows them")
        raise UsageError(f"no saved query is called {name!r}: {hint}")
    return queries[name]


def saved_terms(name: str, values: Mapping[str, str]) -> str:
    """Return a sentence that says which rows a saved query looks for, with the given values of its parameters."""
    query = saved_query(name)
    written = {parameter: values.get(parameter.name, parameter.default) for parameter in query.parameters}
    parts = [
        f"{parameter.name}={value}: {parameter.about}" for parameter, value in written.items() if value is not None
    ]
    return "; ".join([f"{name}: {query.about.rstrip('.')}", *parts]) + "."


def run_saved_query(
    warehouse: Tables, name: str, values: Mapping[str, str] | None = None, timeout: timedelta | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows that answer a saved query.

    Args:
        warehouse: the tables to read.
        name: name of the query.
        values: values of the query's parameters, as a user types them; other parameters have their defaults.
        timeout: the longest time that the statement may take; None for no limit.

    Returns:
        Names of the columns, and the rows.

    Raises:
        UsageError: no query has that name, the query has no such parameter, a value is not of the parameter's type, the
            tables have no record of the time range from ``from`` to ``to``, or the query takes longer than the timeout.
        WarehouseError: a table is missing or damaged.
    """
    query = saved_query(name)
    return run_sql(warehouse, query.sql, _read_values(warehouse, query, values or {}), timeout=timeout)


def _read_values(warehouse: Tables, query: SavedQuery, values: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the value of each parameter of a saved query, converted from the text that the user typed.

    Raises:
        UsageError: a value is not of its parameter's type, or the tables have no record of the time range from ``from``
            to ``to``.
    """
    written = {parameter.name: parameter.default for parameter in query.parameters}
    for key, value in values.items():
        written[query.parameter(key).name] = value
    read = {
        parameter.name: None if (text := written[parameter.name]) is None else parameter.read(text, warehouse)
        for parameter in query.parameters
    }
    # A query without an end may ask about lines of brokers' logs after the last record.
    if _END in read and (read[_START], read[_END]) != (None, None):
        warehouse.check_range(read[_START], read[_END])
    return read


def extra_notes(
    warehouse: Tables, name: str, values: Mapping[str, str], *, has_rows: bool, timeout: timedelta | None = None
) -> list[str]:
    """Return notes on the answer of a saved query: a sum over its rows, and rows of related saved queries.

    Args:
        warehouse: the tables to read.
        name: name of the query.
        values: values of the query's parameters, as a user types them.
        has_rows: whether the answer has rows.
        timeout: the longest time that each SQL statement may take; None for no limit.
    """
    query = saved_query(name)
    notes = []
    if query.total and has_rows:
        [(total, count)] = _summed(warehouse, query, f"sum({query.total}), count(*)", values, timeout)
        sums = [_sums_by(warehouse, query, by, values, timeout) for by in query.total_by]
        notes.append(" ".join(filter(None, [f"{query.total} in all: {total:,} ({counted(count, 'row')}).", *sums])))
    for other, is_only_instead in ((query.instead, True), (query.also, False)):
        if other is None or (is_only_instead and has_rows):
            continue
        asked, what = saved_query(other[0]), other[1]
        shared = {key: value for key, value in values.items() if any(key == each.name for each in asked.parameters)}
        [(count,)] = _summed(warehouse, asked, "count(*)", shared, timeout)
        params = [f"--param {shlex.quote(f'{key}={value}')}" for key, value in shared.items()]
        command = " ".join(["sql --query", asked.name, *params])
        if count:
            first = _first_row(warehouse, asked, shared, timeout) if is_only_instead and asked.row else ""
            where = (", the first: " if count > 1 else ": ") if first else ""
            notes.append(f"{what}: {counted(count, 'row')} of {command}{where}{first}.")
        elif not is_only_instead:
            notes.append(f"{what}: none on record ({command}).")
    return notes


def _summed(
    warehouse: Tables,
    query: SavedQuery,
    sums: str,
    values: Mapping[str, str],
    timeout: timedelta | None,
    rest: str = "",
) -> Sequence[tuple[Any, ...]]:
    """Return sums over all rows of a saved query, as if the query had no LIMIT.

    Args:
        warehouse: the tables to read.
        query: the saved query.
        sums: what to select, such as ``sum(total)``.
        values: values of the query's parameters, as a user types them.
        timeout: the longest time that the statement may take; None for no limit.
        rest: clauses after the FROM clause, such as GROUP BY; empty for one sum over all rows.
    """
    statement = f"SELECT {sums} FROM (\n{_all_rows(query.sql, '')}\n) AS every_row {rest}"  # noqa: S608 - text of a saved query
    _, rows = run_sql(warehouse, statement, _read_values(warehouse, query, values), timeout=timeout)
    return rows


def _sums_by(
    warehouse: Tables, query: SavedQuery, by: str, values: Mapping[str, str], timeout: timedelta | None
) -> str:
    """Return a sentence with the largest sums of a column of a saved query, such as the sum for each topic.

    ``query.total`` names the column. Return an empty text if there is only one sum.

    Args:
        warehouse: the tables to read.
        query: the saved query.
        by: the columns by which the sums are grouped, such as ``topic:partition``.
        values: values of the query's parameters, as a user types them.
        timeout: the longest time that each statement may take; None for no limit.
    """
    names = re.findall(r"\w+", by)
    key = " || ".join(
        f"coalesce({part}::VARCHAR, '-')" if part in names else f"'{part}'" for part in _PARTS.findall(by)
    )
    rest = f"GROUP BY {', '.join(names)} ORDER BY 2 DESC, 1"
    rows = _summed(warehouse, query, f"{key}, sum({query.total})", values, timeout, rest)
    if len(rows) < 2:
        return ""
    return f"By {by}: {listed([f'{name} {total:,}' for name, total in rows], _MOST_SUMS)}."


def _first_row(warehouse: Tables, query: SavedQuery, values: Mapping[str, str], timeout: timedelta | None) -> str:
    """Return a text with values of the first row in the answer of a saved query.

    The line ``-- row`` in the query's file has the form of the text, such as ``{topic}:{partition}``.
    """
    names, rows = run_sql(warehouse, query.sql, _read_values(warehouse, query, values), timeout=timeout)
    return query.row.format(**{name: _said(value) for name, value in zip(names, rows[0], strict=True)})


def _said(value: object) -> object:
    return "-" if value is None else moment_text(value) if isinstance(value, datetime) else value
