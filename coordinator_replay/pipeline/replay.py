"""The fold: every group's records through the engine, in log order, and the rows that come out of it.

Groups are many and small, so they are folded by the bucket: one call of the Python function takes all groups of a hash
bucket, sorted, and splits them itself. It takes them as a stream, so that a group of any size needs no more memory
than its state. Rows leave as JSON beside the name of their table: one shape for all tables, written once, and parsed
by Spark against each table's own columns.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.evidence import Evidence, evidence_row
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.group_life import VERSION, GroupReplay
from coordinator_replay.analysis.reasons import NO_CHANGES, TopicChanges
from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.engine.model import Record
from coordinator_replay.pipeline.group_state import SNAPSHOT
from coordinator_replay.pipeline.signs import last_commits
from coordinator_replay.records.protocol import open_blobs
from coordinator_replay.tables.definition import table

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

FOLDED = "table_name STRING, group_id STRING, row STRING"

_CHUNK_ROWS = 10_000
_ANY_LENGTH = {"maxStringLen": str(2**31 - 1)}
"""A group of many thousand members has events longer than what Spark's JSON reader takes by default."""
_LARGE_RECORD = ("kind", "record_bytes", "timestamp_ms", "log_partition", "log_offset")
_ORDER = ("bucket", "group_id", "log_partition", "log_offset", "is_record")


def _compact(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def _record(row: Any) -> Record:
    """A row of group records as the engine takes it."""
    value = None if row.value_json is None else json.loads(row.value_json)
    return Record(
        kind=row.kind,
        key=json.loads(row.key_json),
        value=open_blobs(row.kind, value),
        partition=row.log_partition,
        offset=row.log_offset,
        timestamp_ms=row.timestamp_ms,
        missing_before=row.missing_before,
        value_version=None if value is None else int(row.value_version),
    )


class _Fold:
    """Folds one bucket; keeps the group it is at and the rows that have not left yet."""

    def __init__(
        self, cluster: str, topic_names: Mapping[str, str], topic_changes: TopicChanges, limits: Thresholds
    ) -> None:
        self.cluster = cluster
        self.told = (topic_names, topic_changes, limits)
        self.large_bytes = limits.record_max_bytes * limits.size_percent // 100
        self.life: GroupReplay | None = None
        self.at: tuple[str, int, int, bool] = ("", -1, -1, False)
        self.rows: list[tuple[str, str, str]] = []

    def keep(self, rows: Iterable[Row]) -> None:
        group_id = self.at[0]
        self.rows.extend((name, group_id, _compact(row)) for name, row in rows)

    def feed(self, row: Any) -> None:
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
            self.finish()
            self.life = self.begin(row)
        self.at = position
        if row.is_record:
            self.keep(self.life.feed(_record(row)))
            if row.record_bytes >= self.large_bytes:
                told = {name: getattr(row, name) for name in _LARGE_RECORD}
                scope = Scope(self.cluster, row.group_id)
                name, evidence = evidence_row(scope, Evidence.LARGE_RECORD, told, at=row.log_offset)
                self.keep([(name, {**evidence, "settled_at_offset": row.log_offset})])
        elif row.kind != SNAPSHOT:
            self.life.heed_commits(int(row.log_offset), last_commits(row.value_json, row.log_partition))

    def begin(self, first: Any) -> GroupReplay:
        """A group as it stands before its first row; that may be the state to go on from."""
        if first.kind == SNAPSHOT:
            return GroupReplay.restore(json.loads(first.value_json), *self.told)
        return GroupReplay(self.cluster, first.group_id, *self.told)

    def finish(self) -> None:
        """End the group at hand: keep its state, then what is not over as it stands."""
        if self.life is None:
            return
        group_id, log_partition, log_offset, _ = self.at
        group = self.life.replay.group
        state = {
            "cluster": self.cluster,
            "group_id": group_id,
            "group_type": None if group is None else str(group.group_type),
            "log_partition": log_partition,
            "to_offset": log_offset + 1,
            "snapshot_version": VERSION,
            "snapshot": _compact(self.life.snapshot()),
        }
        self.rows.append((STATE_TABLE, group_id, _compact(state)))
        self.keep(self.life.finish())
        self.life = None

    def take(self) -> pd.DataFrame:
        """The rows that are ready."""
        rows, self.rows = self.rows, []
        return pd.DataFrame(rows, columns=["table_name", "group_id", "row"], dtype=object)


def replay_groups(
    records: DataFrame,
    *,
    cluster: str,
    topic_names: Mapping[str, str],
    buckets: int,
    topic_changes: TopicChanges = NO_CHANGES,
    signs: DataFrame | None = None,
    snapshots: DataFrame | None = None,
    limits: Thresholds = DEFAULTS,
) -> DataFrame:
    """Replay every group.

    Args:
        records: rows of ``group_records`` of one cluster: whole groups, or what follows their snapshots.
        cluster: its name.
        topic_names: topic name by id, as far as known.
        buckets: how many hash buckets, and tasks, the groups are spread over.
        topic_changes: when topics changed, by name, as far as known.
        signs: from ``signs_of_life``: last commits before records that may show a departure; None does without.
        snapshots: from ``snapshot_rows``: the states that groups go on from; None begins all of them.
        limits: from when on something is a finding.

    Returns:
        Rows as JSON, in FOLDED: the table, the group, the row.
    """
    names, changes = dict(topic_names), dict(topic_changes)

    def fold(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        state = _Fold(cluster, names, changes, limits)
        for batch in batches:
            for row in batch.itertuples(index=False):
                state.feed(row)
                if len(state.rows) >= _CHUNK_ROWS:
                    yield state.take()
        state.finish()
        yield state.take()

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
    # No nulls among numbers: pandas would make floats of them all.
    told = {"timestamp_ms": F.lit(-1), "missing_before": F.lit(0), "record_bytes": F.lit(0), "is_record": F.lit(False)}
    for beside in (signs, snapshots):
        if beside is not None:
            rows = rows.unionByName(beside.withColumns(told), allowMissingColumns=True)
    # The bucket is made of data: a constant would be optimised out of the sort, and the order lost.
    in_buckets = rows.withColumn("bucket", F.pmod(F.hash("group_id"), F.lit(buckets)))
    # Without the number, adaptive execution would merge the tasks: it sees bytes, not what Python does with them.
    in_order = in_buckets.repartition(buckets, "bucket").sortWithinPartitions(*_ORDER)
    return in_order.groupBy("bucket").applyInPandas(fold, FOLDED)


def _parsed(column: str, type_: str) -> Column:
    value = F.col(f"parsed.{column}")
    return (F.timestamp_millis(value) if type_ == "timestamp" else value).alias(column)


def rows_of(folded: DataFrame, name: str) -> DataFrame:
    """The rows of one table, in its own columns.

    Args:
        folded: what ``replay_groups`` returned.
        name: one of GROUP_TABLES, or STATE_TABLE.
    """
    columns = table(name).columns
    as_written = ", ".join(f"`{c.name}` {'bigint' if c.type == 'timestamp' else c.type}" for c in columns)
    parsed = folded.where(F.col("table_name") == name).select(
        F.from_json("row", as_written, _ANY_LENGTH).alias("parsed")
    )
    return parsed.select(*(_parsed(column.name, column.type) for column in columns))
