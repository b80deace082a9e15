"""Transactional commits while their transaction was open: ``pending_offsets``."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.log.schema import ControlType
from coordinator_replay.pipeline.as_of import last_before
from coordinator_replay.pipeline.owners import CONSUMED, owner_at_commit
from coordinator_replay.pipeline.transactions import (
    KEY,
    commits,
    in_key,
    is_pending_at_first,
    transactional_commits,
)


def pending_intervals(records: DataFrame) -> DataFrame:
    """Each commit that waited for a marker, with what settled it: struct ``settled`` of offset, timestamp, ended_by.

    The columns are those of ``commits`` and pending_since. One shuffle of what happened to keys with such commits.
    """
    waiting = transactional_commits(records)
    others = commits(records).where(~is_pending_at_first())
    beside = others.join(waiting.select(*KEY).distinct(), list(KEY), "left_semi")
    holds_from = F.when(F.col("marker.type") == ControlType.COMMIT.value, F.col("marker.offset"))
    events = waiting.withColumn("at_offset", holds_from).unionByName(
        beside.withColumn("at_offset", F.col("log_offset")), allowMissingColumns=True
    )
    tombstone = F.when(F.col("is_tombstone"), _settled("log_offset", "log_timestamp", F.lit("TOMBSTONE")))
    # What never came to hold must not count as younger than what did.
    holding = F.when(F.col("at_offset").isNotNull(), F.col("log_offset"))
    known = (
        events.withColumn("tombstone", tombstone)
        .withColumn("tombstone", last_before([F.col("log_offset").desc()], KEY, "tombstone"))
        .withColumn("youngest", F.max(holding).over(in_key().rowsBetween(Window.unboundedPreceding, -1)))
        .where(is_pending_at_first())
    )
    run = Window.partitionBy(*KEY, "producer_id", F.col("marker.offset"), F.col("tombstone.offset"))
    in_run = run.orderBy("log_offset")
    next_offset, next_timestamp = F.lead("log_offset").over(in_run), F.lead("log_timestamp").over(in_run)
    replaced = F.when(next_offset.isNotNull(), _settled(next_offset, next_timestamp, F.lit("REPLACED")))
    is_older = F.coalesce(F.col("log_offset") < F.col("youngest"), F.lit(False))
    outcome = F.when(is_older & (F.col("marker.type") == ControlType.COMMIT.value), F.lit("SKIPPED")).otherwise(
        F.col("marker.type")
    )
    ended = F.when(F.col("marker").isNotNull(), _settled("marker.offset", "marker.timestamp", outcome))
    killed = F.when(F.col("tombstone.offset") < F.col("marker.offset"), F.col("tombstone"))
    return (
        known.withColumn("replaced", replaced)
        .withColumn("pending_since", F.first("log_timestamp").over(in_run))
        .withColumn("settled", F.coalesce("replaced", killed, ended, "tombstone"))
        .drop("replaced", "tombstone", "marker", "youngest", "at_offset")
    )


def _settled(offset: Column | str, timestamp: Column | str, ended_by: Column) -> Column:
    fields = {"offset": offset, "timestamp": timestamp, "ended_by": ended_by}
    return F.struct(
        *((F.col(value) if isinstance(value, str) else value).alias(name) for name, value in fields.items())
    )


def pending_offsets(
    records: DataFrame, cluster: str, *, ownership: DataFrame | None = None, timeline: DataFrame | None = None
) -> DataFrame:
    """Transactional commits while their transaction was open: rows of table ``pending_offsets``.

    Those with valid_to null are pending at the end of the log read.

    Args:
        records: settled rows.
        cluster: name of the cluster.
        ownership: table ``partition_ownership``; None leaves owner_member_id null.
        timeline: table ``group_timeline``; None leaves group_state null.
    """
    waited = pending_intervals(records)
    told = owner_at_commit(waited, waited.select(*CONSUMED).distinct(), cluster, ownership, timeline)
    nothing = F.lit(None)
    return told.select(
        F.lit(cluster).alias("cluster"),
        *CONSUMED,
        "committed_offset",
        "leader_epoch",
        "metadata",
        "commit_timestamp",
        F.col("log_timestamp").alias("valid_from"),
        F.col("settled.timestamp").alias("valid_to"),
        F.col("log_offset").alias("from_offset"),
        F.col("settled.offset").alias("to_offset"),
        "log_partition",
        F.col("settled.ended_by").alias("ended_by"),
        (F.col("producer_id") != -1).alias("is_transactional"),
        "owner_member_id",
        "group_state",
        "expire_timestamp",
        F.col("log_offset").alias("record_offset"),
        F.lit(True).alias("is_proven"),
        F.lit(0).cast("bigint").alias("commits_merged"),
        nothing.cast("string").alias("ended_confidence"),
        nothing.cast("array<string>").alias("ended_alternatives"),
        nothing.cast("array<string>").alias("ended_evidence"),
        "producer_id",
        "producer_epoch",
        "pending_since",
    )
