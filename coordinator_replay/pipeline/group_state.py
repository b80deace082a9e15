"""Where the replay of each group stands, and which groups have records that it has not seen.

A group whose new records all lie behind its snapshot goes on from there: it is ``continued``. One with records in
between, that a later dump brought, is replayed from its first record on, and so is one whose rows would now name
topics that they could not name before.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.group_life import VERSION
from coordinator_replay.pipeline.positions import behind
from coordinator_replay.pipeline.warehouse import Warehouse

SNAPSHOT = "snapshot"
"""In place of the kind of a record: the state that the records after it go on from."""

START = -1
"""Below every offset."""


def stale_groups(warehouse: Warehouse, cluster: str, names: Mapping[str, str]) -> DataFrame:
    """Groups whose rows lack the name of a topic that is known now, or give another: group_id.

    Args:
        warehouse: holds the tables.
        cluster: whose groups.
        names: topic name by id.
    """
    spark = warehouse.spark
    known = F.broadcast(spark.createDataFrame(list(names.items()), "topic_id STRING, named STRING"))
    owned = warehouse.read("partition_ownership").where((F.col("cluster") == cluster) & F.col("topic_id").isNotNull())
    shown = owned.select("group_id", "topic_id", "topic").distinct()
    return shown.join(known, "topic_id").where(~F.col("topic").eqNullSafe(F.col("named"))).select("group_id").distinct()


def every_group(group_records: DataFrame) -> DataFrame:
    """All groups, to be replayed from their first record on: as ``touched_groups`` tells it."""
    begun = group_records.groupBy("group_id").agg(F.max("log_partition").alias("log_partition"))
    start, nothing = F.lit(START).cast("bigint"), F.lit(None).cast("string")
    return begun.select("*", start.alias("from_offset"), nothing.alias(SNAPSHOT), F.lit(False).alias("is_first"))


def touched_groups(group_records: DataFrame, group_state: DataFrame, *, anew: DataFrame | None = None) -> DataFrame:
    """Groups to replay, and from where on.

    Judged by the tables alone, whatever run wrote them, so that what a killed run left is made up for.

    Args:
        group_records: rows of ``group_records`` of one cluster.
        group_state: rows of ``group_state`` of the same cluster.
        anew: group_id of groups that must be replayed from their first record on, if they are there.

    Returns:
        group_id, log_partition, from_offset (the first record that the replay has to see; START for a group that
        begins anew), snapshot (null for such a group) and is_first (whether it was never replayed).
    """
    held = group_records.select("group_id", "log_partition", "log_offset")
    usable = group_state.where(F.col("snapshot_version") == VERSION)
    if anew is not None:
        usable = usable.join(anew, "group_id", "left_anti")
    reached = usable.select("group_id", F.col("log_partition").alias("state_partition"), "to_offset", SNAPSHOT)
    unseen = held.join(reached.drop(SNAPSHOT), "group_id", "left").where(
        F.col("to_offset").isNull()
        | (F.col("log_partition") != F.col("state_partition"))
        | (F.col("log_offset") >= F.col("to_offset"))
    )
    first = unseen.groupBy("group_id").agg(
        F.max("log_partition").alias("log_partition"),
        F.min("log_offset").alias("first_offset"),
        F.bool_and(F.col("log_partition") == F.col("state_partition")).alias("stays"),
    )
    goes_on = F.coalesce(F.col("stays"), F.lit(False))
    known = group_state.select("group_id", F.lit(False).alias("is_first"))
    return (
        first.join(reached, "group_id", "left")
        .join(known, "group_id", "left")
        .select(
            "group_id",
            "log_partition",
            F.when(goes_on, F.col("first_offset")).otherwise(F.lit(START)).alias("from_offset"),
            F.when(goes_on, F.col(SNAPSHOT)).alias(SNAPSHOT),
            F.coalesce("is_first", F.lit(True)).alias("is_first"),
        )
    )


class Reach(NamedTuple):
    """How far back a replay of touched groups goes.

    Attributes:
        groups: how many there are.
        anew: how many of them begin at their first record.
        told_anew: how many of these were replayed before.
        first: the first offset that is needed, by log partition.
    """

    groups: int
    anew: int
    told_anew: int
    first: Mapping[int, int]


def reach_of(touched: DataFrame) -> Reach:
    """How far back a replay goes: an action.

    Args:
        touched: from ``touched_groups``, kept as files.
    """
    begins = F.col("from_offset") == START
    rows = touched.groupBy("log_partition").agg(
        F.count("*").alias("groups"),
        F.count_if(begins).alias("anew"),
        F.count_if(begins & ~F.col("is_first")).alias("told_anew"),
        F.min("from_offset").alias("first"),
    )
    by_log = rows.collect()
    groups, anew, told_anew = (sum(row[name] for row in by_log) for name in ("groups", "anew", "told_anew"))
    return Reach(groups, anew, told_anew, {row["log_partition"]: row["first"] for row in by_log})


def unseen_records(group_records: DataFrame, touched: DataFrame, reach: Reach) -> DataFrame:
    """The records that the groups to replay have not seen, in the columns of ``group_records``.

    Args:
        group_records: rows of ``group_records`` of one cluster.
        touched: from ``touched_groups``, kept as files.
        reach: of these.
    """
    starts = touched.select("group_id", "from_offset")
    # A condition that files of older records fail as a whole.
    narrowed = group_records if reach.anew else group_records.where(behind(reach.first))
    return narrowed.join(starts, "group_id").where(F.col("log_offset") >= F.col("from_offset")).drop("from_offset")


def snapshot_rows(touched: DataFrame) -> DataFrame:
    """Snapshots in the columns in which the fold takes records, each before the group's first one."""
    return touched.where(F.col(SNAPSHOT).isNotNull()).select(
        "group_id",
        "log_partition",
        F.lit(START).cast("bigint").alias("log_offset"),
        F.lit(SNAPSHOT).alias("kind"),
        F.col(SNAPSHOT).alias("value_json"),
    )
