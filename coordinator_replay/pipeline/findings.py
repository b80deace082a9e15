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
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.judge import FINDINGS, Judge
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.metrics import COUNTERS, METRICS, Sums
from coordinator_replay.pipeline.data_files import (
    WRITTEN,
    DataFile,
    DataFiles,
    Part,
    aside,
    files_of,
    read_files,
    written_frame,
)
from coordinator_replay.pipeline.warehouse import Warehouse

Gap = tuple[int, int, int]

_CHUNK_ROWS = 10_000
_MINUTES = pa.schema(
    [("group_type", pa.string()), ("state", pa.string())]
    + [(name, pa.int64()) for name in ("bucket", "delta", *COUNTERS)]
)
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
    """Rows as evidence: where they come in the order of their group, and the fields as a JSON object."""
    return rows.select(
        F.coalesce("group_id", F.lit("")).alias("group_id"),
        F.lit(int(kind)).alias("tag"),
        (F.lit(0) if at is None else at).cast("bigint").alias("at"),
        (F.lit("") if name is None else name).alias("name"),
        (F.lit(0) if seq is None else seq).cast("bigint").alias("seq"),
        F.to_json(F.struct(*fields), _WITH_NULLS).alias("told"),
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


def _ended_minutes(causes: DataFrame) -> DataFrame:
    """Offsets that ended by something else than the next commit, in each group and minute."""
    ended = causes.where(F.col("tombstone_at").isNotNull())
    counted = ended.groupBy("group_id", F.date_trunc("minute", "tombstone_at").alias("minute"), "ended_by").agg(
        F.count("*").alias("offsets"), _ms(F.min("tombstone_at")).alias("first_at")
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


def _pending(pending: DataFrame, end: datetime, limits: Thresholds) -> DataFrame:
    """Transactional commits that waited long; those replaced within their transaction count by the later one."""
    told = F.col("to_offset").isNull() | F.col("ended_by").isin(*_PENDING_ENDS)
    settled, since = _ms("valid_to"), _ms("pending_since")
    is_long = F.coalesce(settled, _ms(F.lit(end))) - since >= limits.pending_ms
    names = ("log_partition", "producer_id", "producer_epoch", "from_offset", "to_offset", "topic", "ended_by")
    fields = (*map(F.col, names), since.alias("pending_since"), settled.alias("settled_at"))
    return _evidence(pending.where(told & is_long), Evidence.PENDING, *fields, at=F.col("from_offset"))


def _expiry(expired: DataFrame) -> DataFrame:
    """What retention took or takes of partitions that ever had an owner."""
    at = _ms(F.coalesce("tombstone_at", "expire_at"))
    fields = (F.col("topic"), F.col("partition"), F.col("status"), F.col("rule"), F.col("confidence"))
    told = expired.where(F.col("last_consumed_by").isNotNull() & at.isNotNull())
    offset = F.col("tombstone_offset").alias("log_offset")
    return _evidence(told, Evidence.EXPIRY, *fields, at.alias("at"), offset, name=F.col("topic"), at=at)


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


def evidence(
    tables: Mapping[str, DataFrame], causes: DataFrame, gaps: DataFrame | None, *, end: datetime, limits: Thresholds
) -> DataFrame:
    """All evidence about a cluster: group_id, tag, at, name, seq and the evidence as JSON.

    Args:
        tables: rows of one cluster by the table's name, those of READ; ``quarantine`` may be left out.
        causes: from ``tombstone_causes``.
        gaps: log_partition, from_offset and to_offset of stretches that no audit has read; None where there are none.
        end: the end of the log.
        limits: from when on something is a finding.
    """
    parts = [
        _commit_minutes(tables["offset_commits"]),
        _ended_minutes(causes),
        _offsets(tables["offset_history"]),
        _pending(tables["pending_offsets"], end, limits),
        _expiry(tables["expired_offsets"]),
    ]
    if "quarantine" in tables:
        parts.append(_unreadable(tables["quarantine"]))
    if gaps is not None:
        missing = gaps.withColumn("group_id", F.lit(""))
        parts.append(_evidence(missing, Evidence.GAP, *map(F.col, gaps.columns), at=F.col("from_offset")))
    every = tables["group_evidence"].select("group_id", *_PLACE, "told")
    for part in parts:
        every = every.unionByName(part)
    return every


READ = ("group_evidence", "offset_commits", "offset_history", "pending_offsets", "expired_offsets", "quarantine")
"""The tables that hold evidence."""


class _Court:
    """Judges one bucket; keeps the group it is at and what is not written yet."""

    def __init__(self, parts: Mapping[str, Part], cluster: str, end_ms: int, limits: Thresholds) -> None:
        self.cluster = cluster
        self.end_ms = end_ms
        self.limits = limits
        self.at: Judge | None = None
        self.sums = Sums()
        self.files = DataFiles(parts)
        self.rows: list[Mapping[str, object]] = []

    def hear(self, group_id: str, tag: int, told: str) -> None:
        """Take the next row of evidence."""
        if self.at is None or self.at.case.group_id != group_id:
            self.end_group()
            self.at = Judge(self.cluster, group_id, self.end_ms, self.limits)
        self._keep(self.at.take(Evidence(tag), json.loads(told)))

    def end_group(self) -> None:
        """Judge what only the whole of a group tells."""
        if self.at is not None:
            self._keep(self.at.finish())
            self.at = None

    def end_sums(self) -> None:
        """Write the sums of all groups so far."""
        self.files.add_rows(METRICS, list(self.sums.take()))

    def write(self) -> None:
        """Write the findings so far."""
        rows, self.rows = self.rows, []
        self.files.add_rows(FINDINGS, rows)

    def finish(self) -> list[DataFile]:
        """End the last group, and the files."""
        self.end_group()
        self.end_sums()
        self.write()
        return self.files.close()

    def _keep(self, found: Iterator[tuple[str, dict[str, object]]]) -> None:
        for name, row in found:
            if name == METRICS:
                self.sums.add(row)
            else:
                self.rows.append(row)


def judge(
    every: DataFrame, parts: Mapping[str, Part], *, cluster: str, end_ms: int, limits: Thresholds, buckets: int
) -> DataFrame:
    """Show each group's evidence to the rules.

    Args:
        every: from ``evidence``.
        parts: where the findings and the minutes of METRICS go.
        cluster: the cluster's name.
        end_ms: the end of the log.
        limits: from when on something is a finding.
        buckets: how many hash buckets, and tasks, the groups are spread over.

    Returns:
        The files that were written, in WRITTEN.
    """
    parts = dict(parts)

    def fold(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        court = _Court(parts, cluster, end_ms, limits)
        for batch in batches:
            for group_id, tag, told in zip(batch["group_id"], batch["tag"], batch["told"], strict=True):
                court.hear(group_id, tag, told)
            if court.sums.is_full:
                court.end_sums()
            if len(court.rows) >= _CHUNK_ROWS:
                court.write()
        yield written_frame(court.finish())

    return (
        every.withColumn("bucket", F.pmod(F.hash("group_id"), F.lit(buckets)))
        .repartition(buckets, "bucket")
        .sortWithinPartitions("bucket", "group_id", *_PLACE)
        .groupBy("bucket")
        .applyInPandas(fold, WRITTEN)
    )


def group_metrics(minutes: DataFrame, cluster: str) -> DataFrame:
    """Rows of table ``group_metrics``: each minute in which the log has a record, for each type and state.

    A log is bounded by its records, while the time between two timestamps is not: what held in the last such minute
    holds until the next.

    Args:
        minutes: what ``judge`` wrote as METRICS.
        cluster: the cluster's name.
    """
    kind = ("group_type", "state")
    sums = minutes.groupBy("bucket", *kind).agg(*(F.sum(name).alias(name) for name in ("delta", *COUNTERS)))
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
    warehouse: Warehouse,
    cluster: str,
    *,
    end: datetime,
    causes: DataFrame,
    gaps: Sequence[Gap],
    is_damaged: bool,
    limits: Thresholds,
    staging: str,
) -> tuple[dict[str, int], dict[str, int]]:
    """Derive and write ``findings`` and ``group_metrics``.

    Args:
        warehouse: holds everything else of the run already.
        cluster: whose findings.
        end: timestamp of the last record read.
        causes: from ``tombstone_causes``.
        gaps: stretches that no audit has read.
        is_damaged: whether there may be anything in quarantine.
        limits: from when on something is a finding.
        staging: a folder for what is needed more than once.

    Returns:
        The tables' versions, and findings by severity.
    """
    spark = warehouse.spark
    names = [name for name in READ if name != "quarantine" or is_damaged]
    tables = {name: warehouse.read(name).where(F.col("cluster") == cluster).drop("cluster") for name in names}
    shape = "log_partition INT, from_offset BIGINT, to_offset BIGINT"
    unread = spark.createDataFrame(list(gaps), shape) if gaps else None
    buckets = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    end_ms = round(end.timestamp() * 1000)
    every = evidence(tables, causes, unread, end=end, limits=limits)
    parts = {FINDINGS: warehouse.part(FINDINGS, staging), METRICS: aside(f"{staging}/{METRICS}", _MINUTES)}
    files = files_of(judge(every, parts, cluster=cluster, end_ms=end_ms, limits=limits, buckets=buckets))
    found = files.get(FINDINGS, [])
    rows = warehouse.rows(FINDINGS, found)
    counted = read_files(spark, files.get(METRICS, []), from_arrow_schema(_MINUTES))

    with ThreadPoolExecutor(2) as pool:
        metrics = pool.submit(warehouse.replace_cluster, "group_metrics", group_metrics(counted, cluster), cluster)
        severities = {row["severity"]: row["count"] for row in rows.groupBy("severity").count().toLocalIterator()}
        return {FINDINGS: warehouse.put_files(FINDINGS, found, cluster), "group_metrics": metrics.result()}, severities
