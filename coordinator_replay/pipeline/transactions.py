"""Commits in the order in which they begin to hold: plain ones at their record, transactional ones at their marker.

A commit whose record carries a producer id is pending until that producer's next control record in the same log
partition; the producer's epoch does not count, since with KIP-890 the marker's is a newer one. Then it holds if its
record is younger than the one that holds. Since a tombstone kills what is pending, and a producer's later commit
replaces its earlier one, all of that is one question: does a record offset exceed every one that came to hold, or
removed what held, before?

Transactional commits and tombstones are few beside all commits, but Spark can't know that of a filter: it would shuffle
every commit to join it with them. So a run keeps both as files once, and hands them to what needs them.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.log.schema import ControlType
from coordinator_replay.pipeline.as_of import last_before

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


def tombstones(records: DataFrame) -> DataFrame:
    """Tombstones of offsets among settled rows, in the columns of ``commits``."""
    return commits(records).where("is_tombstone")


def _waits_for_marker() -> Column:
    """Whether a commit is pending at first; in a form that Parquet's statistics answer for whole row groups."""
    return (F.col("producer_id") != -1) & ~F.col("is_tombstone")


def _holds_at_once() -> Column:
    """The opposite; commits of unknown producers (exports through a consumer) count in."""
    return F.col("producer_id").isNull() | (F.col("producer_id") == -1) | F.col("is_tombstone")


def transactional_commits(records: DataFrame) -> DataFrame:
    """Commits that wait for a marker, each with the marker that ends its transaction, null while it is open.

    Returns:
        the columns of ``commits`` and struct ``marker`` of offset, timestamp and type.
    """
    waiting = commits(records).where(_waits_for_marker())
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


def pending_intervals(found: DataFrame, transactional: DataFrame) -> DataFrame:
    """Each commit that waited for a marker, with what settled it: struct ``settled`` of offset, timestamp, ended_by.

    One shuffle of what happened to keys with such commits.

    Args:
        found: from ``commits``.
        transactional: from ``transactional_commits``.

    Returns:
        the columns of ``commits``, pending_since and settled.
    """
    others = found.where(_holds_at_once())
    beside = others.join(transactional.select(*KEY), list(KEY), "left_semi")
    holds_from = F.when(F.col("marker.type") == ControlType.COMMIT.value, F.col("marker.offset"))
    events = transactional.withColumn("at_offset", holds_from).unionByName(
        beside.withColumn("at_offset", F.col("log_offset")), allowMissingColumns=True
    )
    tombstone = F.when(F.col("is_tombstone"), _settled("log_offset", "log_timestamp", F.lit("TOMBSTONE")))
    # What never came to hold must not count as younger than what did.
    holding = F.when(F.col("at_offset").isNotNull(), F.col("log_offset"))
    in_effect = Window.partitionBy(*KEY).orderBy("at_offset", F.col("log_offset").desc())
    known = (
        events.withColumn("tombstone", tombstone)
        .withColumn("tombstone", last_before([F.col("log_offset").desc()], KEY, "tombstone"))
        .withColumn("youngest", F.max(holding).over(in_effect.rowsBetween(Window.unboundedPreceding, -1)))
        .where(_waits_for_marker())
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


def commit_events(found: DataFrame, transactional: DataFrame, causes: DataFrame | None = None) -> DataFrame:
    """Everything that sets or removes an offset, with the position and time at which it does: at_offset, at_timestamp.

    Plain commits, which are nearly all, come straight from their records. With causes, tombstones carry theirs as
    struct ``cause``.

    Args:
        found: from ``commits``.
        transactional: from ``transactional_commits``.
        causes: log_partition, log_offset and cause of tombstones.
    """
    waited = pending_intervals(found, transactional)
    at_marker = waited.where(F.col("settled.ended_by") == ControlType.COMMIT.value).select(
        *(name for name in waited.columns if name not in ("settled", "pending_since")),
        F.col("settled.offset").alias("at_offset"),
        F.col("settled.timestamp").alias("at_timestamp"),
    )
    at_record = found.where(_holds_at_once()).select(
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


def with_next(events: DataFrame, *columns: str, previous: str | None = None) -> DataFrame:
    """Events with columns of the next event of their key, as ``next_…``; null where nothing follows.

    Args:
        events: from ``commit_events``.
        columns: the columns of the next event.
        previous: a column of the event before, as ``previous_…``.
    """
    in_order = Window.partitionBy(*KEY).orderBy("at_offset")
    beside = [F.lead(name).over(in_order).alias(f"next_{name}") for name in columns]
    if previous is not None:
        beside.append(F.lag(previous).over(in_order).alias(f"previous_{previous}"))
    return events.select("*", *beside)
