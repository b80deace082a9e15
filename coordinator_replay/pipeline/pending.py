"""Transactional commits while their transaction was open: ``pending_offsets``."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.owners import CONSUMED, owner_at_commit
from coordinator_replay.pipeline.transactions import (
    KEY,
    commit_events,
    commits,
    is_pending_at_first,
    of_keys,
    takes_effect,
    transactional_commits,
)


def pending_intervals(records: DataFrame) -> DataFrame:
    """Each commit that waited for a marker, with what settled it: struct ``settled`` of offset, timestamp, ended_by.

    The columns are those of ``commits`` and pending_since.
    """
    waiting = transactional_commits(records)
    around = of_keys(records, waiting)
    tombstones = commits(around).where("is_tombstone")
    settled = F.struct(
        F.col("log_offset").alias("offset"),
        F.col("log_timestamp").alias("timestamp"),
        F.lit("TOMBSTONE").alias("ended_by"),
    )
    downwards = Window.partitionBy(*KEY).orderBy(F.col("log_offset").desc())
    seen = downwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    with_tombstone = (
        waiting.unionByName(tombstones.select(*KEY, "log_offset", settled.alias("tombstone")), allowMissingColumns=True)
        .withColumn("tombstone", F.last("tombstone", ignorenulls=True).over(seen))
        .where(F.col("is_tombstone").isNotNull())
    )
    run = Window.partitionBy(*KEY, "producer_id", F.col("marker.offset"), F.col("tombstone.offset"))
    in_run = run.orderBy("log_offset")
    replaced = F.when(
        F.lead("log_offset").over(in_run).isNotNull(),
        F.struct(
            F.lead("log_offset").over(in_run).alias("offset"),
            F.lead("log_timestamp").over(in_run).alias("timestamp"),
            F.lit("REPLACED").alias("ended_by"),
        ),
    )
    events = commit_events(around).withColumn("takes_effect", takes_effect())
    effects = events.where(is_pending_at_first()).select("log_partition", "log_offset", "takes_effect")
    outcome = F.when(F.col("marker.type") != "COMMIT", F.col("marker.type")).otherwise(
        F.when(F.col("takes_effect"), F.lit("COMMIT")).otherwise(F.lit("SKIPPED"))
    )
    ended = F.when(
        F.col("marker").isNotNull(),
        F.struct(
            F.col("marker.offset").alias("offset"),
            F.col("marker.timestamp").alias("timestamp"),
            outcome.alias("ended_by"),
        ),
    )
    first = F.when(F.col("tombstone.offset") < F.col("marker.offset"), F.col("tombstone"))
    return (
        with_tombstone.withColumn("replaced", replaced)
        .withColumn("pending_since", F.first("log_timestamp").over(in_run))
        .join(effects, ["log_partition", "log_offset"], "left")
        .withColumn("settled", F.coalesce("replaced", first, ended, "tombstone"))
        .drop("replaced", "tombstone", "marker", "takes_effect")
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
