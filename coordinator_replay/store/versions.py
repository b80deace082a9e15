"""The valid version of each table: the newest version that has only data of finished runs (``state_of``).

Delta commits one table at a time. A run commits all of its tables at its end, and the ledger last. The newest row of
the ledger has the versions that the tables had when the run ended. If a run is killed between two of its commits, some
tables have newer versions than the ledger says. The commit information of a newer version shows who made the commit:

- A commit with the id of a run: this run has no row in the ledger. It is still at work, or was killed. The version is
  not valid.
- A commit that changes no data (OPTIMIZE, VACUUM, properties, new columns), or a commit of the command ``maintain``:
  the version is valid if the version before it is valid.
- Any other commit: somebody else changed the data. No audit can continue from this version.

An audit first restores the tables to their valid versions. A question does not write. It reads the valid versions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.duckdb_files import read_bytes, read_file
from coordinator_replay.store.layout import LEDGER, RESTORED_PROPERTY, RUN_PROPERTY, UPKEEP_PROPERTY
from coordinator_replay.store.snapshot import Snapshot

RECORD_TABLES = frozenset({"offset_commits", "group_records", "control_records", "quarantine", LEDGER})
"""Tables of records, and the ledger; all other tables can be rebuilt by ``--full``."""

_LEDGER_ROWS = "SELECT run_id, status, table_versions FROM read_parquet"

_CHANGES_DATA = b'"dataChange":true'


class Finished(NamedTuple):
    """The newest finished run, of any cluster.

    Attributes:
        run_id: id of the run; ids rise with time.
        versions: the version of every table at the end of the run; empty if no run has finished yet.
    """

    run_id: str
    versions: Mapping[str, int]


NOTHING_FINISHED = Finished("", {})
"""The result of ``last_finished`` for a warehouse in which no run has finished."""


def has_new_records(records_decoded: int | None, records_quarantined: int | None, control_records: int | None) -> bool:
    """Return whether a run read records that no earlier run had read, by the counts in its row of the ledger."""
    return bool(records_decoded or records_quarantined or control_records)


@dataclass(frozen=True, slots=True)
class TableState:
    """State of a table, compared with the ledger.

    Attributes:
        name: name of the table.
        newest: the table's newest version; None if the table is missing.
        counts: the valid version: the newest version that has only data of finished runs.
        is_ahead: whether a killed or running audit has made newer versions than ``counts``.
        damage: a sentence that names the table and its damage; empty if there is none.
    """

    name: str
    newest: int | None
    counts: int
    is_ahead: bool = False
    damage: str = ""


@dataclass(frozen=True, slots=True)
class _Commit:
    version: int
    info: Mapping[str, Any]
    changes_data: bool

    def restored(self) -> int | None:
        """Return the version that the commit restored, no matter who restored it; None for other commits."""
        if self.info.get("operation") != "RESTORE":
            return None
        written = self.info.get(RESTORED_PROPERTY) or self.info.get("operationParameters", {}).get("version")
        return int(written) if str(written).isdigit() else None


def last_finished(connection: duckdb.DuckDBPyConnection, ledger: Snapshot | None) -> Finished:
    """Return the newest finished run in the ledger; NOTHING_FINISHED if there is none.

    Raises:
        WarehouseError: the ledger can't be read.
    """
    newest = NOTHING_FINISHED
    # Files that may have the newest run come first, sorted by the highest id that each can have.
    bounded = [(str(file.highest.get("run_id", "~")), file.uri) for file in (ledger.every if ledger else ())]
    for highest, uri in sorted(bounded, reverse=True):
        if highest <= newest.run_id:
            break
        for run_id, status, versions in read_file(connection, _LEDGER_ROWS, uri):
            if status == "done" and run_id > newest.run_id:
                newest = Finished(run_id, versions or {})
    return newest


def _commit(connection: duckdb.DuckDBPyConnection, path: str, version: int) -> _Commit | None:
    """Return a commit of a table's log; None if the log no longer has it."""
    written = read_bytes(connection, f"{path}/_delta_log/{version:020}.json")
    if written is None:
        return None
    info = next((line for line in written.splitlines() if line.startswith(b'{"commitInfo"')), b"{}")
    return _Commit(version, json.loads(info).get("commitInfo", {}), _CHANGES_DATA in written)


def state_of(
    connection: duckdb.DuckDBPyConnection, path: str, name: str, newest: int | None, last: Finished
) -> TableState:
    """Return the state of a table, compared with the ledger.

    Args:
        connection: the connection that reads the table's log.
        path: the table's folder.
        name: name of the table.
        newest: the table's newest version; None if the table is missing.
        last: the newest finished run.

    Raises:
        WarehouseError: the table's log can't be read.
    """
    audited = last.versions.get(name)
    if newest is None:
        damage = "" if audited is None else f"{path}: the table is missing, the last audit left it at version {audited}"
        return TableState(name, None, 0, damage=damage)
    if audited is not None and newest < audited:
        return TableState(
            name,
            newest,
            newest,
            damage=f"{path} is at version {newest}, the last audit left it at version {audited}: part of its log was "
            f"lost, or an older copy put in its place",
        )
    return _after(connection, path, name, newest, audited or 0)


def _after(connection: duckdb.DuckDBPyConnection, path: str, name: str, newest: int, audited: int) -> TableState:
    """Return the state of a table, judged by Delta's commits after a version.

    Args:
        connection: the connection that reads the table's log.
        path: the table's folder.
        name: name of the table.
        newest: the table's newest version.
        audited: the version at the end of the last finished run.
    """
    good, counts, is_ahead, foreign = {audited}, audited, False, ""
    for version in range(audited + 1, newest + 1):
        commit = _commit(connection, path, version)
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
        f"{path} was changed by somebody else: {foreign}, and the last version that audits know is {counts}"
        if foreign
        else ""
    )
    return TableState(name, newest, counts, is_ahead=is_ahead and not foreign, damage=damage)


def refuse(state: TableState) -> None:
    """Check that a table is not damaged. A table that a killed run has changed is not damaged.

    Args:
        state: the state of the table.

    Raises:
        WarehouseError: the table is damaged; the message says what to do.
    """
    if not state.damage:
        return
    back = "" if state.newest is None or state.newest == state.counts else f"restore it to version {state.counts}, "
    raise WarehouseError(f"{state.damage}; {back}{ways_out(state.name)}")


def ways_out(name: str) -> str:
    """Return the ways to repair a damaged table, as text for an error message."""
    rebuild = "" if name in RECORD_TABLES else "run audit with --full, which rebuilds it, "
    return f"{rebuild}restore a backup, or audit into a new warehouse"
