"""What retention took, what it should have taken, and what it takes next: ``expired_offsets``."""

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.due import expire_at, later
from coordinator_replay.pipeline.offset_stage import Staged
from coordinator_replay.pipeline.offsets import of_kind

_TOLD = (
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "metadata",
    "commit_timestamp",
    "base_timestamp",
    "expire_at",
    "rule",
    "status",
    "confidence",
    "tombstone_offset",
    "tombstone_at",
    "last_consumed_by",
)


def _expected(
    staged: DataFrame, *, as_of: datetime, retention_ms: int, horizon_ms: int, retention_is_known: bool
) -> DataFrame:
    """Offsets that are due, or will be within the horizon; an open transaction keeps an offset from expiring."""
    moment = F.lit(as_of)
    held = of_kind(staged, Staged.OPEN).where(~F.col("is_protected") & F.col("base_timestamp").isNotNull())
    nothing = {"tombstone_offset": F.lit(None).cast("bigint"), "tombstone_at": F.lit(None).cast("timestamp")}
    return (
        held.withColumn("expire_at", expire_at(retention_ms))
        .where(F.col("expire_at") <= later(moment, horizon_ms))
        .withColumn("status", F.when(F.col("expire_at") <= moment, F.lit("DUE")).otherwise(F.lit("EXPIRING")))
        .withColumn("confidence", F.lit("certain" if retention_is_known else "likely"))
        .withColumn("alternatives", F.array().cast("array<string>"))
        .withColumns(nothing)
    )


def _taken(causes: DataFrame, as_of: datetime) -> DataFrame:
    """Offsets that retention took up to a moment."""
    seen = F.coalesce(F.col("tombstone_at") <= F.lit(as_of), F.lit(True))
    named = {"ended_confidence": "confidence", "ended_alternatives": "alternatives"}
    rows = causes.where((F.col("ended_by") == "EXPIRED") & seen).withColumnsRenamed(named)
    return rows.withColumn("status", F.lit("EXPIRED"))


def expired_offsets(
    staged: DataFrame,
    causes: DataFrame,
    *,
    as_of: datetime,
    retention_ms: int,
    horizon_ms: int,
    cluster: str,
    retention_is_known: bool = True,
) -> DataFrame:
    """What retention took, and what it is about to take, as seen at a moment: rows of table ``expired_offsets``.

    An offset whose group's members subscribe to its topic, or on which a transaction is open, is in no danger and not
    told. For a moment after the end of the log read, groups are taken to have stayed as they were.

    Args:
        staged: from ``staged_offsets``, as if the log ended at that moment.
        causes: from ``tombstone_causes``.
        as_of: the moment.
        retention_ms: offsets.retention.minutes in milliseconds.
        horizon_ms: how far ahead to look.
        cluster: name of the cluster.
        retention_is_known: given, or observed; a mere default makes nothing certain.
    """
    expected = _expected(
        staged, as_of=as_of, retention_ms=retention_ms, horizon_ms=horizon_ms, retention_is_known=retention_is_known
    )
    told = (*_TOLD, F.col("last_state").alias("group_state"), "alternatives")
    rows = expected.select(*told).unionByName(_taken(causes, as_of).select(*told))
    return rows.select(F.lit(cluster).alias("cluster"), "*", F.lit(retention_ms).cast("bigint").alias("retention_ms"))
