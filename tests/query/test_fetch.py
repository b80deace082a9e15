"""Rows of statements: the same answer each time, whatever the columns and parameters are."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.query.fetch import fetch

AT = datetime(2026, 11, 20, 2, 3, tzinfo=UTC)
DAY = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        yield opened


STATEMENTS: dict[str, list[tuple[Any, ...]]] = {
    "SELECT 1 AS a, 'x' AS b": [(1, "x")],
    "SELECT range AS a, TIMESTAMPTZ '2026-11-20 02:03:00+00' AS at, NULL::TIMESTAMPTZ AS never FROM range(5)": [
        (number, AT, None) for number in range(5)
    ],
    "SELECT range AS a, to_timestamp(-range * 86400) AS at FROM range(40) ORDER BY -range -- in this order": [
        (number, datetime(1970, 1, 1, tzinfo=UTC) - number * timedelta(days=1)) for number in reversed(range(40))
    ],
    "SELECT TIMESTAMPTZ 'infinity' AS never, [1, 2] AS list, {'a': 1} AS struct": [("infinity", [1, 2], {"a": 1})],
    "SELECT seen, seen, 1 AS seen FROM (SELECT TIMESTAMPTZ '2026-11-20' AS seen)": [(DAY, DAY, 1)],
    "SELECT TIMESTAMPTZ '2026-11-20' AS at WHERE false": [],
    "WITH times AS (SELECT $at AS seen) SELECT seen, 3 AS a FROM times": [(AT, 3)],
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_rows_are_the_same_however_often_a_statement_is_asked(connection: Any, statement: str):
    parameters = {"at": AT} if "$at" in statement else {}
    assert [fetch(connection, statement, parameters)[1] for _ in range(3)] == [STATEMENTS[statement]] * 3


def test_a_parameter_of_another_type_has_columns_of_another_type(connection: Any):
    for value in (AT, 7, None, AT, "x", 7):
        assert fetch(connection, "SELECT $value AS a, 1 AS b", {"value": value})[1] == [(value, 1)]


def test_a_value_that_python_has_no_room_for_is_told(connection: Any):
    with pytest.raises(UsageError, match="too large to be shown"):
        fetch(connection, "SELECT INTERVAL 9999999 YEAR AS a", {})
