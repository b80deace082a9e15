"""Columns of answers.

Each answer has a dataclass for its rows, and each field of this dataclass is a column. SELECT lists, the keys of JSON
and CSV, tables on a terminal and the Python API all have the fields in this order.

A field that ``column`` makes also has an ``AnswerColumn``, which says how a table shows the column:

- the heading, in the words of Kafka's tools,
- the rank, which decides which columns a narrow terminal leaves out,
- the least width, to which a text may be cut,
- the SQL that reads the value, unless the value is the stored column of the same name.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import Any, TypeVar

LAST = 9
"""Rank of columns that a terminal shows only if all other columns leave room. ``print`` of an answer never does."""

PYTHON, REQUIRE_STABLE, END_OFFSETS = "Python", "--require-stable", "--end-offsets"
BEFORE_REMOVAL = "--before-removal"
STREAMS, SHARE, CLASSIC_MEMBERS = "streams groups", "share groups", "classic members"
COORDINATORS = "brokers' logs or the cluster metadata"
"""Values of ``AnswerColumn.only_with``. ``PYTHON`` stands for columns that no command shows. The other values are
options, types of groups or members, and sources that an audit may have read."""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """One column of an answer.

    Attributes:
        name: name of the column in JSON and CSV.
        heading: heading of the column in a table; empty for a column that only JSON, CSV and ``--wide`` have.
        rank: 1 for the main columns of an answer. Columns with a higher rank are left out first on a narrow terminal.
        least: smallest width to which the column's text may be cut; None if the text is shown whole or not at all.
        is_id: whether the values are ids, so that shortened texts must stay different. An id without ``least`` is an
            argument of other commands, so it is never shortened.
        good: width at which the text is readable. The column gets narrower only to make room for columns of rank 1.
        only_with: the condition for showing the column, as one of this module's constants from ``PYTHON`` to
            ``COORDINATORS``; for example ``SHARE`` for a column of share groups. Empty if the column is always shown.
        sql: the SQL expression that reads the value; empty for the stored column of the same name.
        read: function that converts DuckDB's value; None if the value stays as it is.
        text: function that turns the value into its text for a table; None for the usual text.
        bound: heading of a column of booleans that are true in rows in which the log proves only a bound of a value.
            A table has this column only if it is true in some row. Empty for any other column.
        is_sentence: whether a text that does not fit beside the other columns goes below its row.
        is_cut: whether a long text ends in ``…`` on a terminal instead of continuing in the next line.
    """

    name: str
    heading: str = ""
    rank: int = 5
    least: int | None = None
    is_id: bool = False
    good: int = 24
    only_with: str = ""
    sql: str = ""
    read: Callable[[Any], Any] | None = None
    text: Callable[[Any], object] | None = None
    bound: str = ""
    is_sentence: bool = False
    is_cut: bool = False


def column(*shown: Any, default: Any = MISSING, is_computed: bool = False, **more: Any) -> Any:
    """Return a field for the dataclass of an answer's rows.

    Args:
        shown: heading, rank and least width, as ``AnswerColumn`` has them.
        default: the field's default. A field with a default is not read from tables.
        is_computed: whether the row computes the field from its other fields.
        more: any other attribute of ``AnswerColumn``.
    """
    return field(default=default, init=not is_computed, metadata={"column": AnswerColumn("", *shown, **more)})


@cache
def columns_of(row_type: type[Any]) -> tuple[AnswerColumn, ...]:
    """Return the columns of an answer: one for each field of the dataclass of its rows, in the order of the fields."""
    return tuple(replace(field.metadata.get("column", AnswerColumn("")), name=field.name) for field in fields(row_type))


@cache
def stored_columns(row_type: type[Any]) -> tuple[AnswerColumn, ...]:
    """Return the columns of an answer that are read from tables.

    Fields with a default, and fields that the row computes, are left out.
    """
    is_read = {field.name: field.init and field.default is MISSING for field in fields(row_type)}
    return tuple(column for column in columns_of(row_type) if is_read[column.name])  # type: ignore[arg-type]  # a class is hashable


def select_list(row_type: type, table: str = "") -> str:
    """Return the expressions of a SELECT that reads the stored columns of an answer, separated by commas.

    Args:
        row_type: the dataclass of the answer's rows.
        table: the table's name in the statement, to put before the names of stored columns; empty for no name.
    """
    prefix = f"{table}." if table else ""
    return ", ".join(column.sql or f"{prefix}{column.name}" for column in stored_columns(row_type))


def parsed_json(text: str | None) -> Any:
    """Return the value of a stored JSON text.

    Return the text itself if it is not JSON, and None for null.
    """
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def row_with(row_type: type[Row], **values: Any) -> Row:
    """Return a row with the given values.

    Every other stored column is None.
    """
    nothing = dict.fromkeys(column.name for column in stored_columns(row_type))  # type: ignore[arg-type]  # as above
    return row_type(**(nothing | values))


def row_of(row_type: type[Row], values: Iterable[Any]) -> Row:
    """Return a row, given the values of its stored columns in the order of the columns.

    ``AnswerColumn.read`` converts the values.
    """
    pairs = zip(stored_columns(row_type), values, strict=True)  # type: ignore[arg-type]  # a class is hashable
    return row_type(**{column.name: value if column.read is None else column.read(value) for column, value in pairs})
