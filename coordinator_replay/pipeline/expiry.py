"""What retention took, what it should have taken, and what it takes next: ``expired_offsets``."""

from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.as_of import as_of_join
from coordinator_replay.pipeline.group_facts import FACT_STRUCT, base_of_offset, expire_at, later, rule_of_offset

_KEY = ("group_id", "topic", "partition")


def _held(history: DataFrame, pending: DataFrame, as_of: datetime) -> DataFrame:
    """Offsets that held at a moment, without those that an open transaction keeps from expiring."""
    moment = F.lit(as_of)

    def at_moment(table: DataFrame) -> DataFrame:
        begun = F.coalesce(F.col("valid_from") <= moment, F.lit(True))
        return table.where(begun & F.coalesce(F.col("valid_to") > moment, F.col("to_offset").isNull()))

    # Clocks of two coordinators may disagree, so that two rows of a key hold at one moment: the later one counts.
    youngest = Window.partitionBy(*_KEY).orderBy(F.col("from_offset").desc())
    held = at_moment(history).withColumn("place", F.row_number().over(youngest)).where("place = 1").drop("place")
    return held.join(at_moment(pending).select(*_KEY), list(_KEY), "left_anti")


def _expected(
    held: DataFrame, facts: DataFrame, *, as_of: datetime, retention_ms: int, horizon_ms: int, confidence: str
) -> DataFrame:
    """Offsets that are due, or will be within the horizon."""
    moment = F.lit(as_of)
    latest = (
        facts.where(F.coalesce(F.col("log_timestamp") <= moment, F.lit(True)))
        .groupBy("log_partition", "group_id")
        .agg(F.max_by(F.struct(*FACT_STRUCT), "log_offset").alias("fact"))
    )
    is_due = F.col("expire_at") <= moment
    return (
        held.join(latest, ["log_partition", "group_id"], "left")
        .withColumn("rule", rule_of_offset())
        .withColumn("base_timestamp", base_of_offset())
        .withColumn("expire_at", F.when(F.col("base_timestamp").isNotNull(), expire_at(retention_ms)))
        .where(F.col("expire_at") <= later(moment, horizon_ms))
        .select(
            *_KEY,
            "committed_offset",
            "metadata",
            "commit_timestamp",
            "base_timestamp",
            "expire_at",
            "rule",
            F.when(is_due, F.lit("DUE")).otherwise(F.lit("EXPIRING")).alias("status"),
            F.lit(confidence).alias("confidence"),
            F.coalesce("fact.group_state", F.when(F.col("fact").isNull(), F.lit("Empty"))).alias("state_by_facts"),
            moment.alias("at"),
        )
    )


def _taken(causes: DataFrame, as_of: datetime) -> DataFrame:
    """Offsets that retention took up to a moment."""
    seen = F.coalesce(F.col("tombstone_at") <= F.lit(as_of), F.lit(True))
    return causes.where((F.col("ended_by") == "EXPIRED") & seen).select(
        *_KEY,
        "committed_offset",
        "metadata",
        "commit_timestamp",
        "base_timestamp",
        "expire_at",
        "rule",
        F.lit("EXPIRED").alias("status"),
        F.col("ended_confidence").alias("confidence"),
        "tombstone_offset",
        "tombstone_at",
        F.col("group_state").alias("state_by_facts"),
        F.col("tombstone_at").alias("at"),
        F.col("ended_alternatives").alias("alternatives"),
    )


def _last_consumed_by(rows: DataFrame, ownership: DataFrame | None) -> DataFrame:
    if ownership is None:
        return rows.withColumn("last_consumed_by", F.lit(None).cast("string"))
    owned = ownership.where(F.col("topic").isNotNull())
    joined = as_of_join(
        rows, owned, keys=list(_KEY), at="at", fact_at="owned_from", take=["member_id"], into="last_owner"
    )
    return joined.withColumn("last_consumed_by", F.col("last_owner.member_id")).drop("last_owner")


def _group_state(rows: DataFrame, timeline: DataFrame | None) -> DataFrame:
    """The group's state just before its tombstones, or at the moment asked for."""
    if timeline is None:
        return rows.withColumnRenamed("state_by_facts", "group_state")
    # Events of the operation that a tombstone belongs to share its timestamp: the state before it is wanted.
    before = F.when(F.col("status") == "EXPIRED", F.col("at") - F.expr("INTERVAL 1 MICROSECOND")).otherwise(F.col("at"))
    in_life = Window.partitionBy("group_id", "log_timestamp").orderBy(F.col("seq").desc())
    states = (
        timeline.where(F.col("to_state").isNotNull())
        .withColumn("place", F.row_number().over(in_life))
        .where("place = 1")
    )
    joined = as_of_join(
        rows.withColumn("state_at", before),
        states,
        keys=["group_id"],
        at="state_at",
        fact_at="log_timestamp",
        take=["to_state"],
        into="told",
    )
    state = F.coalesce(F.nullif(F.col("told.to_state"), F.lit("Dead")), F.col("state_by_facts"))
    return joined.withColumn("group_state", state).drop("told", "state_at", "state_by_facts")


def expired_offsets(
    history: DataFrame,
    pending: DataFrame,
    causes: DataFrame,
    facts: DataFrame,
    *,
    as_of: datetime,
    retention_ms: int,
    horizon_ms: int,
    cluster: str,
    ownership: DataFrame | None = None,
    timeline: DataFrame | None = None,
    retention_is_known: bool = True,
) -> DataFrame:
    """What retention took, and what it is about to take, as seen at a moment: rows of table ``expired_offsets``.

    An offset whose group's members subscribe to its topic, or on which a transaction is open, is in no danger and not
    told. For a moment after the end of the log read, groups are taken to have stayed as they were.

    Args:
        history: table ``offset_history``.
        pending: table ``pending_offsets``.
        causes: from ``tombstone_causes``.
        facts: from ``group_facts``.
        as_of: the moment, with a time zone.
        retention_ms: offsets.retention.minutes in milliseconds.
        horizon_ms: how far ahead to look.
        cluster: name of the cluster.
        ownership: table ``partition_ownership``; None leaves last_consumed_by null.
        timeline: table ``group_timeline``; None tells group_state by the group records alone.
        retention_is_known: given, or observed; a mere default makes nothing certain.
    """

    def mine(table: DataFrame) -> DataFrame:
        return table.where(F.col("cluster") == cluster)

    expected = _expected(
        _held(mine(history), mine(pending), as_of),
        facts,
        as_of=as_of,
        retention_ms=retention_ms,
        horizon_ms=horizon_ms,
        confidence="certain" if retention_is_known else "likely",
    )
    rows = expected.unionByName(_taken(causes, as_of), allowMissingColumns=True)
    owned = _last_consumed_by(rows, None if ownership is None else mine(ownership))
    told = _group_state(owned, None if timeline is None else mine(timeline))
    return told.select(
        F.lit(cluster).alias("cluster"),
        *_KEY,
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
        "group_state",
        F.coalesce("alternatives", F.array().cast("array<string>")).alias("alternatives"),
        F.lit(retention_ms).cast("bigint").alias("retention_ms"),
    )
