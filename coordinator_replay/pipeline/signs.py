"""Commits as signs of life: the last ones before a record that may show that a member is gone.

Commits are nearly all of a log, and few of them stand near a departure. So those near one are picked by group and
minute against a small table, before anything is sorted; what is left is brought to the record that follows it. All of
it is columns; a group's replay sees one row for each such record.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.reasons.signs import DEPARTURES, SIGNS_WITHIN_MS
from coordinator_replay.times import EPOCH, LATEST_MS

_LOG = ("group_id", "log_partition")
MINUTE_MS = 60_000
"""Commits are picked by whole minutes."""
_MINUTES = SIGNS_WITHIN_MS // MINUTE_MS


def _at_ms() -> Column:
    return F.unix_millis("log_timestamp").alias("at_ms")


def departure_records(records: DataFrame) -> DataFrame:
    """Where a member may be gone: group_id, log_partition, log_offset and at_ms of the records that may show it.

    Args:
        records: rows of ``group_records`` of one cluster.
    """
    may_show = F.lit(False)
    for kind, by_tombstone in DEPARTURES.items():
        may_show = may_show | ((F.col("kind") == kind) & (F.col("is_tombstone") == by_tombstone))
    return records.where(may_show & F.col("log_timestamp").isNotNull()).select(*_LOG, "log_offset", _at_ms())


def signs_from(departures: DataFrame) -> datetime | None:
    """The moment before which no commit is a sign of life; None where there is no departure.

    Args:
        departures: from ``departure_records``, kept as files.
    """
    first = departures.agg(F.min("at_ms").alias("at_ms")).first()
    return None if first is None or first["at_ms"] is None else signs_before(first["at_ms"])


def signs_before(at_ms: int) -> datetime:
    """The moment before which no commit is a sign of life, given the time of the first departure in milliseconds."""
    # A whole minute before: that is how commits are picked.
    before_ms = at_ms - SIGNS_WITHIN_MS - MINUTE_MS
    return EPOCH + timedelta(milliseconds=min(max(before_ms, 0), LATEST_MS))


def last_before_departures(commits: DataFrame, departures: DataFrame) -> DataFrame:
    """The last commit of each partition before each record that may show a departure, since the one before.

    Args:
        commits: rows of ``offset_commits`` of the same cluster.
        departures: from ``departure_records``, kept as files, so that Spark sees that they are few.

    Returns:
        group_id, log_partition, ``of``: the record's log_offset; topic, partition, at_ms and log_offset of the commit.
    """
    minute = F.floor(F.col("at_ms") / MINUTE_MS)
    near = departures.select(*_LOG, F.explode(F.sequence(minute - _MINUTES, minute)).alias("minute")).distinct()
    told = commits.where(~F.col("is_tombstone")).select(*_LOG, "log_offset", _at_ms(), "topic", "partition")
    picked = told.withColumn("minute", F.floor(F.col("at_ms") / MINUTE_MS)).join(near, [*_LOG, "minute"], "left_semi")
    marks = departures.withColumn("departure", F.struct("log_offset", "at_ms"))
    # Downwards, so that the frame only grows: looking ahead, Spark would begin anew at each row.
    downwards = Window.partitionBy(*_LOG).orderBy(F.desc("log_offset")).rowsBetween(Window.unboundedPreceding, 0)
    brought = (
        picked.unionByName(marks, allowMissingColumns=True)
        .withColumn("departure", F.last("departure", ignorenulls=True).over(downwards))
        .where("topic IS NOT NULL AND departure IS NOT NULL")
        .where(F.col("departure.at_ms") - F.col("at_ms") <= SIGNS_WITHIN_MS)
        .where(F.col("minute") <= F.floor(F.col("departure.at_ms") / MINUTE_MS))
    )
    place = F.col("departure.log_offset").alias("of")
    last = brought.groupBy(*_LOG, place, "topic", "partition").agg(F.max(F.struct("at_ms", "log_offset")).alias("last"))
    return last.select(*_LOG, "of", "topic", "partition", "last.*")


def signs_of_life(last: DataFrame) -> DataFrame:
    """What a group's replay is given before each record that may show a departure.

    Args:
        last: from ``last_before_departures``, or ``last_in_shares``.

    Returns:
        group_id, log_partition, log_offset of the record, and value_json: what ``last_commits`` reads.
    """
    one = F.struct("topic", "partition", "at_ms", F.col("log_offset").alias("offset"))
    every = last.groupBy(*_LOG, "of").agg(F.to_json(F.sort_array(F.collect_list(one))).alias("value_json"))
    return every.withColumnRenamed("of", "log_offset")


def last_commits(text: str, log_partition: int) -> Iterator[tuple[str, int, int, int, int]]:
    """Commits of one row of ``signs_of_life``, as a group's replay takes them."""
    for one in json.loads(text):
        yield one["topic"], one["partition"], one["at_ms"], log_partition, one["offset"]
