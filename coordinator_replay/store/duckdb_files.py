"""Names by which DuckDB opens files: most files of this machine directly, other files through pyarrow."""

import re
from collections.abc import Iterable
from typing import Any

import duckdb

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.local_paths import local_path

THROUGH_ARROW = "arrow://"
"""Prefix of the name of a file that DuckDB opens through pyarrow's filesystems."""

_GLOB = re.compile(r"[*?\[\]]")
_RAISED = re.compile(r"^\w*(?:Error|Exception): (.+)$", re.MULTILINE)


def quoted(text: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def file_names(connection: duckdb.DuckDBPyConnection, uris: Iterable[str]) -> list[str]:
    """Return the names by which DuckDB can open files.

    DuckDB opens files of this machine directly. It opens files in object stores, and names that it would take for
    patterns, through pyarrow's filesystems.

    Args:
        connection: the connection that will read them.
        uris: the files, as paths or URIs.
    """
    paths = [(uri, local_path(uri)) for uri in uris]
    names = [path if path is not None and not _GLOB.search(path) else None for _, path in paths]
    if None in names:
        from coordinator_replay.store.arrow_files import SCHEME, ArrowFiles

        if not connection.filesystem_is_registered(SCHEME):
            connection.register_filesystem(ArrowFiles())
        return [name or f"{THROUGH_ARROW}{uri}" for name, (uri, _) in zip(names, paths, strict=True)]
    return [name for name in names if name is not None]


def read_file(connection: duckdb.DuckDBPyConnection, select: str, uri: str) -> list[tuple[Any, ...]]:
    """Return the rows of a small file.

    Args:
        connection: the connection that reads the file.
        select: the beginning of a SELECT, with the name of the function that reads the file, such as ``read_parquet``.
        uri: the file, as a path or URI.

    Raises:
        WarehouseError: the file can't be read.
    """
    [name] = file_names(connection, [uri])
    try:
        return connection.execute(f"{select}([{quoted(name)}])").fetchall()
    except duckdb.Error as problem:
        raise WarehouseError(f"{uri} can't be read: {first_line(problem)}") from problem


def read_bytes(connection: duckdb.DuckDBPyConnection, uri: str) -> bytes | None:
    """Return the bytes of a small file; None if the file does not exist.

    Raises:
        WarehouseError: the file can't be read.
    """
    try:
        contents = read_file(connection, "SELECT content FROM read_blob", uri)
    except WarehouseError as problem:
        # These errors of pyarrow's filesystems mean that the file does not exist.
        if "FileNotFoundError" in str(problem.__cause__):
            return None
        raise
    return bytes(contents[0][0]) if contents else None


def first_line(problem: Exception) -> str:
    """Return the message of an error of DuckDB, without the text of the SQL statement."""
    return raised_in_python(problem) or str(problem).split("\n", 1)[0]


def raised_in_python(problem: Exception) -> str | None:
    """Return the message of the Python error that an error of DuckDB repeats.

    Return None if the error of DuckDB does not come from a file system in Python.
    """
    raised = _RAISED.findall(str(problem)) if "Traceback" in str(problem) else []
    return raised[-1] if raised else None
