"""Connections to DuckDB, which sorts and joins rows in memory, and computes window functions over them.

A process has one database for each number of threads, and each caller has a cursor. No other cursor sees the rows that
a cursor registers. DuckDB writes rows that exceed ``MEMORY`` into a temporary folder of the database.
"""

# If no folder is given, DuckDB writes into the current folder, which may be any folder in a Spark worker. Opening a
# database costs some 40 ms of CPU, opening a cursor less than 1 ms.

import atexit
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

MEMORY = "1GB"
"""Memory limit of a database: enough to sort a bucket; larger inputs are sorted on disk."""


class _Database:
    """A database in memory. Its temporary folder exists only while a cursor is open."""

    # A worker that is killed can't remove the folder.

    def __init__(self, threads: int | None) -> None:
        self._folder = Path(mkdtemp(prefix="coordinator-replay-duckdb-"))
        self._cursors = 0
        self._lock = Lock()
        config: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": str(self._folder),
            "memory_limit": MEMORY,
        }
        if threads is not None:
            config["threads"] = threads
        self._connection = duckdb.connect(config=config)
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        # DuckDB doesn't know a stream's length and takes it for short, so it would compare all pairs.
        self._connection.execute("SET GLOBAL asof_loop_join_threshold = 0")
        atexit.register(self._close)

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._lock:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._cursors += 1
        try:
            with self._connection.cursor() as cursor:
                yield cursor
        finally:
            with self._lock:
                self._cursors -= 1
                if self._cursors == 0:
                    shutil.rmtree(self._folder, ignore_errors=True)

    def _close(self) -> None:
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def _database(process: int, threads: int | None) -> _Database:
    # `process` is only a key of the cache: a forked process must not use its parent's database.
    return _Database(threads)


@contextmanager
def connected(*, threads: int | None = 1) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a cursor for the block. No table is registered in it, and its time zone is UTC.

    Args:
        threads: largest number of threads; None for the number of cores.
    """
    with _database(os.getpid(), threads).cursor() as cursor:
        yield cursor


def select(sql: str, parameters: Mapping[str, Any], /, **relations: pa.Table | pa.RecordBatchReader) -> pa.Table:
    """Return the result of a query.

    Args:
        sql: the query; it names parameters as ``$name``.
        parameters: the values of the parameters.
        relations: the rows that the query selects from, by name.
    """
    with connected() as connection:
        for name, rows in relations.items():
            connection.register(name, rows)
        return connection.sql(sql, params=dict(parameters)).to_arrow_table()
