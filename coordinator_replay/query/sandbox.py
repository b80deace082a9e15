"""The embedded engine as statements of users see it: the tables, and nothing else of this machine or its network.

A statement may come from a wiki, a ticket or a language model. DuckDB itself can read and write any file with the
rights of whoever runs it, attach databases and load extensions; here it is shut off from all files but those of the
tables before a statement is looked at, and statements that write files are refused.
"""

import re
from pathlib import Path

import duckdb

from coordinator_replay.errors import UsageError
from coordinator_replay.store.duckdb_files import THROUGH_ARROW, local_path, quoted

_IN_MEMORY = {
    "SELECT",
    "CREATE",
    "DROP",
    "ALTER",
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE_INTO",
    "SET",
    "VARIABLE_SET",
    "PRAGMA",
    "CALL",
    "TRANSACTION",
    "RELATION",
    "ANALYZE",
}
"""Kinds of statements that touch tables and memory only; tables that they make end with the answer."""

_EXPLAINED = re.compile(r"\s*EXPLAIN\s+(?:\([^()]*\)\s*)?(?:ANALYZE\s+)?(?P<statement>.*)", re.IGNORECASE | re.DOTALL)
_PIVOT = re.compile(r"\s*(?:PIVOT|UNPIVOT|FROM|SELECT|WITH)\b", re.IGNORECASE)
_IMPORT = re.compile(r"import", re.IGNORECASE)

_REFUSED = "without --allow-files, statements read the tables and touch no files: "


def shut(connection: duckdb.DuckDBPyConnection, warehouse: str) -> None:
    """Shut an engine off from everything but the files of a warehouse, for as long as it is open."""
    root = local_path(warehouse)
    place = warehouse if root is None else str(Path(root).absolute())
    allowed = ", ".join(quoted(f"{one}/") for one in (place, f"{THROUGH_ARROW}{place}"))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    # Variables of this program are no tables.
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")


def check(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Make sure that statements write no file: those of the warehouse are the only ones in reach.

    Raises:
        UsageError: one of them might.
        duckdb.Error: they can't be read.
    """
    for statement in connection.extract_statements(text):
        kind = statement.type.name
        if kind == "EXPLAIN":
            explained = _EXPLAINED.fullmatch(statement.query)
            if explained is None:
                raise UsageError(f"{_REFUSED}begin with EXPLAIN")
            check(connection, explained["statement"])
        elif kind == "MULTI":
            if not _PIVOT.match(statement.query):
                raise UsageError(f"{_REFUSED}PIVOT can't be part of another statement")
        elif kind not in _IN_MEMORY or (kind == "PRAGMA" and _IMPORT.search(statement.query)):
            raise UsageError(f"{_REFUSED}{kind} is refused")


def explain_refusal(problem: duckdb.Error) -> str | None:
    """A sentence for what the engine did not allow; None for all other problems."""
    if isinstance(problem, duckdb.PermissionException):
        return f"{_REFUSED}{str(problem).split(chr(10), 1)[0].removeprefix('Permission Error: ')}"
    return None
