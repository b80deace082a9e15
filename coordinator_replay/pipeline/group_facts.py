"""How each group's offsets expire, from when: the only part of expiry that is told record by record.

Group records are few beside commits, and what they say lies in nested values and blobs, so they go through Python, in
log order, one group after the other. Everything that follows is columns.
"""

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.expiration import DECIDING_KINDS, GROUP_KINDS, Expiry, GroupLife, Rule
from coordinator_replay.records.protocol import open_blobs

FACTS = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group_id", pa.string()),
        ("log_offset", pa.int64()),
        ("log_timestamp", pa.timestamp("us", tz="UTC")),
        ("group_type", pa.string()),
        ("protocol_type", pa.string()),
        ("group_state", pa.string()),
        ("rule", pa.string()),
        ("base_timestamp", pa.timestamp("us", tz="UTC")),
        ("spared_topics", pa.list_(pa.string())),
        ("is_group_tombstone", pa.bool_()),
    ]
)
"""A row for each change of what decides about a group's offsets, and for each tombstone of a group."""

_READ = ("log_partition", "group_id", "log_offset", "log_timestamp", "kind", "key_json", "value_json")

Life = tuple[GroupLife, object]


class _Facts:
    """Folds sorted rows; a group may go on in the next batch."""

    def __init__(self) -> None:
        self.group: tuple[int, str] | None = None
        self.life = GroupLife()
        self.told: object = None

    def fold(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = (batch.column(name).to_pylist() for name in _READ if name != "log_timestamp")
        rows: list[int] = []
        facts: list[tuple[object, ...]] = []
        for row, (log_partition, group_id, _, kind, key, value) in enumerate(zip(*columns, strict=True)):
            if self.group != (log_partition, group_id):
                self.group, self.life, self.told = (log_partition, group_id), GroupLife(), None
            opened = None if value is None else open_blobs(kind, json.loads(value))
            self.life.apply(kind, json.loads(key), opened)
            expiry = self.life.expiry()
            told = (self.life.group_type, self.life.protocol_type, self.life.state, expiry)
            is_tombstone = value is None and kind in GROUP_KINDS
            if told != self.told or is_tombstone:
                rows.append(row)
                facts.append((*told[:3], *_columns(expiry), is_tombstone))
                self.told = told
        taken = batch.select(list(FACTS.names[:4])).take(pa.array(rows, pa.int64()))
        told_columns = list(zip(*facts, strict=True)) or [()] * (len(FACTS) - 4)
        arrays = [pa.array(column, type=FACTS.types[4 + i]) for i, column in enumerate(told_columns)]
        return pa.RecordBatch.from_arrays([*taken.columns, *arrays], schema=FACTS)


def _columns(expiry: Expiry) -> tuple[object, ...]:
    base = None if expiry.base_ms is None else expiry.base_ms * 1000
    return (str(expiry.rule), base, sorted(expiry.spared))


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    facts = _Facts()
    for batch in batches:
        yield facts.fold(batch)


def group_facts(records: DataFrame) -> DataFrame:
    """What decides about each group's offsets, from which record on.

    Args:
        records: settled rows.

    Returns:
        log_partition, group_id, log_offset, log_timestamp, group_type, protocol_type, group_state (``Empty``,
        ``Stable`` for classic groups, null where these records don't tell), rule and base_timestamp (null: the
        commit's own) for topics not in spared_topics, is_group_tombstone.
    """
    rows = records.where(F.col("record.kind").isin(sorted(DECIDING_KINDS)))
    positions = ("log_partition", "log_offset", "log_timestamp")
    read = rows.select(*(name if name in positions else f"record.{name}" for name in _READ))
    # With a number, or adaptive execution makes it one task: it counts bytes and knows nothing of Python's cost.
    tasks = int(records.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    by_group = read.repartition(tasks, "log_partition", "group_id")
    in_order = by_group.sortWithinPartitions("log_partition", "group_id", "log_offset")
    return in_order.mapInArrow(_fold, from_arrow_schema(FACTS, prefer_timestamp_ntz=False))


FACT_STRUCT: Sequence[str] = ("rule", "base_timestamp", "spared_topics", "group_state", "log_timestamp")
"""What an as-of join carries along of a fact, as struct ``fact``; null for a group without records: a simple one."""


def rule_of_offset() -> Column:
    """The rule for an offset with the struct ``fact`` of its group beside it."""
    by_group = F.coalesce(F.col("fact.rule"), F.lit(str(Rule.SIMPLE_GROUP)))
    never = F.lit(str(Rule.NEVER_WHILE_ACTIVE))
    is_spared = F.coalesce(F.array_contains("fact.spared_topics", F.col("topic")), F.lit(False))
    return (
        F.when(is_spared | (by_group == never), never)
        .when(F.col("expire_timestamp").isNotNull(), F.lit(str(Rule.EXPLICIT_EXPIRE_TIMESTAMP)))
        .otherwise(by_group)
    )


def base_of_offset() -> Column:
    """The moment that retention counts from; null where no rule lets the offset expire. Needs ``rule``."""
    expires = F.col("rule") != F.lit(str(Rule.NEVER_WHILE_ACTIVE))
    return F.when(expires, F.coalesce(F.col("fact.base_timestamp"), F.col("commit_timestamp")))


def expire_at(retention_ms: int) -> Column:
    """When an offset's time is up. Needs ``rule`` and ``base_timestamp``."""
    explicit = F.col("rule") == F.lit(str(Rule.EXPLICIT_EXPIRE_TIMESTAMP))
    return F.when(explicit, F.col("expire_timestamp")).otherwise(later(F.col("base_timestamp"), retention_ms))


def later(moment: Column, milliseconds: int) -> Column:
    """A timestamp so much later."""
    return F.timestamp_micros(F.unix_micros(moment) + F.lit(milliseconds * 1000).cast("bigint"))


def milliseconds_between(earlier: Column, moment: Column) -> Column:
    """How much time passed from one timestamp to another."""
    return F.floor((F.unix_micros(moment) - F.unix_micros(earlier)) / 1000).cast("bigint")
