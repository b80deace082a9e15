"""Findings and metrics of a whole cluster, made anew by every audit.

Planning costs more than running on small dumps, and a join for each rule would make it dear. So Spark only gathers the
evidence: one pass over ``offset_history`` and one over ``offset_commits`` for what they come to, everything else as it
lies in the tables. It goes through Python once, sorted by group, as the replay does, and every rule is a plain function
of ``analysis/findings``. What goes through is as much as there are partitions committed, group-minutes and events;
never a row for each commit.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.case import Evidence
from coordinator_replay.analysis.findings.judge import FINDINGS, Judge
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.metrics import COUNTERS, METRICS
from coordinator_replay.pipeline.replay import FOLDED, rows_of
from coordinator_replay.pipeline.warehouse import Warehouse

Gap = tuple[int, int, int]

_CHUNK_ROWS = 10_000
_PLACE = ("tag", "at", "name", "seq")
_WITH_NULLS = {"ignoreNullFields": "false"}
_PENDING_ENDS = ("COMMIT", "ABORT", "SKIPPED", "TOMBSTONE")


def _ms(at: Column | str) -> Column:
    return F.unix_millis(at)


def _evidence(
    rows: DataFrame,
    kind: Evidence,
    *fields: Column,
    at: Column | None = None,
    name: Column | None = None,
    seq: Column | None = None,
) -> DataFrame:
    """Rows as evidence: where they come in the order of their group, and the fields as JSON."""
    return rows.select(
        F.coalesce("group_id", F.lit("")).alias("group_id"),
        F.lit(int(kind)).alias("tag"),
        (F.lit(0) if at is None else at).cast("bigint").alias("at"),
        (F.lit("") if name is None else name).alias("name"),
        (F.lit(0) if seq is None else seq).cast("bigint").alias("seq"),
        F.to_json(F.struct(*fields), _WITH_NULLS).alias("row"),
    )


def _standings(group_findings: DataFrame) -> DataFrame:
    """The state of each group, which the replay wrote as JSON already."""
    rows = group_findings.where(F.col("rule").isNull())
    zero = F.lit(0).cast("bigint")
    tag = F.lit(int(Evidence.STANDING)).alias("tag")
    return rows.select(
        "group_id", tag, zero.alias("at"), F.lit("").alias("name"), zero.alias("seq"), F.col("detail").alias("row")
    )


def _sightings(group_findings: DataFrame) -> DataFrame:
    plain = ("finding_id", "rule", "severity", "topic", "partition", "member_id", "occurrences", "message", "detail")
    rest = ("needed_ms", "log_partition", "log_offset")
    times = [_ms(name).alias(name) for name in ("first_seen", "last_seen")]
    return _evidence(
        group_findings.where(F.col("rule").isNotNull()),
        Evidence.SIGHTING,
        *map(F.col, (*plain, *rest)),
        *times,
        name=F.col("finding_id"),
        seq=_ms("first_seen"),
    )


def _states(timeline: DataFrame) -> DataFrame:
    """Where the group's state or type changed."""
    is_news = ~F.col("from_state").eqNullSafe(F.col("to_state")) | (F.col("event") == "GROUP_CONVERTED")
    at = _ms("log_timestamp")
    return _evidence(
        timeline.where(is_news & F.col("log_timestamp").isNotNull()),
        Evidence.HAPPENING,
        at.alias("at"),
        F.col("group_type"),
        F.col("to_state").alias("state"),
        at=at,
        seq=F.col("seq") + 1,
    )


def _rebalances(rebalances: DataFrame) -> DataFrame:
    at = F.coalesce(_ms("completed_at"), _ms("started_at"))
    return _evidence(
        rebalances.where(F.col("started_at").isNotNull()),
        Evidence.HAPPENING,
        at.alias("at"),
        F.col("rebalance_id"),
        F.col("epoch"),
        _ms("started_at").alias("started_at"),
        F.col("completed_at").isNotNull().alias("is_over"),
        F.col("metadata_delay_ms"),
        at=at,
        name=F.lit("rebalance"),
    )


def _commit_minutes(commits: DataFrame) -> DataFrame:
    """Commits of each group in each minute: how many, how many bytes, of about how many partitions."""
    written = commits.where(~F.col("is_tombstone") & F.col("log_timestamp").isNotNull())
    counted = written.groupBy("group_id", F.date_trunc("minute", "log_timestamp").alias("minute")).agg(
        F.max("log_partition").alias("log_partition"),
        F.count("*").alias("commits"),
        F.sum("record_bytes").alias("bytes"),
        F.approx_count_distinct(F.xxhash64("topic", "partition"), 0.05).alias("partitions"),
        _ms(F.min("log_timestamp")).alias("first_at"),
        _ms(F.max("log_timestamp")).alias("last_at"),
        F.max("log_offset").alias("last_offset"),
    )
    told = ("log_partition", "commits", "bytes", "partitions", "first_at", "last_at", "last_offset")
    first = F.col("first_at")
    return _evidence(counted, Evidence.HAPPENING, first.alias("at"), *map(F.col, told), at=first)


def _ended_minutes(history: DataFrame) -> DataFrame:
    """Offsets that ended by something else than the next commit, in each group and minute."""
    ended = history.where((F.col("ended_by") != "COMMIT") & F.col("valid_to").isNotNull())
    counted = ended.groupBy("group_id", F.date_trunc("minute", "valid_to").alias("minute"), "ended_by").agg(
        F.count("*").alias("offsets"), _ms(F.min("valid_to")).alias("first_at")
    )
    fields = (F.col("first_at").alias("at"), F.col("ended_by"), F.col("offsets"))
    return _evidence(counted, Evidence.HAPPENING, *fields, at=F.col("first_at"), name=F.lit("ended"))


def _offsets(history: DataFrame) -> DataFrame:
    """What the history of each partition that a group commits comes to."""
    is_empty = F.coalesce(F.col("group_state") == "Empty", F.lit(False))
    is_back = F.coalesce(F.col("committed_offset") < F.col("previous_offset"), F.lit(False)) & ~is_empty
    valid_from = _ms("valid_from")
    plain = ("from_offset", "committed_offset", "previous_offset", "owner_member_id", "group_state")
    row = F.struct(*plain, valid_from.alias("valid_from"))
    told = history.groupBy("group_id", "topic", "partition").agg(
        F.max("log_partition").alias("log_partition"),
        F.sum(F.lit(1) + F.coalesce("commits_merged", F.lit(0))).alias("commits"),
        F.min(valid_from).alias("first_at"),
        F.max(valid_from).alias("last_at"),
        F.max(_ms("valid_to")).alias("ended_at"),
        F.max(F.col("to_offset").isNull()).alias("is_held"),
        F.max(F.octet_length("metadata")).alias("metadata_bytes"),
        F.max_by(row, "from_offset").alias("last"),
        F.struct(
            F.count_if(is_back).alias("count"),
            F.min(F.when(is_back, valid_from)).alias("first_at"),
            F.max(F.when(is_back, F.col("previous_offset") - F.col("committed_offset"))).alias("furthest"),
            F.max_by(row, F.when(is_back, F.col("from_offset"))).alias("last"),
        ).alias("rewinds"),
        F.struct(
            F.count_if(is_empty).alias("count"),
            F.min(F.when(is_empty, valid_from)).alias("first_at"),
            F.max_by(row, F.when(is_empty, F.col("from_offset"))).alias("last"),
        ).alias("into_empty"),
    )
    fields = (F.col(name) for name in told.columns if name != "group_id")
    return _evidence(told, Evidence.OFFSETS, *fields, name=F.col("topic"), seq=F.col("partition"))


def _pending(pending: DataFrame) -> DataFrame:
    """Transactions of each group, settled or open: those that were given up for a later commit count by that one."""
    is_open = F.col("to_offset").isNull()
    told = pending.where(is_open | F.col("ended_by").isin(*_PENDING_ENDS))
    counted = told.groupBy("group_id", "log_partition", "producer_id", "to_offset").agg(
        F.max(is_open).alias("is_open"),
        _ms(F.min("pending_since")).alias("pending_since"),
        _ms(F.max("valid_to")).alias("settled_at"),
        F.max("producer_epoch").alias("producer_epoch"),
        F.min("from_offset").alias("log_offset"),
        F.count("*").alias("partitions"),
        F.when(F.count_distinct("topic") == 1, F.min("topic")).alias("topic"),
        F.min("ended_by").alias("ended_by"),
    )
    fields = (F.col(name) for name in counted.columns if name != "group_id")
    return _evidence(counted.where("pending_since IS NOT NULL"), Evidence.PENDING, *fields, at=F.col("log_offset"))


def _expiry(expired: DataFrame) -> DataFrame:
    """What retention took or takes, by group, topic, status and rule."""
    at = _ms(F.coalesce("tombstone_at", "expire_at"))
    counted = expired.groupBy("group_id", "topic", "status", "rule").agg(
        F.min(at).alias("first_at"),
        F.max(at).alias("last_at"),
        F.max("tombstone_offset").alias("log_offset"),
        F.min("confidence").alias("confidence"),
        F.collect_set("partition").alias("partitions"),
    )
    fields = (F.col(name) for name in counted.columns if name != "group_id")
    return _evidence(counted.where("first_at IS NOT NULL"), Evidence.EXPIRY, *fields, name=F.col("topic"))


def _large_records(records: DataFrame, limits: Thresholds) -> DataFrame:
    """The largest record of each group that has one near the limit; nothing else is read, by Parquet's statistics."""
    near = limits.record_max_bytes * limits.size_percent // 100
    row = F.struct("record_bytes", "kind", "log_partition", "log_offset", _ms("log_timestamp").alias("at"))
    largest = (
        records.where(F.col("record_bytes") >= near)
        .groupBy("group_id")
        .agg(F.max_by(row, "record_bytes").alias("largest"))
    )
    return _evidence(largest.select("group_id", "largest.*"), Evidence.LARGE_RECORD, *map(F.col, _LARGE))


_LARGE = ("record_bytes", "kind", "log_partition", "log_offset", "at")


def _unreadable(quarantine: DataFrame) -> DataFrame:
    counted = quarantine.groupBy("log_partition", "error_class").agg(
        F.count("*").alias("records"),
        _ms(F.min("log_timestamp")).alias("first_at"),
        _ms(F.max("log_timestamp")).alias("last_at"),
        F.min("log_offset").alias("log_offset"),
        F.min(F.substring("error_message", 1, 200)).alias("error_message"),
    )
    fields = map(F.col, counted.columns)
    return _evidence(counted.withColumn("group_id", F.lit("")), Evidence.UNREADABLE, *fields)


def evidence(tables: Mapping[str, DataFrame], gaps: DataFrame, limits: Thresholds) -> DataFrame:
    """All evidence about a cluster: group_id, tag, at, name, seq and the row as JSON.

    Args:
        tables: rows of one cluster by the table's name, those of READ.
        gaps: log_partition, from_offset and to_offset of stretches that no audit has read.
        limits: from when on something is a finding.
    """
    missing = gaps.withColumn("group_id", F.lit(""))
    parts = (
        _standings(tables["group_findings"]),
        _sightings(tables["group_findings"]),
        _states(tables["group_timeline"]),
        _rebalances(tables["rebalances"]),
        _commit_minutes(tables["offset_commits"]),
        _ended_minutes(tables["offset_history"]),
        _offsets(tables["offset_history"]),
        _pending(tables["pending_offsets"]),
        _expiry(tables["expired_offsets"]),
        _large_records(tables["group_records"], limits),
        _unreadable(tables["quarantine"]),
        _evidence(missing, Evidence.GAP, *map(F.col, gaps.columns), at=F.col("from_offset")),
    )
    every, *rest = parts
    for part in rest:
        every = every.unionByName(part)
    return every


READ = (
    "group_findings",
    "group_timeline",
    "group_records",
    "offset_commits",
    "offset_history",
    "pending_offsets",
    "expired_offsets",
    "rebalances",
    "quarantine",
)
"""The tables that hold evidence."""


def judge(every: DataFrame, *, cluster: str, end_ms: int, limits: Thresholds, buckets: int) -> DataFrame:
    """Show each group's evidence to the rules.

    Args:
        every: from ``evidence``.
        cluster: the cluster's name.
        end_ms: the end of the log.
        limits: from when on something is a finding.
        buckets: how many hash buckets, and tasks, the groups are spread over.

    Returns:
        Rows as JSON, in FOLDED: findings, and the counts of METRICS.
    """

    def fold(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        rows: list[tuple[str, str, str]] = []
        at: Judge | None = None

        def keep(found: Iterator[tuple[str, dict[str, object]]]) -> None:
            group_id = "" if at is None else at.case.group_id
            rows.extend((name, group_id, json.dumps(row, separators=(",", ":"))) for name, row in found)

        for batch in batches:
            for group_id, tag, row in zip(batch["group_id"], batch["tag"], batch["row"], strict=True):
                if at is None or at.case.group_id != group_id:
                    if at is not None:
                        keep(at.finish())
                    at = Judge(cluster, group_id, end_ms, limits)
                keep(at.take(Evidence(tag), json.loads(row)))
            if len(rows) >= _CHUNK_ROWS:
                yield _frame(rows)
                rows.clear()
        if at is not None:
            keep(at.finish())
        yield _frame(rows)

    return (
        every.withColumn("bucket", F.pmod(F.hash("group_id"), F.lit(buckets)))
        .repartition(buckets, "bucket")
        .sortWithinPartitions("bucket", "group_id", *_PLACE)
        .groupBy("bucket")
        .applyInPandas(fold, FOLDED)
    )


def _frame(rows: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["table_name", "group_id", "row"], dtype=object)


def group_metrics(judged: DataFrame, cluster: str) -> DataFrame:
    """Rows of table ``group_metrics``: each minute in which the log has a record, for each type and state.

    A log is bounded by its records, while the time between two timestamps is not: what held in the last such minute
    holds until the next.

    Args:
        judged: from ``judge``.
        cluster: the cluster's name.
    """
    numbers = ("bucket", "delta", *COUNTERS)
    shape = "group_type STRING, state STRING, " + ", ".join(f"{name} BIGINT" for name in numbers)
    counted = judged.where(F.col("table_name") == METRICS).select(F.from_json("row", shape).alias("told"))
    kind = ("group_type", "state")
    sums = counted.groupBy("told.bucket", *(F.col(f"told.{name}") for name in kind)).agg(
        *(F.sum(f"told.{name}").alias(name) for name in ("delta", *COUNTERS))
    )
    grid = sums.select("bucket").distinct().crossJoin(sums.select(*kind).distinct())
    in_time = Window.partitionBy(*kind).orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counters = {name: F.coalesce(name, F.lit(0)) for name in COUNTERS}
    filled = grid.join(sums, ["bucket", *kind], "left").withColumn("group_count", F.sum("delta").over(in_time))
    happened = sum(counters.values(), F.lit(0))
    return filled.where((F.col("group_count") > 0) | (happened > 0)).select(
        F.lit(cluster).alias("cluster"),
        F.timestamp_millis("bucket").alias("bucket"),
        *kind,
        F.coalesce("group_count", F.lit(0)).alias("group_count"),
        *(column.alias(name) for name, column in counters.items()),
    )


def write_findings(
    warehouse: Warehouse, cluster: str, *, end: datetime, gaps: Sequence[Gap], limits: Thresholds, staging: str
) -> dict[str, int]:
    """Derive and write ``findings`` and ``group_metrics``.

    Args:
        warehouse: holds everything else of the run already.
        cluster: whose findings.
        end: timestamp of the last record read.
        gaps: stretches that no audit has read.
        limits: from when on something is a finding.
        staging: a folder for what is needed more than once.

    Returns:
        The tables' versions.
    """
    spark = warehouse.spark
    tables = {name: warehouse.read(name).where(F.col("cluster") == cluster).drop("cluster") for name in READ}
    unread = spark.createDataFrame(list(gaps), "log_partition INT, from_offset BIGINT, to_offset BIGINT")
    buckets = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    end_ms = round(end.timestamp() * 1000)
    every = evidence(tables, unread, limits)
    judge(every, cluster=cluster, end_ms=end_ms, limits=limits, buckets=buckets).write.parquet(f"{staging}/judged")
    judged = spark.read.schema(FOLDED).parquet(f"{staging}/judged")
    plans = {FINDINGS: rows_of(judged, FINDINGS), "group_metrics": group_metrics(judged, cluster)}
    with ThreadPoolExecutor(len(plans)) as pool:
        writes = {name: pool.submit(warehouse.replace_cluster, name, df, cluster) for name, df in plans.items()}
        return {name: write.result() for name, write in writes.items()}
