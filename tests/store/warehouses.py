"""Small warehouses for tests of the store: runs that write a few rows into each table and end, or don't."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from coordinator_replay.store.beginning import begin
from coordinator_replay.store.layout import DEFAULT_BUCKETS, LEDGER, RUN_PROPERTY
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import Snapshot
from coordinator_replay.store.warehouse import Store
from coordinator_replay.store.writer import DataFile, FileWriter, table_part
from coordinator_replay.tables.definition import table

WRITTEN = ("offset_commits", "rebalances", "findings")
"""The tables that the runs here write to, beside the ledger."""

Row = dict[str, Any]


def when(minute: int) -> datetime:
    """A moment of the log's hour, in milliseconds as the writer takes it."""
    return datetime(2026, 11, 20, 2, minute, tzinfo=UTC)


def millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def commit_row(offset: int, group: str = "payments") -> Row:
    return {
        "group_id": group,
        "topic": "orders",
        "partition": 0,
        "committed_offset": offset,
        "is_tombstone": False,
        "key_version": 1,
        "record_bytes": 100,
        "log_partition": 3,
        "log_offset": offset,
        "log_timestamp": millis(when(offset % 60)),
    }


def rebalance_row(offset: int, *, is_over: bool = True) -> Row:
    return {
        "rebalance_id": f"r{offset}",
        "group_id": "payments",
        "group_type": "consumer",
        "epoch": offset,
        "completed_at": millis(when(offset % 60)) if is_over else None,
        "cause": "MEMBER_JOIN",
        "confidence": "certain",
        "is_exact": True,
        "settled_at_offset": offset if is_over else None,
    }


def finding_row(offset: int) -> Row:
    return {"finding_id": f"f{offset}", "rule": "rewind", "severity": "info", "message": "Something.", "occurrences": 1}


def write(store: Store, name: str, rows: Sequence[Row], **values: Any) -> list[DataFile]:
    """Rows as files of a table, not yet committed."""
    given = {"cluster": "default", "bucket": 3, "is_open": False, **values}
    writer = FileWriter()
    writer.add_rows(table_part(table(name), store.path(name), given), rows)
    return writer.close()


def prepare(store: Store) -> Mapping[str, Snapshot]:
    """The tables that runs write, the ledger first."""
    return {name: store.create(name, DEFAULT_BUCKETS) for name in (LEDGER, *WRITTEN, "group_records")}


class Run:
    """A run as the pipeline makes it: begins, commits table by table, ends with the ledger."""

    def __init__(self, store: Store, number: int, cluster: str = "default", *, is_full: bool = False) -> None:
        self.store, self.number, self.cluster = store, number, cluster
        self.run_id = f"20261120T0300{number:02}.000000Z"
        self.begun = begin(store, except_derived=is_full)
        self.snapshots = prepare(store)
        self.versions = {name: snapshot.version for name, snapshot in self.snapshots.items()}

    def commit(self, name: str) -> None:
        """One row more in a table; of rebalances, one that is open in place of the one before."""
        row = {"offset_commits": commit_row, "rebalances": rebalance_row, "findings": finding_row}[name](self.number)
        added = write(self.store, name, [row], cluster=self.cluster)
        removed = []
        if name == "rebalances":
            added += write(
                self.store, name, [rebalance_row(self.number + 1, is_over=False)], cluster=self.cluster, is_open=True
            )
            removed = [file for file in self.snapshots[name].files(cluster=self.cluster) if file.is_open]
        self.versions[name] = self.store.commit(self.snapshots[name], added, removed, {RUN_PROPERTY: self.run_id})

    def finish(self) -> None:
        """The ledger's row."""
        ledger = self.snapshots[LEDGER]
        row = {
            "run_id": self.run_id,
            "started_at": millis(when(0)),
            "finished_at": millis(when(1)),
            "status": "done",
            "table_versions": [*{**self.versions, LEDGER: ledger.version + 1}.items()],
        }
        self.store.commit(
            ledger, write(self.store, LEDGER, [row], cluster=self.cluster), [], {RUN_PROPERTY: self.run_id}
        )

    def whole(self) -> "Run":
        for name in WRITTEN:
            self.commit(name)
        self.finish()
        return self


def held(store: Store, name: str, column: str) -> list[Any]:
    """A column of a table as it is now, in order."""
    snapshot = store.snapshot(name)
    assert snapshot is not None
    return sorted(value for batch in read_table(snapshot.every, [column]) for value in batch.column(column).to_pylist())
