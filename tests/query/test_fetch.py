"""Rows of our own questions: planned once in a process, with the same answer each time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.query import fetch as module
from coordinator_replay.query.fetch import fetch, fetch_rows

AT = datetime(2026, 11, 20, 2, 3, tzinfo=UTC)


class Counted:
    """A connection that counts how often it plans a statement to tell its columns."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.planned = 0

    def sql(self, *arguments: Any, **named: Any) -> Any:
        self.planned += 1
        return self._connection.sql(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(module, "_shapes", {})
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        yield Counted(opened)


STATEMENTS = [
    "SELECT 1 AS a, 'x' AS b",
    "SELECT range AS a, TIMESTAMPTZ '2026-11-20 02:03:00+00' AS at, NULL::TIMESTAMPTZ AS never FROM range(5)",
    "SELECT range AS a, to_timestamp(-range * 1e10) AS at FROM range(40) ORDER BY hash(range) -- in this order",
    "SELECT TIMESTAMPTZ '12026-11-20' AS late, TIMESTAMPTZ 'infinity' AS never, [1, 2] AS list, {'a': 1} AS struct",
    "SELECT seen, seen, 1 AS seen FROM (SELECT TIMESTAMPTZ '2026-11-20' AS seen)",
    "SELECT TIMESTAMPTZ '2026-11-20' AS at WHERE false",
    "WITH times AS (SELECT $at AS seen) SELECT seen, 3 AS a FROM times",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_rows_are_those_of_a_statement_however_often_it_is_asked(connection: Any, statement: str):
    parameters = {"at": AT} if "$at" in statement else {}
    expected = fetch(connection, statement, parameters)[1]
    connection.planned = 0
    assert [fetch_rows(connection, statement, parameters) for _ in range(3)] == [expected] * 3
    assert connection.planned == 1


def test_a_parameter_of_another_type_has_columns_of_another_type(connection: Any):
    for value in (AT, 7, None, AT, "x", 7):
        assert fetch_rows(connection, "SELECT $value AS a, 1 AS b", {"value": value}) == [(value, 1)]
    assert connection.planned == 4


def test_no_more_than_so_many_statements_are_kept(connection: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_SHAPES", 3)
    for number in range(10):
        assert fetch_rows(connection, f"SELECT {number}", {}) == [(number,)]
        assert len(module._shapes) <= 3


def test_a_value_that_python_has_no_room_for_is_told(connection: Any):
    with pytest.raises(UsageError, match="too large to be shown"):
        fetch_rows(connection, "SELECT INTERVAL 9999999 YEAR AS a", {})
