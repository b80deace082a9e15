"""DuckDB for sorting, joining and windows over rows at hand; what does not fit into memory goes to a folder of its own.

Without that folder DuckDB would write below the current one, which in a Spark worker may be anywhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import duckdb

SORT_MEMORY = "1GB"
"""Enough to sort; what is larger is sorted on disk."""


@contextmanager
def connected(*, threads: int | None = 1, memory: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that knows no table yet; its time zone is UTC.

    Args:
        threads: how many it may use; None for as many as there are cores.
        memory: its limit, as DuckDB writes it; None for DuckDB's own.
    """
    with TemporaryDirectory() as aside, duckdb.connect(config={"temp_directory": aside}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        if threads is not None:
            connection.execute(f"SET threads = {threads}")
        if memory is not None:
            connection.execute(f"SET memory_limit = '{memory}'")
        yield connection
