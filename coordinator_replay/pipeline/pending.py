"""Transactional commits while their transaction was open: ``pending_offsets``."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.owners import CONSUMED, owner_at_commit
from coordinator_replay.pipeline.transactions import commits, pending_intervals, transactional_commits


def pending_offsets(
    records: DataFrame,
    cluster: str,
    *,
    transactional: DataFrame | None = None,
    ownership: DataFrame | None = None,
    timeline: DataFrame | None = None,
) -> DataFrame:
    """Transactional commits while their transaction was open: rows of table ``pending_offsets``.

    Those with valid_to null are pending at the end of the log read.

    Args:
        records: settled rows.
        cluster: name of the cluster.
        transactional: what a run kept of ``transactional_commits``; None computes it.
        ownership: table ``partition_ownership``; None leaves owner_member_id null.
        timeline: table ``group_timeline``; None leaves group_state null.
    """
    found = transactional_commits(records) if transactional is None else transactional
    waited = pending_intervals(commits(records), found)
    told = owner_at_commit(waited, found.select(*CONSUMED).distinct(), cluster, ownership, timeline)
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
        nothing.cast("bigint").alias("previous_offset"),
        "producer_id",
        "producer_epoch",
        "pending_since",
    )
