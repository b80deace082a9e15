"""The first step of a run on a warehouse (``begin``).

It checks that the tables are as finished runs left them, and restores the tables that a killed run has changed. No
later step of the run checks the tables again.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSelector

from coordinator_replay.errors import WarehouseError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.store.duckdb_connection import connected
from coordinator_replay.store.layout import LEDGER, RESTORED_PROPERTY
from coordinator_replay.store.versions import (
    RECORD_TABLES,
    Finished,
    TableState,
    last_finished,
    refuse,
    state_of,
)
from coordinator_replay.store.warehouse import Store
from coordinator_replay.tables.definition import tables

_TABLES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Begun:
    """A warehouse that is ready for a run.

    Attributes:
        last: the newest finished run.
        versions: for each existing table, the version from which the run continues.
        undone: tables that a killed run had changed, and that were restored.
    """

    last: Finished
    versions: Mapping[str, int]
    undone: tuple[str, ...]


def _lost(path: str, opened: DeltaTable) -> str:
    """Return a sentence on a table whose folder lacks files that its log names; an empty text if no file is missing."""
    named = {unquote(name) for name in opened.get_add_actions().column("path").to_pylist() if "://" not in name}
    filesystem, folder = open_filesystem(path)
    there = filesystem.get_file_info(FileSelector(folder, recursive=True)) if named else []
    lost = sorted(named - {info.path[len(folder) :].lstrip("/") for info in there})
    return f"{path}: {len(lost)} of its {len(named)} files are missing, {lost[0]} among them" if lost else ""


def _states(store: Store, last: Finished, *, is_ledger_there: bool) -> list[TableState]:
    def state(name: str) -> TableState:
        opened = store.open(name)
        version = None if opened is None else opened.version()
        with connected() as connection:
            compared = state_of(connection, store.path(name), name, version, last)
        if not is_ledger_there and version:
            raise WarehouseError(
                f"{store.path(LEDGER)}: the ledger is missing, and without it nothing says which audits have finished; "
                f"restore a backup, or audit into a new warehouse"
            )
        if opened is None or compared.damage or compared.is_ahead:
            # A table that an unfinished run changed is restored later, and restoring checks the files.
            return compared
        return replace(compared, damage=_lost(store.path(name), opened))

    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        return list(pool.map(state, tables()))


def begin(store: Store, *, except_derived: bool = False, undoes: bool = True) -> Begun:
    """Check that the tables are as finished runs left them, and undo the changes of a killed run.

    The caller must hold the lock of the warehouse. Return the versions from which the run continues.

    Args:
        store: the warehouse; it may be empty.
        except_derived: accept damage of tables that this run rebuilds anyway (``--full``).
        undoes: whether to restore tables that a killed run has changed. If False, change nothing, and return the
            versions before the changes of the killed run.

    Raises:
        WarehouseError: a table is missing, lacks files, or was changed by somebody else. Or another release made the
            warehouse.
    """
    ledger = store.snapshot(LEDGER)
    with connected() as connection:
        last = last_finished(connection, ledger)
    states = _states(store, last, is_ledger_there=ledger is not None)
    # All tables are checked before any is changed.
    for state in states:
        if not (except_derived and state.name not in RECORD_TABLES):
            refuse(state)
    versions, undone = {}, []
    for state in states:
        if state.newest is None:
            continue
        versions[state.name] = state.newest
        if state.is_ahead and not undoes:
            versions[state.name] = state.counts
        elif state.is_ahead:
            is_rebuilt = except_derived and state.name not in RECORD_TABLES
            versions[state.name] = _restore(store, state, may_lack_files=is_rebuilt)
            undone.append(state.name)
    return Begun(last, versions, tuple(undone))


def _restore(store: Store, state: TableState, *, may_lack_files: bool) -> int:
    path = store.path(state.name)
    properties = CommitProperties(custom_metadata={RESTORED_PROPERTY: str(state.counts)})
    opened = store.open(state.name)
    assert opened is not None  # noqa: S101 - its state is known
    try:
        opened.restore(state.counts, ignore_missing_files=may_lack_files, commit_properties=properties)
    except (DeltaError, OSError, ValueError) as problem:
        raise WarehouseError(
            f"{path}: what an unfinished audit left can't be undone by restoring version {state.counts}: {problem}; "
            f"restore a backup, or audit into a new warehouse"
        ) from problem
    again = store.open(state.name)
    assert again is not None  # noqa: S101 - it has just been restored
    return again.version()
