"""Commits in the order in which they begin to hold: plain ones at their record, transactional ones at their marker.

A commit whose record carries a producer id is pending until that producer's next control record in the same log
partition; the producer's epoch does not count, since with KIP-890 the marker's is a newer one. Then it holds if its
record is younger than the one that holds. Since a tombstone kills what is pending, and a producer's later commit
replaces its earlier one, all of that is one question: does a record offset exceed every one that came to hold, or
removed what held, before?
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.log.schema import ControlType

KEY = ("log_partition", "group_id", "topic", "partition")
"""What a committed offset belongs to, and the part of the log that tells about it."""

_POSITION = ("log_partition", "log_offset", "log_timestamp", "producer_id", "producer_epoch", "missing_before")
_FIELDS = (
    "group_id",
    "topic",
    "partition",
    "is_tombstone",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "expire_timestamp",
)
_ENDS = [ControlType.COMMIT.value, ControlType.ABORT.value]


def commits(records: DataFrame) -> DataFrame:
    """Offset commits and their tombstones among settled rows, flat."""
    found = records.where(F.col("commit").isNotNull())
    return found.select(*_POSITION, *(f"commit.{name}" for name in _FIELDS))


def of_keys(records: DataFrame, keys: DataFrame) -> DataFrame:
    """Settled rows of some keys only, with all control records."""
    found = records.where(F.col("commit").isNotNull()).alias("records")
    wanted = keys.select(*KEY).distinct().alias("wanted")
    same = F.col("records.log_partition") == F.col("wanted.log_partition")
    for name in KEY[1:]:
        same = same & (F.col(f"records.commit.{name}") == F.col(f"wanted.{name}"))
    return found.join(wanted, same, "left_semi").unionByName(records.where(F.col("control_type").isNotNull()))


def is_pending_at_first() -> Column:
    """Whether a commit waits for a marker. Unknown producers (exports through a consumer) count as none."""
    return ~F.col("is_tombstone") & F.coalesce(F.col("producer_id") != -1, F.lit(False))


def transactional_commits(records: DataFrame) -> DataFrame:
    """Commits that wait for a marker, each with the marker that ends its transaction, null while it is open.

    Returns:
        the columns of ``commits`` and struct ``marker`` of offset, timestamp and type.
    """
    waiting = commits(records).where(is_pending_at_first())
    markers = records.where(F.col("control_type").isin(_ENDS)).select(
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
        waiting.unionByName(markers, allowMissingColumns=True)
        .withColumn("marker", F.last("marker", ignorenulls=True).over(seen))
        .where(F.col("group_id").isNotNull())
    )


def commit_events(records: DataFrame, causes: DataFrame | None = None) -> DataFrame:
    """Everything that sets or removes an offset, with the position and time at which it does: at_offset, at_timestamp.

    Transactional commits that were aborted, or are still pending, are left out. With causes, tombstones carry theirs
    as struct ``cause``.
    """
    committed = transactional_commits(records).where(F.col("marker.type") == ControlType.COMMIT.value)
    at_marker = committed.select(
        *committed.drop("marker").columns,
        F.col("marker.offset").alias("at_offset"),
        F.col("marker.timestamp").alias("at_timestamp"),
    )
    at_once = commits(records).where(~is_pending_at_first())
    at_record = at_once.select(
        "*", F.col("log_offset").alias("at_offset"), F.col("log_timestamp").alias("at_timestamp")
    )
    if causes is None:
        return at_record.unionByName(at_marker)
    explained = at_record.where("is_tombstone").join(causes, ["log_partition", "log_offset"], "left")
    return (
        at_record.where(~F.col("is_tombstone"))
        .unionByName(explained, allowMissingColumns=True)
        .unionByName(at_marker, allowMissingColumns=True)
    )


def in_key() -> WindowSpec:
    """The events of a key as they take effect; of several commits that one marker lets hold, the youngest first."""
    return Window.partitionBy(*KEY).orderBy("at_offset", F.col("log_offset").desc())


def effective_events(events: DataFrame) -> DataFrame:
    """Events without those that change nothing, each with what comes next for its key.

    Returns:
        the columns of ``events`` and next_offset, next_timestamp, next_is_tombstone, next_is_known (whether the input
        form tells if the next one was transactional); null where nothing follows.
    """
    follows = in_key()
    # No older record may come to hold after a younger one.
    youngest = F.max("log_offset").over(follows.rowsBetween(Window.unboundedPreceding, -1))
    return (
        events.withColumn("youngest", youngest)
        .where("youngest IS NULL OR log_offset > youngest")
        .drop("youngest")
        .withColumn("next_offset", F.lead("at_offset").over(follows))
        .withColumn("next_timestamp", F.lead("at_timestamp").over(follows))
        .withColumn("next_is_tombstone", F.lead("is_tombstone").over(follows))
        .withColumn("next_is_known", F.lead(F.col("producer_id").isNotNull()).over(follows))
    )
