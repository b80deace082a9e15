"""Findings and metrics of a whole cluster, made anew by every audit.

Planning costs more than running on small dumps, and a join for each rule would make it dear. So Spark only gathers the
evidence: one pass over ``offset_history`` and one over ``offset_commits`` for what they come to, everything else as it
lies in the tables. It goes through Python once, sorted by group, as the replay does, and every rule is a plain function
of ``analysis/findings``. What goes through is as much as there are groups, partitions committed and rebalances; never
a row for each commit.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.judge import FINDINGS, Found, Judge
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.pipeline.buckets import by_group
from coordinator_replay.pipeline.data_files import WRITTEN, DataFile, DataFiles, Part, files_of, keep, written_rows
from coordinator_replay.pipeline.group_metrics import Told, commit_minutes, group_metrics, minute_sums
from coordinator_replay.pipeline.warehouse import Warehouse

METRICS = "group_metrics"

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
    """Rows as evidence: where they come in the order of their group, and the fields as a JSON object."""
    return rows.select(
        F.coalesce("group_id", F.lit("")).alias("group_id"),
        F.lit(int(kind)).alias("tag"),
        (F.lit(0) if at is None else at).cast("bigint").alias("at"),
        (F.lit("") if name is None else name).alias("name"),
        (F.lit(0) if seq is None else seq).cast("bigint").alias("seq"),
        F.to_json(F.struct(*fields), _WITH_NULLS).alias("told"),
    )


def _commits(minutes: DataFrame, limits: Thresholds) -> DataFrame:
    """What all commits of a group come to, and in how many minutes there were too many for each of its partitions."""
    each = F.floor(F.col("commits") / F.greatest("partitions", F.lit(1)))
    is_hot = each >= limits.hot_commits_per_minute
    told = minutes.groupBy("group_id").agg(
        F.max("log_partition").alias("log_partition"),
        F.sum("commits").alias("commits"),
        F.sum("bytes").alias("bytes"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
        F.max("last_offset").alias("last_offset"),
        F.max(each).alias("most_a_minute"),
        F.count_if(is_hot).alias("hot_minutes"),
        F.min(F.when(is_hot, F.col("first_at"))).alias("hot_from"),
        F.max(F.when(is_hot, F.col("last_at"))).alias("hot_to"),
    )
    return _evidence(told, Evidence.HAPPENING, *_but_group(told), name=F.lit("commits"))


def _but_group(told: DataFrame) -> Iterator[Column]:
    return (F.col(name) for name in told.columns if name != "group_id")


def _is_empty() -> Column:
    return F.coalesce(F.col("group_state") == "Empty", F.lit(False))


def _offsets(history: DataFrame) -> DataFrame:
    """What the history of each partition that a group commits comes to."""
    # Numbers alone: with a text among what is kept for a key, Spark would sort the whole history for it.
    valid_from, is_empty, into_empty = _ms("valid_from"), _is_empty(), F.when(_is_empty(), F.col("from_offset"))
    told = history.groupBy("group_id", "topic", "partition").agg(
        F.max("log_partition").alias("log_partition"),
        F.sum(F.lit(1) + F.coalesce("commits_merged", F.lit(0))).alias("commits"),
        F.min(valid_from).alias("first_at"),
        F.max(valid_from).alias("last_at"),
        F.max(F.col("to_offset").isNull()).alias("is_held"),
        F.max(F.octet_length("metadata")).alias("metadata_bytes"),
        F.max("from_offset").alias("from_offset"),
        F.max_by("committed_offset", "from_offset").alias("committed_offset"),
        F.struct(
            F.count_if(is_empty).alias("count"),
            F.min(F.when(is_empty, valid_from)).alias("first_at"),
            F.max(into_empty).alias("from_offset"),
            F.max_by(valid_from, into_empty).alias("valid_from"),
            F.max_by("committed_offset", into_empty).alias("committed_offset"),
            F.max_by("previous_offset", into_empty).alias("previous_offset"),
        ).alias("into_empty"),
    )
    return _evidence(told, Evidence.OFFSETS, *_but_group(told), name=F.col("topic"), seq=F.col("partition"))


def _rewinds(history: DataFrame) -> DataFrame:
    """Commits below the one before, of each partition that has any, while the group was not Empty."""
    back = history.where((F.col("committed_offset") < F.col("previous_offset")) & ~_is_empty())
    valid_from = _ms("valid_from")
    plain = ("from_offset", "committed_offset", "previous_offset", "owner_member_id", "group_state")
    told = back.groupBy("group_id", "topic", "partition").agg(
        F.max("log_partition").alias("log_partition"),
        F.count("*").alias("count"),
        F.min(valid_from).alias("first_at"),
        F.max(F.col("previous_offset") - F.col("committed_offset")).alias("furthest"),
        F.max_by(F.struct(*plain, valid_from.alias("valid_from")), "from_offset").alias("last"),
    )
    return _evidence(told, Evidence.REWIND, *_but_group(told), name=F.col("topic"), seq=F.col("partition"))


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
    tables: Mapping[str, DataFrame], minutes: DataFrame, gaps: DataFrame | None, *, end: datetime, limits: Thresholds
) -> DataFrame:
    """All evidence about a cluster: group_id, tag, at, name, seq and the evidence as JSON.

    Args:
        tables: rows of one cluster by the table's name, those of READ; ``quarantine`` may be left out.
        minutes: from ``commit_minutes``.
        gaps: log_partition, from_offset and to_offset of stretches that no audit has read; None where there are none.
        end: the end of the log.
        limits: from when on something is a finding.
    """
    parts = [
        _commits(minutes, limits),
        _offsets(tables["offset_history"]),
        _rewinds(tables["offset_history"]),
        _pending(tables["pending_offsets"], end, limits),
        _expiry(tables["expired_offsets"]),
    ]
    if "quarantine" in tables:
        parts.append(_unreadable(tables["quarantine"]))
    if gaps is not None:
        missing = gaps.withColumn("group_id", F.lit(""))
        parts.append(_evidence(missing, Evidence.GAP, *map(F.col, gaps.columns), at=F.col("from_offset")))
    # States of groups are for the metrics.
    is_told = (F.col("tag") != int(Evidence.HAPPENING)) | (F.col("name") != "")
    every = tables["group_evidence"].where(is_told).select("group_id", *_PLACE, "told")
    for part in parts:
        every = every.unionByName(part)
    return every


READ = ("group_evidence", "offset_commits", "offset_history", "pending_offsets", "expired_offsets", "quarantine")
"""The tables that hold evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the run knows beside the tables.

    Attributes:
        end: timestamp of the last record read.
        causes: from ``tombstone_causes``.
        held: group_id of each offset that holds at the end of the log.
        gaps: stretches that no audit has read.
        is_damaged: whether there may be anything in quarantine.
        limits: from when on something is a finding.
    """

    end: datetime
    causes: DataFrame
    held: DataFrame
    gaps: Sequence[Gap]
    is_damaged: bool
    limits: Thresholds


class _Court:
    """Judges one bucket; keeps the group it is at and what is not written yet."""

    def __init__(self, part: Part, cluster: str, end_ms: int, limits: Thresholds) -> None:
        self.cluster = cluster
        self.end_ms = end_ms
        self.limits = limits
        self.at: Judge | None = None
        self.files = DataFiles({FINDINGS: part})
        self.rows: list[Found] = []

    def hear(self, group_id: str, tag: int, told: str) -> None:
        """Take the next row of evidence."""
        if self.at is None or self.at.case.group_id != group_id:
            self.end_group()
            self.at = Judge(self.cluster, group_id, self.end_ms, self.limits)
        self.rows.extend(self.at.take(Evidence(tag), json.loads(told)))
        if len(self.rows) >= _CHUNK_ROWS:
            self.write()

    def end_group(self) -> None:
        """Judge what only the whole of a group tells."""
        if self.at is not None:
            self.rows.extend(self.at.finish())
            self.at = None

    def write(self) -> None:
        """Write the findings so far."""
        rows, self.rows = self.rows, []
        self.files.add_rows(FINDINGS, rows)

    def finish(self) -> list[DataFile]:
        """End the last group, and the files."""
        self.end_group()
        self.write()
        return self.files.close()


def judge(every: DataFrame, part: Part, *, cluster: str, end_ms: int, limits: Thresholds, buckets: int) -> DataFrame:
    """Show each group's evidence to the rules.

    Args:
        every: from ``evidence``.
        part: where the findings go.
        cluster: the cluster's name.
        end_ms: the end of the log.
        limits: from when on something is a finding.
        buckets: how many hash buckets, and tasks, the groups are spread over.

    Returns:
        The files that were written, in WRITTEN.
    """

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        court = _Court(part, cluster, end_ms, limits)
        for batch in batches:
            for evidence in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                court.hear(*evidence)
        yield from written_rows(court.finish())

    in_order = by_group(every, buckets, "group_id", *_PLACE)
    return in_order.select("group_id", "tag", "told").mapInArrow(fold, WRITTEN)


def write_findings(
    warehouse: Warehouse, cluster: str, known: Known, staging: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Derive and write ``findings`` and ``group_metrics``.

    Args:
        warehouse: holds everything else of the run already.
        cluster: whose findings.
        known: what the run knows beside the tables.
        staging: a folder for what is needed more than once.

    Returns:
        The tables' versions, and findings by severity.
    """
    spark, limits = warehouse.spark, known.limits
    names = [name for name in READ if name != "quarantine" or known.is_damaged]
    tables = {name: warehouse.read(name).where(F.col("cluster") == cluster).drop("cluster") for name in names}
    shape = "log_partition INT, from_offset BIGINT, to_offset BIGINT"
    unread = spark.createDataFrame(list(known.gaps), shape) if known.gaps else None
    buckets = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    end_ms = round(known.end.timestamp() * 1000)

    minutes = keep(commit_minutes(tables["offset_commits"]), f"{staging}/minutes")
    every = evidence(tables, minutes, unread, end=known.end, limits=limits)
    told = Told(commits=minutes, happenings=tables["group_evidence"], causes=known.causes, held=known.held)

    def write_metrics() -> int:
        sums = keep(minute_sums(told), f"{staging}/sums")
        return warehouse.replace_cluster(METRICS, group_metrics(sums, cluster), cluster)

    with ThreadPoolExecutor(2) as pool:
        metrics = pool.submit(write_metrics)
        part = warehouse.part(FINDINGS, staging)
        judged = judge(every, part, cluster=cluster, end_ms=end_ms, limits=limits, buckets=buckets)
        found = files_of(judged).get(FINDINGS, [])
        rows = warehouse.rows(FINDINGS, found)
        severities = {row["severity"]: row["count"] for row in rows.groupBy("severity").count().toLocalIterator()}
        versions = {FINDINGS: warehouse.put_files(FINDINGS, found, cluster), METRICS: metrics.result()}
    return versions, severities
