"""What each committed offset was, when, and how it ended: ``offset_history``.

One shuffle by group, topic and partition, whatever is asked for: commits are nearly all of the data. A group with half
of all commits is spread over its partitions; one hot partition is sorted on disk where memory does not hold it.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.owners import CONSUMED, owner_at_commit
from coordinator_replay.pipeline.transactions import KEY, commit_events, commits, transactional_commits, with_next

_NEXT = ("at_offset", "at_timestamp", "is_tombstone", "producer_id")


def offset_history(
    records: DataFrame,
    cluster: str,
    *,
    transactional: DataFrame | None = None,
    causes: DataFrame | None = None,
    ownership: DataFrame | None = None,
    timeline: DataFrame | None = None,
) -> DataFrame:
    """What each committed offset was, when: rows of table ``offset_history``.

    Args:
        records: settled rows.
        cluster: name of the cluster.
        transactional: what a run kept of ``transactional_commits``; None computes it.
        causes: from ``tombstone_causes``; without it, what a tombstone ended is ended by ``TOMBSTONE``.
        ownership: table ``partition_ownership``; None leaves owner_member_id null.
        timeline: table ``group_timeline``; None leaves group_state null.
    """
    found = commits(records)
    waited = transactional_commits(records) if transactional is None else transactional
    events = commit_events(found, waited, _cause_struct(causes))
    told = owner_at_commit(events, found.select(*CONSUMED).distinct(), cluster, ownership, timeline)
    known = with_next(told, *_NEXT, *(["cause"] if causes is not None else []), previous="committed_offset")
    ended_by_tombstone = F.col("next_is_tombstone")
    cause = {
        name: F.when(ended_by_tombstone, F.col(f"next_cause.{name}") if causes is not None else F.lit(None))
        for name in ("ended_by", "ended_confidence", "ended_alternatives", "ended_evidence")
    }
    ended_by = F.when(ended_by_tombstone, F.coalesce(cause["ended_by"], F.lit("TOMBSTONE"))).when(
        F.col("next_at_offset").isNotNull(), F.lit("COMMIT")
    )
    end_is_proven = F.col("next_at_offset").isNull() | ended_by_tombstone | F.col("next_producer_id").isNotNull()
    return known.where(~F.col("is_tombstone")).select(
        F.lit(cluster).alias("cluster"),
        *CONSUMED,
        "committed_offset",
        "leader_epoch",
        "metadata",
        "commit_timestamp",
        F.col("at_timestamp").alias("valid_from"),
        F.col("next_at_timestamp").alias("valid_to"),
        F.col("at_offset").alias("from_offset"),
        F.col("next_at_offset").alias("to_offset"),
        "log_partition",
        ended_by.alias("ended_by"),
        (F.col("producer_id") != -1).alias("is_transactional"),
        "owner_member_id",
        "group_state",
        "expire_timestamp",
        F.col("log_offset").alias("record_offset"),
        (F.col("producer_id").isNotNull() & end_is_proven).alias("is_proven"),
        F.lit(0).cast("bigint").alias("commits_merged"),
        cause["ended_confidence"].cast("string").alias("ended_confidence"),
        cause["ended_alternatives"].cast("array<string>").alias("ended_alternatives"),
        cause["ended_evidence"].cast("array<string>").alias("ended_evidence"),
        F.col("previous_committed_offset").alias("previous_offset"),
    )


def _cause_struct(causes: DataFrame | None) -> DataFrame | None:
    if causes is None:
        return None
    fields = ("ended_by", "ended_confidence", "ended_alternatives", "ended_evidence")
    return causes.select(
        "log_partition", F.col("tombstone_offset").alias("log_offset"), F.struct(*fields).alias("cause")
    )


def thin_history(history: DataFrame, every_ms: int) -> DataFrame:
    """Keep the last commit of each stretch of time, for clusters where that is enough.

    What is kept is exact, but for valid_to and to_offset, which move to the next row that is kept, so that every moment
    has an answer: the last kept commit at or before it. The first commit after nothing held, and the last one before a
    tombstone, are kept whatever their time. ``commits_merged`` counts those left out before each row.

    Args:
        history: from ``offset_history``.
        every_ms: the stretch; they begin at multiples of it since 1970, UTC.
    """
    stretch = [F.floor(F.unix_millis(F.col(name)) / every_ms) for name in ("valid_from", "valid_to")]
    in_order = Window.partitionBy(*KEY).orderBy("from_offset")
    goes_on = F.coalesce(F.lag("ended_by").over(in_order) == "COMMIT", F.lit(False))
    # One that went backwards is worth a row whatever its time.
    goes_forward = ~F.coalesce(F.col("committed_offset") < F.col("previous_offset"), F.lit(False))
    is_left_out = (
        goes_on
        & goes_forward
        & F.coalesce(F.col("ended_by") == "COMMIT", F.lit(False))
        & F.coalesce(stretch[0] == stretch[1], F.lit(False))
    )
    counted = history.withColumn("is_left_out", is_left_out).withColumn("row", F.row_number().over(in_order))
    kept = counted.where(~F.col("is_left_out"))
    ends_by_commit = F.col("ended_by") == "COMMIT"
    moved = {
        "valid_to": F.when(ends_by_commit, F.lead("valid_from").over(in_order)).otherwise(F.col("valid_to")),
        "to_offset": F.when(ends_by_commit, F.lead("from_offset").over(in_order)).otherwise(F.col("to_offset")),
        "commits_merged": (F.col("row") - F.coalesce(F.lag("row").over(in_order), F.lit(0)) - 1).cast("bigint"),
    }
    return kept.withColumns(moved).drop("row", "is_left_out")
