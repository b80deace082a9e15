"""What commits come to, by group and by partition, kept from run to run so that findings need not add up all history.

What is told of a commit is final once no later run derives it anew. So the table holds what everything before a moment
comes to, and a run that begins behind that moment adds the rest; one that begins before it adds up all of it. Rows of
one key, be they sums of tasks or of earlier runs, are one row by what each column is made of several.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.pipeline.commit_sums import (
    HISTORY,
    PARTITION_PART,
    PARTITIONS,
    REWIND_PART,
    REWINDS,
    history_sums,
)
from coordinator_replay.pipeline.data_files import WRITTEN_SCHEMA, aside, files_of, keep, read_files
from coordinator_replay.pipeline.task_rows import TaskRows
from coordinator_replay.pipeline.warehouse import Warehouse

TABLE = "commit_totals"

PARTITION = ("group_id", "topic", "partition")
"""What names a partition that a group commits."""

WITH_NULLS = {"ignoreNullFields": "false"}
"""Lets JSON name a field that is null."""


def ms(at: Column | str) -> Column:
    """A moment in milliseconds since 1970."""
    return F.unix_millis(at)


_OF_GROUP = {
    "log_partition": F.max,
    "commits": F.sum,
    "bytes": F.sum,
    "first_at": F.min,
    "last_at": F.max,
    "last_offset": F.max,
    "most_a_minute": F.max,
    "hot_minutes": F.sum,
    "hot_from": F.min,
    "hot_to": F.max,
}


def _newest(by: str) -> Callable[[str], Column]:
    return lambda name: F.max_by(name, by)


_OF_PARTITION = {
    "log_partition": F.max,
    "commits": F.sum,
    "first_at": F.min,
    "last_at": F.max,
    "metadata_bytes": F.max,
    "committed_offset": _newest("from_offset"),
    "from_offset": F.max,
    "empty_count": F.sum,
    "empty_first_at": F.min,
    "empty_valid_from": _newest("empty_from_offset"),
    "empty_committed_offset": _newest("empty_from_offset"),
    "empty_previous_offset": _newest("empty_from_offset"),
    "empty_from_offset": F.max,
}


def _each_rewind(rewinds: DataFrame) -> DataFrame:
    """A rewind as something to add up."""
    plain = ("from_offset", "committed_offset", "previous_offset", "owner_member_id", "group_state", "valid_from")
    return rewinds.select(
        "is_over",
        *PARTITION,
        "log_partition",
        F.lit(1).alias("count"),
        F.col("valid_from").alias("first_at"),
        (F.col("previous_offset") - F.col("committed_offset")).alias("furthest"),
        F.struct(*plain).alias("last"),
    )


_OF_REWINDS = {
    "log_partition": F.max,
    "count": F.sum,
    "first_at": F.min,
    "furthest": F.max,
    "last": lambda name: F.max_by(name, f"{name}.from_offset"),
}


class _Summary(NamedTuple):
    """What rows of one kind come to.

    Attributes:
        name: of the kind.
        key: what there is one row for.
        sums: how each column is made of several.
    """

    name: str
    key: Sequence[str]
    sums: Mapping[str, Callable[[str], Column]]

    def merge(self, rows: DataFrame, *more: str) -> DataFrame:
        """One row for each key, and each value of some more columns."""
        return rows.groupBy(*self.key, *more).agg(*(how(name).alias(name) for name, how in self.sums.items()))

    def as_rows(self, totals: DataFrame) -> DataFrame:
        """Totals in the columns of TABLE, as far as they tell."""
        told = F.to_json(F.struct(*self.sums), WITH_NULLS).alias("told")
        return totals.select(F.lit(self.name).alias("what"), *self.key, told)

    def of_rows(self, rows: DataFrame, schema: StructType) -> DataFrame:
        """Totals of rows of TABLE."""
        told = StructType([field for field in schema if field.name in self.sums])
        read = rows.where(F.col("what") == self.name).withColumn("told", F.from_json("told", told))
        return read.select(*self.key, "told.*")


_GROUPS = _Summary("group", ("group_id",), _OF_GROUP)
_PARTITIONS = _Summary("partition", PARTITION, _OF_PARTITION)
_REWINDS = _Summary("rewind", PARTITION, _OF_REWINDS)


@dataclass(frozen=True, slots=True)
class Totals:
    """What all commits come to.

    Attributes:
        groups: group_id, log_partition, commits, bytes, first_at, last_at, last_offset, most_a_minute (of each
            partition), hot_minutes, hot_from and hot_to.
        partitions: group_id, topic, partition, log_partition, commits, first_at, last_at, metadata_bytes, from_offset
            and committed_offset of the newest; of those into an Empty group empty_count, empty_first_at, and
            empty_from_offset, empty_valid_from, empty_committed_offset and empty_previous_offset of the newest.
        rewinds: group_id, topic, partition, log_partition, count, first_at, furthest, and last: the newest.
        table: what the next run begins with: rows of TABLE.
    """

    groups: DataFrame
    partitions: DataFrame
    rewinds: DataFrame
    table: DataFrame


def totals_since(warehouse: Warehouse, cluster: str, since_us: int | None) -> datetime | None:
    """The moment before which the table's totals count; None where they don't.

    Args:
        warehouse: holds the table.
        cluster: whose totals.
        since_us: no record from where this run begins on has an earlier time, in microseconds.
    """
    if warehouse.is_new(TABLE):
        return None
    held = warehouse.read(TABLE).where(F.col("cluster") == cluster)
    first = held.select(F.unix_seconds("until").alias("until")).first()
    if first is None or (since_us is not None and since_us < first["until"] * 1_000_000):
        return None
    # Spark's own moments are of no time zone here: an hour that a clock goes through twice would be told wrong.
    return datetime.fromtimestamp(first["until"], UTC)


class HistorySums(NamedTuple):
    """What rows of the history come to, several rows of a partition where several tasks have seen it.

    Attributes:
        partitions: rows in PARTITIONS.
        rewinds: rows in REWINDS.
    """

    partitions: DataFrame
    rewinds: DataFrame


def sum_history(history: TaskRows, until: datetime, staging: str) -> HistorySums:
    """Add up rows of ``offset_history``, task by task.

    Args:
        history: the rows.
        until: which commits are over: those from before this moment.
        staging: a folder for what is needed more than once.
    """
    schemas = {PARTITION_PART: PARTITIONS, REWIND_PART: REWINDS}
    parts = {name: aside(f"{staging}/history/{name}", schema) for name, schema in schemas.items()}
    written = files_of(history.map(HISTORY, history_sums(parts, until), WRITTEN_SCHEMA))
    spark = history.frame.sparkSession
    partitions, rewinds = (
        read_files(spark, written.get(name, []), from_arrow_schema(schema, prefer_timestamp_ntz=False))
        for name, schema in schemas.items()
    )
    return HistorySums(partitions, rewinds)


def total(
    warehouse: Warehouse,
    cluster: str,
    *,
    groups: DataFrame,
    history: HistorySums,
    since: datetime | None,
    until: datetime,
    staging: str,
) -> Totals:
    """Add up what commits come to.

    Args:
        warehouse: holds the table of what came before.
        cluster: whose commits.
        groups: what commits since come to by group, from ``sum_groups``.
        history: what the history since comes to, from ``sum_history``.
        since: the moment before which the table's totals count, from ``totals_since``; None for no such.
        until: the moment before which the next run's shall count: a whole minute.
        staging: a folder for what is needed more than once.
    """
    new = ((_GROUPS, groups), (_PARTITIONS, history.partitions), (_REWINDS, _each_rewind(history.rewinds)))
    mine = warehouse.read(TABLE).where(F.col("cluster") == cluster)

    def add_up(summary: _Summary, rows: DataFrame) -> tuple[DataFrame, DataFrame]:
        fresh = keep(summary.merge(rows, "is_over"), f"{staging}/totals-{summary.name}")
        every, final = fresh.drop("is_over"), fresh.where("is_over").drop("is_over")
        if since is not None:
            held = summary.of_rows(mine, fresh.schema)
            every, final = (summary.merge(some.unionByName(held)) for some in (every, final))
        else:
            every = summary.merge(every)
        return every, summary.as_rows(final)

    with ThreadPoolExecutor(len(new)) as pool:
        added = list(pool.map(lambda one: add_up(*one), new))
    table = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), (final for _, final in added))
    until_then = table.withColumns({"cluster": F.lit(cluster), "until": F.lit(until)})
    by_group, by_partition, by_rewind = (every for every, _ in added)
    return Totals(by_group, by_partition, by_rewind, until_then)
