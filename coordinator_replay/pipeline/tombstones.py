"""Why offsets were deleted: a tombstone names no cause, so it is told from what else happened at its moment.

Retention takes every offset of a group whose time is up, and the group with the last of them. Deleting a group takes
all its offsets whatever their age, deleting a topic takes that topic from many groups at once, and an admin takes what
he likes. So one offset that is too young proves that a deletion was not retention's; where all are old enough, how soon
after their time they went tells how sure retention is.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from coordinator_replay.analysis.expiration import DEFAULT_CHECK_INTERVAL_MS
from coordinator_replay.pipeline.due import expire_at, milliseconds_between
from coordinator_replay.pipeline.offset_stage import STAGED, Staged
from coordinator_replay.pipeline.offsets import of_kind

TOPIC_DELETION_SPREAD_MS = 30_000
"""A deleted topic's offsets go in all offsets partitions at about the same time: at most so far from one another."""

_OPERATION = ("log_partition", "group_id", "tombstone_at")


_CAUSE_COLUMNS = (
    ("tombstone_offset", "BIGINT"),
    *((name, "TIMESTAMP") for name in ("tombstone_at", "expire_at")),
    *((name, "STRING") for name in ("ended_by", "ended_confidence")),
    *((name, "ARRAY<STRING>") for name in ("ended_alternatives", "ended_evidence")),
)


def causes_type() -> StructType:
    """The columns of ``tombstone_causes``."""
    told = from_arrow_schema(STAGED, prefer_timestamp_ntz=False)
    kept = [field for field in told.fields if field.name not in ("kind", "ended_by")]
    return StructType([*kept, *(StructField(name, DataType.fromDDL(type_)) for name, type_ in _CAUSE_COLUMNS)])


def removed_offsets(staged: DataFrame) -> DataFrame:
    """Offsets that a tombstone removed, each with the rule under which it could have expired.

    Args:
        staged: from ``staged_offsets``.

    Returns:
        the columns of ``STAGED``, tombstone_offset and tombstone_at.
    """
    rows = of_kind(staged, Staged.REMOVED).drop("kind")
    return rows.withColumns({"tombstone_offset": F.col("to_offset"), "tombstone_at": F.col("valid_to")})


def _differ(column: str, when: Column, *by: str) -> Column:
    """Whether rows of one place that fulfil a condition name more than one value."""
    place = Window.partitionBy(*by)
    return F.coalesce(
        F.min(F.when(when, F.col(column))).over(place) != F.max(F.when(when, F.col(column))).over(place), F.lit(False)
    )


def _topic_session() -> Column:
    """A number for each burst of tombstones of a topic, in all groups and log partitions."""
    in_time = Window.partitionBy("topic").orderBy("tombstone_at", "log_partition", "tombstone_offset")
    pause = milliseconds_between(F.lag("tombstone_at").over(in_time), F.col("tombstone_at"))
    return F.when(F.coalesce(pause > TOPIC_DELETION_SPREAD_MS, F.lit(False)), 1).otherwise(0)


def tombstone_causes(
    removed: DataFrame,
    *,
    retention_ms: int,
    retention_is_known: bool = True,
    check_interval_ms: int = DEFAULT_CHECK_INTERVAL_MS,
) -> DataFrame:
    """What each tombstone that removed an offset was, as far as it can be told.

    Args:
        removed: from ``removed_offsets``.
        retention_ms: offsets.retention.minutes in milliseconds.
        retention_is_known: given, or observed; a mere default makes nothing certain.
        check_interval_ms: offsets.retention.check.interval.ms, or a bound of it.

    Returns:
        the columns of ``removed`` with what is known of ended_by, and expire_at, ended_confidence,
        ended_alternatives, ended_evidence.
    """
    operation = Window.partitionBy(*_OPERATION)
    in_time = Window.partitionBy("topic").orderBy("tombstone_at", "log_partition", "tombstone_offset")
    judged = (
        removed.withColumn("expire_at", expire_at(retention_ms))
        .withColumn(
            "is_old", F.coalesce(F.col("expire_at") <= F.col("tombstone_at"), F.lit(False)) & ~F.col("is_protected")
        )
        .withColumn("all_old", F.min("is_old").over(operation))
        .withColumn("late_ms", milliseconds_between(F.greatest("expire_at", "rule_since"), F.col("tombstone_at")))
        .withColumn("is_prompt", F.max("late_ms").over(operation) <= check_interval_ms)
        .withColumn("starts_session", _topic_session())
        .withColumn("session", F.sum("starts_session").over(in_time.rowsBetween(Window.unboundedPreceding, 0)))
    )
    was_taken_young = ~F.col("all_old") & ~F.col("has_group_tombstone")
    shared = {
        "with_others": _differ("group_id", F.col("all_old"), "log_partition", "tombstone_at"),
        "topic_went": _differ("group_id", was_taken_young, "topic", "session"),
    }
    return (
        judged.withColumns(shared)
        .withColumn("cause", _cause(F.lit(retention_is_known)))
        .select(*(name for name in removed.columns if name != "ended_by"), "expire_at", "cause.*")
    )


def _told(ended_by: str, confidence: Column | str, evidence: list[str], alternatives: Column | list[str]) -> Column:
    def words(texts: list[str]) -> Column:
        return F.array(*(F.lit(text) for text in texts)).cast("array<string>")

    return F.struct(
        F.lit(ended_by).alias("ended_by"),
        (F.lit(confidence) if isinstance(confidence, str) else confidence).alias("ended_confidence"),
        (words(alternatives) if isinstance(alternatives, list) else alternatives).alias("ended_alternatives"),
        words(evidence).alias("ended_evidence"),
    )


def _cause(retention_is_known: Column) -> Column:
    """The decision, from what was found out about a tombstone and its operation; the first case that fits."""
    all_old, with_group = F.col("all_old"), F.col("has_group_tombstone")
    sure = F.when(retention_is_known, F.lit("certain")).otherwise(F.lit("likely"))
    otherwise_deleted = F.when(with_group, F.array(F.lit("GROUP_DELETED"))).otherwise(F.array(F.lit("DELETED")))
    nothing_else = F.array().cast("array<string>")
    return (
        F.when(
            F.col("tombstone_at").isNull(),
            _told(
                "TOMBSTONE",
                "possible",
                ["the tombstone carries no timestamp"],
                F.concat(F.array(F.lit("EXPIRED")), otherwise_deleted),
            ),
        )
        .when(
            ~all_old & with_group,
            _told(
                "GROUP_DELETED",
                sure,
                [
                    "the group's tombstone was written with it",
                    "an offset removed in the same write was not past offsets.retention.minutes",
                ],
                F.when(retention_is_known, nothing_else).otherwise(F.array(F.lit("EXPIRED"))),
            ),
        )
        .when(
            F.col("topic_went"),
            _told(
                "DELETED",
                "likely",
                ["offsets of the topic were removed from several groups at about the same time: the topic was deleted"],
                F.when(all_old, F.array(F.lit("EXPIRED"))).otherwise(nothing_else),
            ),
        )
        .when(
            ~all_old,
            _told(
                "DELETED",
                sure,
                [
                    "removed before offsets.retention.minutes were over while the group existed: DeleteOffsets, or the "
                    "topic was deleted"
                ],
                F.when(retention_is_known, nothing_else).otherwise(F.array(F.lit("EXPIRED"))),
            ),
        )
        .when(
            F.col("with_others") & (F.col("is_prompt")),
            _told(
                "EXPIRED",
                sure,
                [
                    "every offset removed in the same write was past offsets.retention.minutes, by less than one "
                    "retention check",
                    "offsets of other groups expired at the same time",
                ],
                nothing_else,
            ),
        )
        .when(
            F.col("is_prompt") | F.col("with_others"),
            _told(
                "EXPIRED",
                F.when(F.col("is_prompt"), F.lit("likely")).otherwise(F.lit("possible")),
                ["every offset removed in the same write was past offsets.retention.minutes"],
                otherwise_deleted,
            ),
        )
        .otherwise(
            _told(
                "TOMBSTONE",
                "possible",
                [
                    "every offset removed in the same write was past offsets.retention.minutes, but for longer than "
                    "the broker's retention check leaves them"
                ],
                F.concat(F.array(F.lit("EXPIRED")), otherwise_deleted),
            )
        )
    )
