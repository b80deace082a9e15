"""The rows that the embedded engine has for a statement, in Python's types."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import duckdb

from coordinator_replay.errors import UsageError
from coordinator_replay.query.interrupts import ended_by_ctrl_c
from coordinator_replay.times import EPOCH

_UNSHOWN = """CASE
    WHEN epoch_us(#{place}) BETWEEN -62135596800000000 AND 253402300799999999 THEN NULL
    ELSE #{place}::VARCHAR
END"""
"""The text of a moment outside the years 1 to 9999; null for all others."""


def fetch(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, object]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows that answer a statement; timestamps as UTC datetimes, those outside its calendar as text.

    Args:
        connection: the engine, which knows the tables that the statement names.
        statement: SQL.
        parameters: a value for each of its ``$names``.

    Returns:
        Names of the columns, and the rows; no columns where the statement has no answer.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        UsageError: a value is larger than Python's type for it.
        duckdb.Error: the statement is wrong, or a file can't be read.
    """
    try:
        with ended_by_ctrl_c(connection):
            relation = connection.sql(statement, params=dict(parameters) or None)
            return ([], []) if relation is None else _fetched(relation)
    except OverflowError as problem:
        raise UsageError(
            f"a value of the answer is too large to be shown: cast its column to VARCHAR ({problem})"
        ) from problem


def _fetched(relation: duckdb.DuckDBPyRelation) -> tuple[list[str], list[tuple[Any, ...]]]:
    names = relation.columns
    moments = [place for place, type_ in enumerate(relation.types) if str(type_) == "TIMESTAMP WITH TIME ZONE"]
    if not moments:
        return names, relation.fetchall()
    # DuckDB's own conversion asks for pytz; counting microseconds needs nothing.
    columns = [f"epoch_us(#{place + 1})" if place in moments else f"#{place + 1}" for place in range(len(names))]
    columns += [_UNSHOWN.format(place=place + 1) for place in moments]
    values = list(zip(*relation.project(", ".join(columns)).fetchall(), strict=True))
    if not values:
        return names, []
    for place, unshown in zip(moments, values[len(names) :], strict=True):
        values[place] = tuple(
            text if text is not None else None if micros is None else EPOCH + timedelta(microseconds=micros)
            for micros, text in zip(values[place], unshown, strict=True)
        )
    return names, list(zip(*values[: len(names)], strict=True))
