"""The fold: every group's records through the engine, in log order, and the rows that come out of it.

Groups are many and small, so they are folded by the bucket: one task takes all groups of a hash bucket, sorted, and
splits them itself. It takes them as a stream, so that a group of any size needs no more memory
than its state. It writes the rows of each table itself, in the table's own columns; only the files' names leave it.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.evidence import Evidence, evidence_row
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.group_life import VERSION, GroupReplay
from coordinator_replay.analysis.reasons import TopicChanges
from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.engine.model import Record
from coordinator_replay.pipeline.buckets import by_group
from coordinator_replay.pipeline.data_files import WRITTEN, DataFile, DataFiles, Part, written_rows
from coordinator_replay.pipeline.group_state import SNAPSHOT
from coordinator_replay.pipeline.json_text import compact, encode
from coordinator_replay.pipeline.signs import last_commits
from coordinator_replay.records.protocol import open_blobs

GROUP_TABLES = (
    "group_timeline",
    "member_timeline",
    "partition_ownership",
    "rebalances",
    "expiry_rules",
    "group_evidence",
)
"""The tables that the fold fills."""

STATE_TABLE = "group_state"
"""The table of snapshots, which the fold fills too."""

NOT_FINAL = ".not_final"
"""Behind a table's name: its rows that what follows may change, in files of their own. The next run puts others in
their place, and would have to write all rows of a file anew for one of them."""

_CHUNK_ROWS = 10_000
_SELDOM = 1_000_000
_LARGE_RECORD = ("kind", "record_bytes", "timestamp_ms", "log_partition", "log_offset")
_ORDER = ("group_id", "log_partition", "log_offset", "is_record")


class Fed(NamedTuple):
    """A row that the fold takes: a record, or what ``signs_of_life`` or ``snapshot_rows`` have before one.

    Attributes:
        value_json: text; None in a tombstone only.
    """

    group_id: str
    log_partition: int
    log_offset: int
    timestamp_ms: int
    kind: str
    key_json: str
    value_json: Any
    value_version: int | None
    missing_before: int
    record_bytes: int
    is_record: bool


def _record(row: Fed) -> Record:
    """A row of group records as the engine takes it."""
    kind, key, value = row.kind, orjson.loads(row.key_json), None
    if row.value_json is not None:
        value = open_blobs(kind, orjson.loads(row.value_json))
    version = None if value is None else row.value_version
    # By place: with names it takes twice as long, and this is done for every record.
    return Record(kind, key, value, row.log_partition, row.log_offset, row.timestamp_ms, row.missing_before, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What every group's replay is given.

    Attributes:
        cluster: its name.
        run_id: the run that the groups' new states are from.
        topic_names: topic name by id, as far as known.
        topic_changes: when topics changed, by name, as far as known.
        limits: from when on something is a finding.
    """

    cluster: str
    run_id: str
    topic_names: Mapping[str, str]
    topic_changes: TopicChanges = field(default_factory=dict)
    limits: Thresholds = DEFAULTS


class Fold:
    """Folds the groups of one task; keeps the group it is at and the rows that are not written yet.

    Args:
        given: what every group's replay is given.
        parts: where the rows of GROUP_TABLES and STATE_TABLE go.
    """

    def __init__(self, given: Given, parts: Mapping[str, Part]) -> None:
        self.given = given
        self.told = (given.topic_names, given.topic_changes, given.limits, encode)
        self.large_bytes = given.limits.record_max_bytes * given.limits.size_percent // 100
        self.life: GroupReplay | None = None
        self.at: tuple[str, int, int, bool] = ("", -1, -1, False)
        self.files = DataFiles({**parts, **{f"{name}{NOT_FINAL}": parts[name] for name in GROUP_TABLES}})
        self.rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self.files.parts}
        self.final = {name: name for name in parts}
        self.not_final = {name: f"{name}{NOT_FINAL}" for name in GROUP_TABLES}

    def keep(self, rows: Iterable[Row], names: Mapping[str, str]) -> None:
        """Keep rows until there are enough to write, by the names of the files that they go to."""
        for table, row in rows:
            name = names[table]
            kept = self.rows[name]
            kept.append(row)
            if len(kept) >= _CHUNK_ROWS:
                self.write(name)

    def write(self, name: str) -> None:
        """Write the rows that are kept for a file."""
        rows, self.rows[name] = self.rows[name], []
        self.files.add_rows(name, rows)

    def feed(self, row: Fed) -> None:
        """Take the next record, the last commits before it, or the state that the group's records go on from.

        Raises:
            RuntimeError: records do not come in log order; the plan of the job is broken, not the log.
        """
        position = (row.group_id, row.log_partition, row.log_offset, row.is_record)
        if self.life is not None and position[0] == self.at[0]:
            if position <= self.at:
                raise RuntimeError(
                    f"records of group {row.group_id!r} are not in log order: {position} after {self.at}"
                )
        else:
            self.end_group()
            self.life = self.begin(row)
        self.at = position
        if row.is_record:
            self.keep(self.life.feed(_record(row)), self.final)
            if row.record_bytes >= self.large_bytes:
                told = {name: getattr(row, name) for name in _LARGE_RECORD}
                scope = Scope(self.given.cluster, row.group_id)
                name, evidence = evidence_row(scope, Evidence.LARGE_RECORD, told, at=row.log_offset)
                self.keep([(name, {**evidence, "settled_at_offset": row.log_offset})], self.final)
        elif row.kind != SNAPSHOT:
            self.life.heed_commits(int(row.log_offset), last_commits(row.value_json, row.log_partition))

    def begin(self, first: Fed) -> GroupReplay:
        """A group as it stands before its first row; that may be the state to go on from."""
        if first.kind == SNAPSHOT:
            return GroupReplay.restore(orjson.loads(first.value_json), *self.told)
        return GroupReplay(self.given.cluster, first.group_id, *self.told)

    def end_group(self) -> None:
        """End the group at hand: keep its state, then what is not over as it stands."""
        if self.life is None:
            return
        group_id, log_partition, log_offset, _ = self.at
        group = self.life.replay.group
        state = {
            "cluster": self.given.cluster,
            "group_id": group_id,
            "group_type": None if group is None else str(group.group_type),
            "log_partition": log_partition,
            "to_offset": log_offset + 1,
            "snapshot_version": VERSION,
            "snapshot": compact(self.life.snapshot()),
            "run_id": self.given.run_id,
        }
        self.keep([(STATE_TABLE, state)], self.final)
        self.keep(self.life.finish(), self.not_final)
        self.life = None

    def finish(self) -> list[DataFile]:
        """End the last group, and the files."""
        self.end_group()
        for name in self.rows:
            self.write(name)
        return self.files.close()


@contextmanager
def few_collections() -> Iterator[None]:
    """Look for garbage in cycles seldom: a replay makes none, and each look goes through all that is kept."""
    usual = gc.get_threshold()
    gc.set_threshold(_SELDOM, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def replay_groups(
    records: DataFrame,
    given: Given,
    parts: Mapping[str, Part],
    *,
    buckets: int,
    signs: DataFrame | None = None,
    snapshots: DataFrame | None = None,
) -> DataFrame:
    """Replay every group, and write the rows that come out of it.

    Args:
        records: rows of ``group_records`` of one cluster: whole groups, or what follows their snapshots.
        given: what every group's replay is given.
        parts: where the rows of GROUP_TABLES and STATE_TABLE go.
        buckets: how many hash buckets, and tasks, the groups are spread over.
        signs: from ``signs_of_life``: last commits before records that may show a departure; None does without.
        snapshots: from ``snapshot_rows``: the states that groups go on from; None begins all of them.

    Returns:
        The files that were written, in WRITTEN.
    """
    parts = dict(parts)

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        state = Fold(given, parts)
        with few_collections():
            for batch in batches:
                for row in starmap(Fed, zip(*(column.to_pylist() for column in batch.columns), strict=True)):
                    state.feed(row)
            files = state.finish()
        yield from written_rows(files)

    rows = records.select(
        "group_id",
        "log_partition",
        "log_offset",
        F.coalesce(F.unix_millis("log_timestamp"), F.lit(-1)).alias("timestamp_ms"),
        "kind",
        "key_json",
        "value_json",
        "value_version",
        F.coalesce("missing_before", F.lit(0)).alias("missing_before"),
        F.coalesce("record_bytes", F.lit(0)).alias("record_bytes"),
        F.lit(True).alias("is_record"),
    )
    for beside in (signs, snapshots):
        if beside is not None:
            rows = rows.unionByName(beside.withColumn("is_record", F.lit(False)), allowMissingColumns=True)
    in_order = by_group(rows, buckets, *_ORDER)
    return in_order.select(*Fed._fields).mapInArrow(fold, WRITTEN)
