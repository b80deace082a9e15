"""Commits that wait for a marker, and the marker that each gets.

A commit whose record carries a producer id is pending until that producer's next control record in the same log
partition; the producer's epoch does not count, since with KIP-890 the marker's is a newer one.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.log.schema import ControlType

_ENDS = [ControlType.COMMIT.value, ControlType.ABORT.value]


def waits_for_marker() -> Column:
    """Whether a commit is pending at first; those of unknown producers (exports through a consumer) are not."""
    return F.coalesce((F.col("producer_id") != -1) & ~F.col("is_tombstone"), F.lit(False))


def commits_with_markers(commits: DataFrame, markers: DataFrame, earlier: DataFrame | None = None) -> DataFrame:
    """Commits that wait for a marker, each with the one that ends its transaction, null while it is open.

    Args:
        commits: rows of ``offset_commits``.
        markers: rows of ``control_records``.
        earlier: commits from before these that wait for one of the markers too, with columns of their own beside.

    Returns:
        the columns of ``commits`` and ``earlier``, and struct ``marker`` of offset, timestamp and type.
    """
    # In a form that Parquet's statistics answer for whole row groups: in most logs, none has such commits.
    waiting = commits.where((F.col("producer_id") != -1) & ~F.col("is_tombstone"))
    if earlier is not None:
        waiting = waiting.unionByName(earlier, allowMissingColumns=True)
    ends = markers.where(F.col("control_type").isin(_ENDS)).select(
        "log_partition",
        "log_offset",
        "producer_id",
        F.struct(
            F.col("log_offset").alias("offset"),
            F.col("log_timestamp").alias("timestamp"),
            F.col("control_type").alias("type"),
        ).alias("marker"),
    )
    # Downwards, so that "the next marker" is the last one seen: upwards each row would look through all that follow.
    downwards = Window.partitionBy("log_partition", "producer_id").orderBy(F.col("log_offset").desc())
    seen = downwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        waiting.unionByName(ends, allowMissingColumns=True)
        .withColumn("marker", F.last("marker", ignorenulls=True).over(seen))
        .where(F.col("group_id").isNotNull())
    )
