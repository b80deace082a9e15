"""Cursors of one database: apart from each other, in UTC, with a folder only while one is open."""

from pathlib import Path

import pyarrow as pa
import pytest

from coordinator_replay.store.duckdb_connection import MEMORY, connected


def _setting(connection, name: str):
    return connection.execute(f"SELECT current_setting('{name}')").fetchone()[0]


def test_rows_registered_with_one_cursor_are_not_seen_by_another():
    rows = pa.table({"a": [1, 2]})
    with connected() as one, connected() as other:
        one.register("rows_of_one", rows)
        assert one.execute("SELECT sum(a) FROM rows_of_one").fetchone() == (3,)
        with pytest.raises(Exception, match="rows_of_one"):
            other.execute("SELECT * FROM rows_of_one")
    with connected() as later, pytest.raises(Exception, match="rows_of_one"):
        later.execute("SELECT * FROM rows_of_one")


def test_a_cursor_has_utc_and_the_threads_asked_for():
    with connected() as connection:
        assert (_setting(connection, "TimeZone"), _setting(connection, "threads")) == ("UTC", 1)
    with connected(threads=2) as connection:
        assert (_setting(connection, "TimeZone"), _setting(connection, "threads")) == ("UTC", 2)


def test_the_folder_is_there_while_a_cursor_is_open_and_only_its_owner_may_read_it():
    with connected() as connection:
        folder = Path(_setting(connection, "temp_directory"))
        assert folder.stat().st_mode & 0o777 == 0o700
        with connected():
            pass
        assert folder.is_dir()
    assert not folder.exists()
    with connected():
        assert folder.stat().st_mode & 0o777 == 0o700


def test_what_does_not_fit_into_memory_is_sorted_in_the_folder_which_is_removed():
    with connected() as connection:
        folder = Path(_setting(connection, "temp_directory"))
        connection.execute("SET memory_limit = '100MB'")
        try:
            connection.execute("SELECT repeat('x', 200) || range AS text FROM range(1000000) ORDER BY hash(range)")
            connection.fetchone()
            assert any(folder.iterdir())
        finally:
            connection.execute(f"SET memory_limit = '{MEMORY}'")
    assert not folder.exists()
