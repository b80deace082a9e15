"""Every group's records through the engine, in log order, and the rows of the tables that come of it.

Plain Python over sorted rows: the audit runs it bucket by bucket, a notebook may run it for a single group. Rows come
as a stream, so a group of any size takes no more memory than its state.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.evidence import Evidence, evidence_row
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.group_life import VERSION, GroupReplay
from coordinator_replay.analysis.reasons import TopicChanges
from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.engine.model import Record
from coordinator_replay.pipeline.columns import numbers_of
from coordinator_replay.pipeline.groups.json_text import compact, encode
from coordinator_replay.pipeline.groups.signs import LastCommit, RecordKey
from coordinator_replay.pipeline.guard import Guard
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.store.duckdb_connection import SORT_MEMORY, connected
from coordinator_replay.store.scan import BATCH_ROWS, Batches

GROUP_TABLES = (
    "group_timeline",
    "member_timeline",
    "partition_ownership",
    "rebalances",
    "expiry_rules",
    "group_evidence",
)
"""The tables that a replay fills."""

STATE_TABLE = "group_state"
"""The table of snapshots, which a replay fills too."""

NO_SNAPSHOT = 0
"""The snapshot's version where there is none, because a step for the group failed."""

RECORD_COLUMNS = (
    *("group_id", "log_partition", "log_offset", "log_timestamp", "kind", "key_json", "value_json"),
    *("value_version", "missing_before", "record_bytes"),
)
"""What is read of ``group_records``."""

_COLLECT_EVERY = 1_000_000
_LARGE_RECORD = ("kind", "record_bytes", "timestamp_ms", "log_partition", "log_offset")


class InputRow(NamedTuple):
    """A group record to replay.

    Attributes:
        timestamp_ms: −1 where the record has no time.
        value_json: None for a tombstone.
        missing_before: offsets before it in its log partition at which no record stood.
    """

    group_id: str
    log_partition: int
    log_offset: int
    timestamp_ms: int
    kind: str
    key_json: str
    value_json: str | None
    value_version: int | None
    missing_before: int
    record_bytes: int

    def record(self) -> Record:
        """The record as the engine takes it."""
        kind, key, value = self.kind, orjson.loads(self.key_json), None
        if self.value_json is not None:
            value = open_blobs(kind, orjson.loads(self.value_json))
        version = None if value is None else self.value_version
        # By place: with names it takes twice as long, and this is done for every record.
        return Record(
            kind, key, value, self.log_partition, self.log_offset, self.timestamp_ms, self.missing_before, version
        )


class OutputRow(NamedTuple):
    """A row of a table.

    Attributes:
        table: one of GROUP_TABLES, or STATE_TABLE.
        is_open: whether later records may change the row.
        row: plain values, times in milliseconds.
    """

    table: str
    is_open: bool
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayContext:
    """What every group's replay knows beside its records.

    Attributes:
        cluster: the cluster's name.
        run_id: the run that the groups' new states are from.
        topic_names: topic name by id, as far as known.
        topic_changes: when topics changed, by name, as far as known.
        limits: from when on something is a finding.
    """

    cluster: str
    run_id: str = ""
    topic_names: Mapping[str, str] = field(default_factory=dict)
    topic_changes: TopicChanges = field(default_factory=dict)
    limits: Thresholds = DEFAULTS


GroupKey = tuple[str, int]
"""A group by id and log partition."""


class Signs(Protocol):
    """Commits as signs of life, such as ``LastCommits``."""

    def before(self, record: RecordKey) -> Iterable[LastCommit] | None:
        """The last commits before a record that may show a departure; None where there are none."""


def sort_records(batches: Batches, schema: pa.Schema) -> Batches:
    """Group records sorted by group, log partition and log offset; what does not fit into memory goes to disk.

    Args:
        batches: rows of ``group_records``, at least RECORD_COLUMNS.
        schema: of the batches.
    """
    with connected(memory=SORT_MEMORY) as connection:
        connection.register("records", pa.RecordBatchReader.from_batches(schema, batches))
        names = ", ".join(RECORD_COLUMNS)
        found = connection.sql(
            f"SELECT {names} FROM records ORDER BY group_id, log_partition, log_offset"  # noqa: S608 - our own names
        )
        yield from found.to_arrow_reader(BATCH_ROWS)


def input_rows(batches: Batches) -> Iterator[InputRow]:
    """Rows to replay.

    Args:
        batches: in RECORD_COLUMNS.
    """
    for batch in batches:
        at = numbers_of(batch.column("log_timestamp"), -1000)
        columns = {
            "timestamp_ms": np.floor_divide(at, 1000).tolist(),
            "missing_before": pc.fill_null(batch.column("missing_before"), 0).to_pylist(),
            "record_bytes": pc.fill_null(batch.column("record_bytes"), 0).to_pylist(),
        }
        every = (columns[name] if name in columns else batch.column(name).to_pylist() for name in InputRow._fields)
        yield from starmap(InputRow, zip(*every, strict=True))


class _GroupRun:
    """The replay of the group at hand.

    Attributes:
        key: the group.
        at: log offset of the last record that it was fed.
        guard: keeps a failure of the group from ending the run.
    """

    __slots__ = ("at", "context", "guard", "key", "life")

    def __init__(self, key: GroupKey, snapshot: str | None, context: ReplayContext) -> None:
        known = (context.topic_names, context.topic_changes, context.limits, encode)
        self.key = key
        self.context = context
        self.at = -1
        self.guard = Guard("replaying its records")
        if snapshot is None:
            self.life = GroupReplay(context.cluster, key[0], *known)
        else:
            self.life = GroupReplay.restore(orjson.loads(snapshot), *known)

    def feed(self, row: InputRow, signs: Signs | None) -> Iterator[OutputRow]:
        """Take the group's next record; where one before it failed, nothing follows from it.

        Raises:
            RuntimeError: records do not come in log order; whoever sorted them is wrong, not the log.
        """
        if row.log_offset <= self.at:
            raise RuntimeError(
                f"records of group {row.group_id!r} are not in log order: offset {row.log_offset} after {self.at} in "
                f"log partition {row.log_partition}"
            )
        self.at = row.log_offset
        # Not guarded: what can't be read here was written by a broken decoder.
        record = row.record()
        if self.guard.failure is not None:
            return
        self.guard.place = row.log_partition, row.log_offset
        commits = None if signs is None else signs.before((row.group_id, row.log_partition, row.log_offset))
        made: list[Row] = []
        with self.guard:
            if commits is not None:
                self.life.heed_commits(row.log_offset, commits)
            made = self.life.feed(record)
        for table, one in made:
            yield OutputRow(table, False, one)

    def finish(self) -> Iterator[OutputRow]:
        """The group's state, then what is not over as it stands; of a group that failed, that it did."""
        rows: list[OutputRow] = []
        if self.guard.failure is None:
            with self.guard:
                rows = [self._state(compact(self.life.snapshot()))]
                rows += (OutputRow(table, True, made) for table, made in self.life.finish())
        if self.guard.failure is not None:
            told = evidence_row(
                Scope(self.context.cluster, self.key[0]), Evidence.FAILURE, self.guard.failure.evidence()
            )
            rows = [self._state(None), OutputRow(told[0], True, {**told[1], "settled_at_offset": None})]
        yield from rows

    def _state(self, snapshot: str | None) -> OutputRow:
        """The group's row of STATE_TABLE; without a snapshot, the next run begins with the group's first record."""
        group = self.life.replay.group
        state = {
            "group_id": self.key[0],
            "group_type": None if group is None else str(group.group_type),
            "log_partition": self.key[1],
            "to_offset": self.at + 1,
            "snapshot_version": VERSION if snapshot is not None else NO_SNAPSHOT,
            "snapshot": snapshot,
            "run_id": self.context.run_id,
        }
        return OutputRow(STATE_TABLE, False, state)


def replay_groups(
    rows: Iterable[InputRow],
    context: ReplayContext,
    *,
    snapshots: Mapping[GroupKey, str] | None = None,
    signs: Signs | None = None,
) -> Iterator[OutputRow]:
    """Replay groups and give the rows that come of it.

    Args:
        rows: records of whole groups, or those that follow their snapshots, sorted by group, log partition and offset.
        context: what is known beside the records.
        snapshots: the states that groups go on from; a group without one begins at its first record.
        signs: the last commits before records that may show a departure; None does without.

    Raises:
        RuntimeError: records of a group do not come in log order.
        SnapshotError: a snapshot is of another version, or damaged.
    """
    known = snapshots or {}
    large = context.limits.record_max_bytes * context.limits.size_percent // 100
    group: _GroupRun | None = None
    for row in rows:
        key = (row.group_id, row.log_partition)
        if group is None or group.key != key:
            if group is not None:
                yield from group.finish()
            group = _GroupRun(key, known.get(key), context)
        yield from group.feed(row, signs)
        if row.record_bytes >= large:
            yield _large_record(row, context.cluster)
    if group is not None:
        yield from group.finish()


def _large_record(row: InputRow, cluster: str) -> OutputRow:
    about = {name: getattr(row, name) for name in _LARGE_RECORD}
    table, made = evidence_row(Scope(cluster, row.group_id), Evidence.LARGE_RECORD, about, at=row.log_offset)
    return OutputRow(table, False, {**made, "settled_at_offset": row.log_offset})


@contextmanager
def few_collections() -> Iterator[None]:
    """Look for garbage in cycles seldom: a replay makes none, and each look goes through all that is kept."""
    usual = gc.get_threshold()
    gc.set_threshold(_COLLECT_EVERY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
