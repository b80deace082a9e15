"""Which versions of the tables count: those that finished runs left, and what has only moved rows since.

Delta commits one table at a time, and a run commits all of its tables at its end, the ledger last. A run that is
killed in between leaves tables that are ahead of the ledger. So the ledger decides: its newest row holds the version
of every table when that run ended. What comes after is told by the commits themselves:

- a commit that carries a run's id is of a run that is not in the ledger: it is at work now, or was killed;
- a commit that changes no data (OPTIMIZE, VACUUM, properties, new columns) and one of our own upkeep leave the table
  as good as it was;
- whatever else changed data is somebody else's, and no audit can go on from it.

An audit restores tables that are ahead before it begins. A question, which may not write, reads the version that
counts.
"""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from coordinator_replay.errors import WarehouseError
from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.store.layout import RESTORED_PROPERTY, RUN_PROPERTY, UPKEEP_PROPERTY
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import Snapshot
from coordinator_replay.store.warehouse import LEDGER, Store
from coordinator_replay.tables.definition import tables

RECORD_TABLES = frozenset({"offset_commits", "group_records", "control_records", "quarantine", LEDGER})
"""Tables that no other is made from; all others can be derived anew by ``--full``."""

_TABLES_AT_ONCE = 8
_CHANGES_DATA = b'"dataChange":true'


class Finished(NamedTuple):
    """The newest run that is done, of whichever cluster.

    Attributes:
        run_id: its id; ids rise with time.
        versions: the version of every table when it ended; empty where no run has finished yet.
    """

    run_id: str
    versions: Mapping[str, int]


NOTHING_FINISHED = Finished("", {})
"""What the ledger says of a warehouse that no run has finished in."""


@dataclass(frozen=True, slots=True)
class TableState:
    """How a table compares with the ledger.

    Attributes:
        name: the table.
        newest: its newest version; None where it is missing.
        counts: the newest version that holds what finished runs wrote, and nothing else.
        is_ahead: whether an unfinished run has committed after that.
        damage: what is wrong with it, as a sentence that names the table; empty where nothing is.
    """

    name: str
    newest: int | None
    counts: int
    is_ahead: bool = False
    damage: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A warehouse that is ready for a run.

    Attributes:
        last: the newest run that is done.
        versions: the version of each table that is there.
        undone: tables that a killed run had changed, and that were restored.
    """

    last: Finished
    versions: Mapping[str, int]
    undone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Commit:
    version: int
    info: Mapping[str, Any]
    changes_data: bool

    def restored(self) -> int | None:
        """The version that the commit went back to, whoever made it."""
        if self.info.get("operation") != "RESTORE":
            return None
        written = self.info.get(RESTORED_PROPERTY) or self.info.get("operationParameters", {}).get("version")
        return int(written) if str(written).isdigit() else None


def last_finished(store: Store) -> Finished:
    """The newest run that is done, by the ledger.

    Args:
        store: the warehouse.

    Raises:
        WarehouseError: the ledger can't be read.
    """
    ledger = store.snapshot(LEDGER)
    return NOTHING_FINISHED if ledger is None else finished_of(ledger)


def finished_of(ledger: Snapshot) -> Finished:
    """The newest run that is done.

    Args:
        ledger: the table ``audit_runs``.

    Raises:
        WarehouseError: a file of it is missing or damaged.
    """
    found = NOTHING_FINISHED
    # The newest file first: the others are passed over by their bounds.
    for file in sorted(ledger.every, key=lambda file: str(file.highest.get("run_id", "~")), reverse=True):
        if str(file.highest.get("run_id", "~")) <= found.run_id:
            break
        for batch in read_table([file], ["run_id", "status", "table_versions"]):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                if row.get("status") == "done" and row["run_id"] > found.run_id:
                    found = Finished(row["run_id"], row.get("table_versions") or {})
    return found


def _commit(store: Store, name: str, version: int) -> _Commit | None:
    """A commit of a table's log; None where the log does not go back to it any more."""
    filesystem, path = open_filesystem(f"{store.path(name)}/_delta_log/{version:020}.json")
    try:
        with filesystem.open_input_stream(path) as stream:
            written = bytes(stream.read())
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise WarehouseError(f"{store.path(name)}: version {version} of its log can't be read: {problem}") from problem
    info = next((line for line in written.splitlines() if line.startswith(b'{"commitInfo"')), b"{}")
    return _Commit(version, json.loads(info).get("commitInfo", {}), _CHANGES_DATA in written)


def state_of(store: Store, name: str, newest: int | None, last: Finished) -> TableState:
    """How a table compares with the ledger.

    Args:
        store: the warehouse.
        name: a table of the contract.
        newest: its newest version; None where it is missing.
        last: the newest run that is done.

    Raises:
        WarehouseError: its log can't be read.
    """
    path, known = store.path(name), last.versions.get(name)
    if newest is None:
        damage = "" if known is None else f"{path}: the table is gone, the last audit left it at version {known}"
        return TableState(name, None, 0, damage=damage)
    if known is not None and newest < known:
        return TableState(
            name,
            newest,
            newest,
            damage=f"{path} is at version {newest}, the last audit left it at version {known}: part of its log was "
            f"lost, or an older copy put in its place",
        )
    return _after(store, name, newest, known or 0)


def _after(store: Store, name: str, newest: int, known: int) -> TableState:
    """What the commits after a version that counts have made of a table."""
    good, counts, is_ahead, foreign = {known}, known, False, ""
    for version in range(known + 1, newest + 1):
        commit = _commit(store, name, version)
        if commit is None:
            continue
        if commit.restored() in good:
            is_ahead, foreign = False, ""
        elif RUN_PROPERTY in commit.info:
            is_ahead = is_ahead or name != LEDGER
        elif commit.changes_data and UPKEEP_PROPERTY not in commit.info:
            foreign = foreign or f"version {version} is a {commit.info.get('operation', 'commit of unknown kind')}"
        if not is_ahead and not foreign:
            good.add(version)
            counts = version
    damage = (
        f"{store.path(name)} was changed by somebody else: {foreign}, and the last version that audits know is {counts}"
        if foreign
        else ""
    )
    return TableState(name, newest, counts, is_ahead=is_ahead and not foreign, damage=damage)


def refuse(state: TableState) -> None:
    """Make sure that a table is what finished runs wrote, or is only ahead of that.

    Args:
        state: how it compares with the ledger.

    Raises:
        WarehouseError: it is not; the sentence says what to do.
    """
    if not state.damage:
        return
    back = "" if state.newest is None or state.newest == state.counts else f"restore it to version {state.counts}, "
    anew = "" if state.name in RECORD_TABLES else "run audit with --full, which derives it anew, "
    raise WarehouseError(f"{state.damage}; {back}{anew}restore a backup, or audit into a new warehouse")


def _states(store: Store, last: Finished, *, is_ledger_there: bool) -> list[TableState]:
    def state(name: str) -> TableState:
        opened = store.open(name)
        if opened is None:
            return state_of(store, name, None, last)
        if not is_ledger_there and opened.version() > 0:
            raise WarehouseError(
                f"{store.path(LEDGER)}: the ledger is gone, and without it nothing says which audits have finished; "
                f"restore a backup, or audit into a new warehouse"
            )
        return state_of(store, name, opened.version(), last)

    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        return list(pool.map(state, tables()))


def begin(store: Store, *, except_derived: bool = False) -> Begun:
    """Make sure that the tables hold what finished runs wrote; undo what a killed run has left in them.

    Whoever calls this holds the lock of the warehouse.

    Args:
        store: the warehouse; it may be empty.
        except_derived: leave tables as they are that are going to be derived anew, as ``--full`` does.

    Raises:
        WarehouseError: a table is missing, was rolled back, or was changed by somebody else; or the warehouse was
            made by another release.
    """
    ledger = store.snapshot(LEDGER)
    last = NOTHING_FINISHED if ledger is None else finished_of(ledger)
    states = _states(store, last, is_ledger_there=ledger is not None)
    # All are looked at before any is touched.
    for state in states:
        if not (except_derived and state.name not in RECORD_TABLES):
            refuse(state)
    versions, undone = {}, []
    for state in states:
        if state.newest is None:
            continue
        versions[state.name] = state.newest
        if state.is_ahead:
            versions[state.name] = _restore(store, state)
            undone.append(state.name)
    return Begun(last, versions, tuple(undone))


def _restore(store: Store, state: TableState) -> int:
    path = store.path(state.name)
    properties = CommitProperties(custom_metadata={RESTORED_PROPERTY: str(state.counts)})
    opened = store.open(state.name)
    assert opened is not None  # noqa: S101 - its state is known
    try:
        opened.restore(state.counts, commit_properties=properties)
    except (DeltaError, OSError, ValueError) as problem:
        raise WarehouseError(
            f"{path}: what an unfinished audit left can't be undone by restoring version {state.counts}: {problem}; "
            f"restore a backup, or audit into a new warehouse"
        ) from problem
    again = store.open(state.name)
    assert again is not None  # noqa: S101 - it has just been restored
    return again.version()


def version_that_counts(store: Store, opened: DeltaTable, name: str, last: Callable[[], Finished]) -> int:
    """The newest version of a table that holds what finished runs wrote: the one that questions read.

    Args:
        store: the warehouse.
        opened: the table at its newest version.
        name: which it is.
        last: gives the newest run that is done.

    Raises:
        WarehouseError: the table was rolled back, or was changed by somebody else.
    """
    state = state_of(store, name, opened.version(), last())
    refuse(state)
    return state.counts
