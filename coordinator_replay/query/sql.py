"""SQL statements of users over all tables and views of a warehouse, run in DuckDB.

``SHOW TABLES`` and ``DESCRIBE`` are not run in DuckDB, because DuckDB knows only the tables that a statement names.
``catalog_answer`` answers them from the definitions of the tables.
"""

import difflib
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import duckdb

from coordinator_replay.errors import UsageError
from coordinator_replay.query import sandbox
from coordinator_replay.query.fetch import ended_after, fetch
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.table_files import Engine
from coordinator_replay.query.tables import Tables
from coordinator_replay.tables.names import table_names
from coordinator_replay.tables.views import views, views_in, words_of

_SHOW_TABLES = re.compile(r"\s*SHOW\s+(?:ALL\s+)?(?:TABLES|VIEWS)\s*;?\s*", re.IGNORECASE)
_DESCRIBE = re.compile(
    r"\s*(?:(?:DESCRIBE|DESC)(?:\s+TABLE)?|SHOW\s+COLUMNS\s+(?:FROM|IN))\s+\"?([A-Za-z_]\w*)\"?\s*;?\s*", re.IGNORECASE
)

Answer = tuple[list[str], list[tuple[Any, ...]]]


def unknown_table(name: str) -> UsageError:
    """Return the error for a table that does not exist."""
    names = [*table_names(), *views()]
    hint = did_you_mean(name, names, f"there are {', '.join(names)}")
    return UsageError(f"no table is called {name}: {hint}")


def _tables() -> Answer:
    # Definitions need pyarrow, which most statements don't.
    from coordinator_replay.tables.definition import public_tables

    rows = [(table.name, "table", table.about) for table in public_tables().values()]
    rows += [(view.name, "view", view.about) for view in views().values()]
    return ["name", "kind", "comment"], sorted(rows)


def _columns(name: str) -> Answer:
    from coordinator_replay.tables.definition import table

    columns = table(name).columns
    return (
        ["column", "type", "required", "comment"],
        [(column.name, column.type, column.is_required, column.about) for column in columns],
    )


def catalog_answer(statement: str) -> Answer | None:
    """Return the answer to a statement ``SHOW TABLES`` or ``DESCRIBE table``: names of columns, and rows.

    Return None for all other statements, and for ``DESCRIBE`` of a view.

    Raises:
        UsageError: ``DESCRIBE`` names a table that does not exist.
    """
    if _SHOW_TABLES.fullmatch(statement):
        return _tables()
    described = _DESCRIBE.fullmatch(statement)
    if described is None:
        return None
    name = described[1].lower()
    if name in views():
        # A view's columns are not defined anywhere; the engine derives them from its SELECT.
        return None
    if name not in table_names():
        raise unknown_table(described[1])
    return _columns(name)


_CLUSTER = re.compile(r"\$cluster\b")
_UNKNOWN_TABLE = re.compile(r"Table with name (\S+) does not exist")


def run_sql(
    warehouse: Tables,
    statement: str,
    parameters: Mapping[str, object] | None = None,
    *,
    allow_files: bool = False,
    timeout: timedelta | None = None,
    bounds: Mapping[str, str] | None = None,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a user's SQL statement on the tables of all clusters, and return the columns and rows of its result.

    The statement can't change the tables. ``$cluster`` in the statement stands for the warehouse's cluster.

    Args:
        warehouse: the tables to read.
        statement: the statement in DuckDB's SQL.
        parameters: values for the statement's other ``$names``.
        allow_files: let the statement read and write files, attach databases and load extensions, with the caller's
            rights.
        timeout: the longest time that the statement may take; None for no limit.
        bounds: values that the statement looks for, by column, such as the id of a group. Files without these values
            are not read. None to read all files.

    Returns:
        Names of the columns, and the rows; no columns if the statement returns nothing.

    Raises:
        UsageError: the statement is not correct SQL, needs other files, or takes longer than the timeout.
        WarehouseError: a table in the statement does not exist, or lacks a column because an older release wrote the
            table.
    """
    answer = catalog_answer(statement)
    if answer is not None:
        return answer
    needed = views_in(statement)
    words = {word for text in (statement, *(view.sql for view in needed)) for word in words_of(text)}
    values = dict(parameters or {})
    if _CLUSTER.search(statement):
        values["cluster"] = warehouse.cluster
    names = sorted(words.intersection(table_names()))
    with warehouse.new_connection() as connection, sandbox.named_files(connection) as name_files:
        for name in names:
            warehouse.offer(name, bounds, engine=Engine(connection, name_files))
        try:
            for view in needed:
                connection.execute(f"CREATE OR REPLACE TEMP VIEW {view.name} AS {view.sql}")
            if not allow_files:
                _check_single(connection, statement)
                sandbox.shut(connection)
            with ended_after(connection, timeout):
                return fetch(connection, statement, values)
        except duckdb.Error as problem:
            is_unbound = isinstance(problem, duckdb.BinderException)
            lacking = warehouse.lacking_column(problem, names) if is_unbound else None
            raise lacking or _wrong_statement(problem, statement) from problem


def _check_single(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Check that a text has only one statement of SQL.

    Raises:
        UsageError: the text has several statements.
    """
    count = len(connection.extract_statements(text))
    if count > 1:
        raise UsageError(f"this has {count} statements: give one at a time; WITH names what a statement needs twice")


_MARKED = re.compile(r"\n\n(?P<head>LINE \d+: )(?P<line>.*)\n(?P<space> *)\^")
_SYNTAX = "syntax error"
_MOST_BEFORE = 24
_CLAUSES = (
    *("SELECT", "DISTINCT", "FROM", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT", "OFFSET"),
    *("JOIN", "LEFT JOIN", "CROSS JOIN", "UNION ALL", "BETWEEN", "DESCRIBE", "SHOW TABLES", "INTERVAL", "VALUES"),
)
"""Clauses of SQL. If a mistyped clause makes a syntax error, the message suggests the most similar of these clauses."""

_LIKE_A_CLAUSE = 0.7


def _in_one_line(message: str) -> str:
    """Shorten DuckDB's error message about a statement to one line.

    For a syntax error, the line also has the words of the statement before the error. If a word at the error resembles
    a keyword of SQL, such as ``WHERE``, the line suggests this keyword.
    """
    said = message.partition("\n\nLINE ")[0]
    marked = _MARKED.search(message)
    if _SYNTAX not in said or marked is None:
        return said
    place = len(marked["space"]) - len(marked["head"])
    before, after = marked["line"][:place].rstrip(), marked["line"][place:]
    behind = f', behind "{_last_words(before)}"' if before else ""
    typed = [*before.split()[-1:], *after.split()[:1]]
    meant = next(filter(None, map(_clause_meant, typed)), None)
    return f"{said}{behind}{f': did you mean {meant}?' if meant else ''}"


def _last_words(text: str) -> str:
    """Return the last words of a text: as many whole words as fit into ``_MOST_BEFORE`` characters."""
    if len(text) <= _MOST_BEFORE:
        return text
    return text[-_MOST_BEFORE:].partition(" ")[2] or text[-_MOST_BEFORE:]


def _clause_meant(word: str) -> str | None:
    """Return the keyword of SQL that a mistyped word resembles.

    Return None if the word is itself a keyword, or resembles no keyword.
    """
    close = difflib.get_close_matches(word.upper(), _CLAUSES, n=1, cutoff=_LIKE_A_CLAUSE)
    return next((clause for clause in close if clause != word.upper()), None)


_LOST_CLUSTER = re.compile(
    r"\bcluster\s*(?:=|<>|!=)\s*(?:\)|;|$|(?:AND|OR|GROUP|ORDER|LIMIT|HAVING|QUALIFY|UNION)\b)", re.IGNORECASE
)
"""A comparison of the cluster with nothing: what a shell leaves of ``cluster = $cluster`` in double quotes."""

_LOST_CLUSTER_HINT = (
    "your shell may have replaced $cluster by nothing: put the statement in single quotes, and write texts in it as "
    "$$text$$"
)


def _wrong_statement(problem: duckdb.Error, statement: str) -> UsageError:
    refused = sandbox.explain_refusal(problem)
    if refused is not None:
        return UsageError(refused)
    unknown = _UNKNOWN_TABLE.search(str(problem))
    if unknown is None and _LOST_CLUSTER.search(statement):
        return UsageError(f"{_in_one_line(str(problem)).partition(': did you mean ')[0]}: {_LOST_CLUSTER_HINT}")
    if unknown is None:
        return UsageError(_in_one_line(str(problem)))
    # The engine itself can suggest only tables that the statement already names.
    return unknown_table(unknown[1])
