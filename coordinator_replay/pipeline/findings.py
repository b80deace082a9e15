"""Findings and metrics of a whole cluster, made anew by every audit.

Planning costs more than running on small dumps, and a join for each rule would make it dear. So Spark only gathers the
evidence: what commits come to, which ``commit_totals`` keeps from run to run, and everything else as it lies in the
tables. It goes through Python once, sorted by group, as the replay does, and every rule is a plain function of
``analysis/findings``. What goes through is as much as there are groups, partitions committed and rebalances; never a
row for each commit.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.judge import FINDINGS, Found, Judge
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.pipeline.buckets import by_group
from coordinator_replay.pipeline.commit_totals import PARTITION, TABLE, WITH_NULLS, Totals, ms, sum_history, total
from coordinator_replay.pipeline.data_files import WRITTEN, DataFile, DataFiles, Part, files_of, keep, written_rows
from coordinator_replay.pipeline.group_metrics import SIMPLE, Told, group_kinds, group_metrics, minute_sums
from coordinator_replay.pipeline.group_sums import commits_since, sum_groups
from coordinator_replay.pipeline.offset_tables import LATELY
from coordinator_replay.pipeline.task_rows import task_rows
from coordinator_replay.pipeline.warehouse import Warehouse

METRICS = "group_metrics"

Gap = tuple[int, int, int]

_CHUNK_ROWS = 10_000
_PLACE = ("tag", "at", "name", "seq")
_INTO_EMPTY = "empty_"
_PENDING_ENDS = ("COMMIT", "ABORT", "SKIPPED", "TOMBSTONE")


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
        F.to_json(F.struct(*fields), WITH_NULLS).alias("told"),
    )


def _but(told: DataFrame, *names: str) -> Iterator[Column]:
    return (F.col(name) for name in told.columns if name not in names)


def _commits(groups: DataFrame) -> DataFrame:
    """What all commits of a group come to, and in how many minutes there were too many for each of its partitions."""
    return _evidence(groups, Evidence.HAPPENING, *_but(groups, "group_id"), name=F.lit("commits"))


def _offsets(partitions: DataFrame, held: DataFrame) -> DataFrame:
    """What the history of each partition that a group commits comes to."""
    now = held.select(*PARTITION, F.lit(True).alias("is_held"))
    told = partitions.join(now, list(PARTITION), "left").withColumn("is_held", F.coalesce("is_held", F.lit(False)))
    inner = [name for name in partitions.columns if name.startswith(_INTO_EMPTY)]
    into_empty = F.struct(*(F.col(name).alias(name.removeprefix(_INTO_EMPTY)) for name in inner)).alias("into_empty")
    fields = (*_but(told, "group_id", *inner), into_empty)
    return _evidence(told, Evidence.OFFSETS, *fields, name=F.col("topic"), seq=F.col("partition"))


def _rewinds(rewinds: DataFrame) -> DataFrame:
    """Commits below the one before, of each partition that has any, while the group was not Empty."""
    fields = _but(rewinds, "group_id")
    return _evidence(rewinds, Evidence.REWIND, *fields, name=F.col("topic"), seq=F.col("partition"))


def _pending(pending: DataFrame, end: datetime, limits: Thresholds) -> DataFrame:
    """Transactional commits that waited long; those replaced within their transaction count by the later one."""
    told = F.col("to_offset").isNull() | F.col("ended_by").isin(*_PENDING_ENDS)
    settled, since = ms("valid_to"), ms("pending_since")
    is_long = F.coalesce(settled, ms(F.lit(end))) - since >= limits.pending_ms
    names = ("log_partition", "producer_id", "producer_epoch", "from_offset", "to_offset", "topic", "ended_by")
    fields = (*map(F.col, names), since.alias("pending_since"), settled.alias("settled_at"))
    return _evidence(pending.where(told & is_long), Evidence.PENDING, *fields, at=F.col("from_offset"))


def _expiry(expired: DataFrame) -> DataFrame:
    """What retention took or takes of partitions that ever had an owner."""
    at = ms(F.coalesce("tombstone_at", "expire_at"))
    fields = (F.col("topic"), F.col("partition"), F.col("status"), F.col("rule"), F.col("confidence"))
    told = expired.where(F.col("last_consumed_by").isNotNull() & at.isNotNull())
    offset = F.col("tombstone_offset").alias("log_offset")
    return _evidence(told, Evidence.EXPIRY, *fields, at.alias("at"), offset, name=F.col("topic"), at=at)


def _unreadable(quarantine: DataFrame) -> DataFrame:
    counted = quarantine.groupBy("log_partition", "error_class").agg(
        F.count("*").alias("records"),
        ms(F.min("log_timestamp")).alias("first_at"),
        ms(F.max("log_timestamp")).alias("last_at"),
        F.min("log_offset").alias("log_offset"),
        F.min(F.substring("error_message", 1, 200)).alias("error_message"),
    )
    fields = map(F.col, counted.columns)
    return _evidence(counted.withColumn("group_id", F.lit("")), Evidence.UNREADABLE, *fields)


def evidence(
    tables: Mapping[str, DataFrame],
    totals: Totals,
    held: DataFrame,
    gaps: DataFrame | None,
    *,
    end: datetime,
    limits: Thresholds,
) -> DataFrame:
    """All evidence about a cluster: group_id, tag, at, name, seq and the evidence as JSON.

    Args:
        tables: rows of one cluster by the table's name, those of READ; ``quarantine`` may be left out.
        totals: what commits come to.
        held: group_id, topic and partition of each offset that holds at the end of the log.
        gaps: log_partition, from_offset and to_offset of stretches that no audit has read; None where there are none.
        end: the end of the log.
        limits: from when on something is a finding.
    """
    parts = [
        _commits(totals.groups),
        _offsets(totals.partitions, held),
        _rewinds(totals.rewinds),
        _pending(tables["pending_offsets"], end, limits),
        _expiry(tables["expired_offsets"]),
    ]
    if "quarantine" in tables:
        parts.append(_unreadable(tables["quarantine"]))
    if gaps is not None:
        missing = gaps.withColumn("group_id", F.lit(""))
        parts.append(_evidence(missing, Evidence.GAP, *map(F.col, gaps.columns), at=F.col("from_offset")))
    is_told = F.col("tag") != int(Evidence.STATE)
    every = tables["group_evidence"].where(is_told).select("group_id", *_PLACE, "told")
    for part in parts:
        every = every.unionByName(part)
    return every


READ = ("group_evidence", "pending_offsets", "expired_offsets", "quarantine")
"""The tables that hold evidence as it is; commits are told by what they come to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the run knows beside the tables.

    Attributes:
        end: timestamp of the last record read.
        causes: from ``tombstone_causes``.
        held: group_id, topic and partition of each offset that holds at the end of the log.
        gaps: stretches that no audit has read.
        is_damaged: whether there may be anything in quarantine.
        limits: from when on something is a finding.
        since: the moment before which the totals of earlier runs count, from ``totals_since``; None for no such.
    """

    end: datetime
    causes: DataFrame
    held: DataFrame
    gaps: Sequence[Gap]
    is_damaged: bool
    limits: Thresholds
    since: datetime | None = None


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

    mine = F.col("cluster") == cluster
    until = _next_minute(known.end - LATELY)
    with ThreadPoolExecutor(1) as pool:
        # Neither of the two waits for the other, and each leaves a core idle at its end.
        history = task_rows(warehouse, "offset_history", cluster, "valid_from", known.since)
        summed = pool.submit(sum_history, history, until, staging)
        kinds = keep(group_kinds(tables["group_evidence"]), f"{staging}/kinds")
        sums = sum_groups(
            commits_since(warehouse, cluster, known.since),
            kinds,
            hot=limits.hot_commits_per_minute,
            until=until,
            since=known.since,
            simple=SIMPLE,
            staging=staging,
        )
    totals = total(
        warehouse,
        cluster,
        groups=sums.groups,
        history=summed.result(),
        since=known.since,
        until=until,
        staging=staging,
    )
    every = evidence(tables, totals, known.held, unread, end=known.end, limits=limits)
    told = Told(
        commits=sums.minutes,
        kinds=kinds,
        begun=totals.groups.select("group_id", "first_at"),
        evidence=tables["group_evidence"],
        causes=known.causes,
        held=known.held,
        earlier=None
        if known.since is None
        else warehouse.read(METRICS).where(mine & (F.col("bucket") < F.lit(known.since))),
    )

    def write_metrics() -> int:
        counted = keep(minute_sums(told), f"{staging}/counted")
        return warehouse.replace_cluster(METRICS, group_metrics(counted, cluster), cluster)

    with ThreadPoolExecutor(2) as pool:
        metrics = pool.submit(write_metrics)
        part = warehouse.part(FINDINGS, staging)
        judged = judge(every, part, cluster=cluster, end_ms=end_ms, limits=limits, buckets=buckets)
        found = files_of(judged).get(FINDINGS, [])
        rows = warehouse.rows(FINDINGS, found)
        severities = {row["severity"]: row["count"] for row in rows.groupBy("severity").count().toLocalIterator()}
        versions = {FINDINGS: warehouse.put_files(FINDINGS, found, cluster), METRICS: metrics.result()}
    # After the metrics: what a killed run has written of them is no part of what these totals are taken for.
    versions[TABLE] = warehouse.replace_cluster(TABLE, totals.table, cluster)
    return versions, severities


def _next_minute(at: datetime) -> datetime:
    """The first whole minute at or behind a moment."""
    whole = at.replace(second=0, microsecond=0)
    return whole if whole == at else whole + timedelta(minutes=1)
