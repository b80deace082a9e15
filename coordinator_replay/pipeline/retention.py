"""How long the broker keeps offsets, inferred from when it took them: the setting itself is not in the log."""

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.expiration import DEFAULT_CHECK_INTERVAL_MS, Rule
from coordinator_replay.pipeline.due import milliseconds_between
from coordinator_replay.pipeline.offset_stage import Staged
from coordinator_replay.pipeline.offsets import of_kind

_MINUTE_MS = 60_000
_ROUND_MS = (24 * 60 * _MINUTE_MS, 60 * _MINUTE_MS, 10 * _MINUTE_MS, _MINUTE_MS)
"""What people set: whole days before hours before minutes."""

_BY_AGE = [str(rule) for rule in (Rule.EMPTY_SINCE, Rule.SIMPLE_GROUP, Rule.UNSUBSCRIBED_TOPIC)]


def _is_by_age() -> Column:
    return F.col("rule").isin(_BY_AGE) & F.col("expire_timestamp").isNull()


def survivors(staged: DataFrame, end: datetime) -> DataFrame:
    """How old offsets are that still hold at the end of the log read, under a rule by which they could expire: age_ms.

    Args:
        staged: from ``staged_offsets``.
        end: the end of the log read.
    """
    held = of_kind(staged, Staged.OPEN).where(_is_by_age() & ~F.col("is_protected"))
    at_risk_since = F.greatest("base_timestamp", F.coalesce("rule_since", "base_timestamp"))
    return held.select(milliseconds_between(at_risk_since, F.lit(end)).alias("age_ms"))


def infer_retention(
    removed: DataFrame, survived: DataFrame, *, check_interval_ms: int = DEFAULT_CHECK_INTERVAL_MS
) -> DataFrame:
    """What the retention must have been, from the ages at which offsets of several groups went.

    Retention is at most the age of each offset it took, and at least the age of each offset it left, less one check.
    Where several groups lost offsets at ages that agree with both and with one another, it lies between; whole days,
    hours or minutes are taken before odd values.

    Args:
        removed: from ``removed_offsets``.
        survived: from ``survivors``.
        check_interval_ms: offsets.retention.check.interval.ms, or a bound of it.

    Returns:
        one row: retention_ms (null where nothing can be inferred), and how many groups agree on it.
    """
    age = milliseconds_between(F.col("base_timestamp"), F.col("tombstone_at"))
    lived = F.least(age, milliseconds_between(F.coalesce("rule_since", "base_timestamp"), F.col("tombstone_at")))
    by_age = removed.where(_is_by_age() & ~F.col("is_protected"))
    operations = by_age.groupBy("log_partition", "group_id", "tombstone_at").agg(F.min(age).alias("age_ms"))
    left = survived.unionByName(by_age.select(lived.alias("age_ms")))
    at_least = left.agg(
        F.greatest(F.max("age_ms") - check_interval_ms, F.lit(_MINUTE_MS).cast("bigint")).alias("at_least_ms")
    )
    agreeing = (
        operations.crossJoin(F.broadcast(at_least))
        .where(F.col("age_ms") >= F.col("at_least_ms"))
        .groupBy(F.floor(F.col("age_ms") / check_interval_ms).alias("bucket"), "at_least_ms")
        .agg(
            F.count_distinct("group_id").alias("groups"),
            F.min("age_ms").alias("youngest_ms"),
            F.max("age_ms").alias("oldest_ms"),
        )
        .where(F.col("groups") >= 2)
    )
    lowest = F.greatest("at_least_ms", F.col("oldest_ms") - check_interval_ms)
    candidates = [(F.floor(F.col("youngest_ms") / unit) * unit).cast("bigint") for unit in _ROUND_MS]
    found = F.coalesce(*(F.when(candidate >= lowest, candidate) for candidate in candidates))
    best = Window.orderBy(F.col("groups").desc(), "bucket")
    return (
        agreeing.withColumn("retention_ms", found)
        .where(F.col("retention_ms").isNotNull())
        .withColumn("place", F.row_number().over(best))
        .agg(F.min_by("retention_ms", "place").alias("retention_ms"), F.min_by("groups", "place").alias("groups"))
    )
