"""Limits for DuckDB when it runs users' statements: it can read the tables, and no other file of machine or network.

A statement may come from a wiki, a ticket or a language model. DuckDB itself can read and write any file with the
rights of the user who runs it, attach databases and load extensions. A statement's first word does not show that the
statement is harmless: a ``COPY`` may be inside a ``SELECT``. So DuckDB gets only two file systems of our own. One reads
the files of the tables. The other is for DuckDB's temporary files, which have no names on disk.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import duckdb

from coordinator_replay.store.duckdb_files import first_line

_SHUT = """
SET temp_directory = '{scratch}://spilled';
SET allowed_paths = [];
SET allowed_directories = ['{tables}://'];
SET autoinstall_known_extensions = false;
SET autoload_known_extensions = false;
SET allow_persistent_secrets = false;
SET python_enable_replacements = false;
SET enable_external_access = false;
SET lock_configuration = true;
"""
"""Settings that shut the engine off. Without them, DuckDB would keep persistent secrets in the home folder, and would
take variables of this program for tables (replacement scans). The temporary directory is set first, because DuckDB
always allows access to it.
"""

_REFUSED = "without --allow-files, statements read the tables and touch no files: "


@contextmanager
def named_files(connection: duckdb.DuckDBPyConnection) -> Iterator[Callable[[Iterable[str]], list[str]]]:
    """Make a context in which DuckDB can open the files of tables under names that the yielded function gives them.

    At the end of the context, the connection is closed.

    Args:
        connection: connection of DuckDB.

    Yields:
        A function that takes paths or URIs of files, and returns the names under which DuckDB can open these files.
    """
    # fsspec takes a while to import, and questions without statements don't need it.
    from coordinator_replay.store.statement_files import ScratchFiles, TableFiles

    tables, scratch = TableFiles(), ScratchFiles()
    connection.register_filesystem(tables)
    connection.register_filesystem(scratch)
    try:
        yield tables.name
    finally:
        connection.close()
        scratch.close()


def shut(connection: duckdb.DuckDBPyConnection) -> None:
    """Shut DuckDB off from this machine and from the network. This can't be undone.

    After this call, DuckDB can open only its own temporary files, and files with a name from ``named_files``.

    Args:
        connection: connection of DuckDB.
    """
    from coordinator_replay.store.statement_files import SCRATCH, TABLES

    connection.execute(_SHUT.format(scratch=SCRATCH, tables=TABLES))


def explain_refusal(problem: duckdb.Error) -> str | None:
    """Return a sentence that explains why DuckDB may not open a file. Return None if the error is about something else.

    Args:
        problem: DuckDB's error.
    """
    if isinstance(problem, duckdb.PermissionException) or "PermissionError: " in str(problem):
        return f"{_REFUSED}{first_line(problem).removeprefix('Permission Error: ')}"
    return None
