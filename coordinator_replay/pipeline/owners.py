"""Who owned a partition, and in what state its group was, when an offset was committed.

The record of a commit names no committer, so its moment is looked up in what the groups' own records told.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.as_of import last_before

CONSUMED = ("group_id", "topic", "partition")
"""What a group consumes: an offset's key whatever log it stands in."""


def _of_cluster(table: DataFrame, cluster: str) -> DataFrame:
    return table.where(F.col("cluster") == cluster)


def _owner_changes(ownership: DataFrame) -> DataFrame:
    """Who owned a partition from a moment on: struct owner, its member null where nobody did."""
    named = ownership.where(F.col("topic").isNotNull() & F.col("owned_from").isNotNull())
    in_time = Window.partitionBy(*CONSUMED).orderBy("owned_from", F.col("owned_to").asc_nulls_last())
    taken_over = F.lead("owned_from").over(in_time)
    lasts = named.withColumn("taken_over", taken_over)
    begins = lasts.select(
        *CONSUMED, F.col("owned_from").alias("log_timestamp"), F.struct(F.col("member_id")).alias("owner")
    )
    # An ownership that the next one follows at once, or overlaps, leaves no moment without an owner.
    ends = lasts.where("owned_to IS NOT NULL AND (taken_over IS NULL OR taken_over > owned_to)").select(
        *CONSUMED,
        F.col("owned_to").alias("log_timestamp"),
        F.struct(F.lit(None).cast("string").alias("member_id")).alias("owner"),
    )
    return begins.unionByName(ends)


def _state_changes(timeline: DataFrame, keys: DataFrame) -> DataFrame:
    """The state of a key's group from a moment on: struct state, its name null before the group's first event.

    A group can hold half of all commits, so states are brought to its keys instead of all its commits to one place.
    """
    in_life = Window.partitionBy("group_id").orderBy("seq")
    is_last_there = ~F.col("log_offset").eqNullSafe(F.lead("log_offset").over(in_life))
    changes = (
        timeline.where(F.col("to_state").isNotNull() & F.col("log_timestamp").isNotNull())
        .withColumn("is_last_there", is_last_there)
        .where("is_last_there")
        .withColumn("before", F.lag("to_state").over(in_life))
        .where(~F.col("before").eqNullSafe(F.col("to_state")))
        .select("group_id", "log_timestamp", "log_offset", F.struct(F.col("to_state").alias("name")).alias("state"))
    )
    known = timeline.select("group_id").distinct()
    nothing = known.select(
        "group_id",
        F.timestamp_micros(F.lit(0)).alias("log_timestamp"),
        F.lit(-1).cast("bigint").alias("log_offset"),
        F.struct(F.lit(None).cast("string").alias("name")).alias("state"),
    )
    return changes.unionByName(nothing).join(keys, "group_id")


def _state_at_commit() -> Column:
    """Kafka makes a simple group, which is Empty, for a commit to a group that it has no record of."""
    nothing_is_missing = F.coalesce(F.col("missing_before") == 0, F.lit(False))
    return (
        F.when(F.col("state").isNull() | (F.col("state.name") == "Dead"), F.lit("Empty"))
        .when(F.col("state.name").isNull() & nothing_is_missing, F.lit("Empty"))
        .otherwise(F.col("state.name"))
    )


def owner_at_commit(
    found: DataFrame, keys: DataFrame, cluster: str, ownership: DataFrame | None, timeline: DataFrame | None
) -> DataFrame:
    """Give commits the owner of their partition and their group's state at their own record.

    Args:
        found: commits or events, with log_offset and log_timestamp of the commit's record.
        keys: group_id, topic and partition of all of them, each once.
        cluster: rows of other clusters in the tables don't count.
        ownership: ``partition_ownership``; None leaves owner_member_id null.
        timeline: ``group_timeline``; None leaves group_state null.

    Returns:
        the columns of ``found``, owner_member_id and group_state.
    """
    told = found.withColumn("is_row", F.lit(True))
    columns = {name: F.lit(None).cast("string") for name in ("owner_member_id", "group_state")}
    brought: list[str] = []
    if ownership is not None:
        changes = _owner_changes(_of_cluster(ownership, cluster)).withColumn("log_offset", F.lit(-1).cast("bigint"))
        told = told.unionByName(changes, allowMissingColumns=True)
        columns["owner_member_id"] = F.col("owner.member_id")
        brought.append("owner")
    if timeline is not None:
        changes = _state_changes(_of_cluster(timeline, cluster), keys)
        told = told.unionByName(changes, allowMissingColumns=True)
        columns["group_state"] = _state_at_commit()
        brought.append("state")
    # By time, since ownership knows no log positions; then by position, which puts a state after its own record.
    order = ("log_timestamp", "log_offset")
    known = told.withColumns({name: last_before(order, CONSUMED, name) for name in brought}) if brought else told
    return known.where("is_row").withColumns(columns).drop("is_row", *brought)
