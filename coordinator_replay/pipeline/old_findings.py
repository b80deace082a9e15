"""Findings and metrics of a whole cluster, made anew by every audit.

A join for each rule would make them dear. So what commits come to is added up first, where it is not known from earlier
runs (``commit_totals``). Then all that is known of a group goes through Python once, and every rule is a plain function
of ``analysis/findings``. What goes through is as much as there are groups, partitions committed and rebalances; never a
row for each commit.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.findings.evidence import TABLE as EVIDENCE_TABLE
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.judge import FINDINGS, Found
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.pipeline.commit_sums import GROUP_PART, PARTITION_PART, REWIND_PART
from coordinator_replay.pipeline.commit_totals import TABLE as TOTALS
from coordinator_replay.pipeline.commit_totals import HistorySums, kept_until, sum_history
from coordinator_replay.pipeline.data_files import (
    DataFile,
    DataFiles,
    Part,
    aside,
    files_of,
    keep,
    paths_of,
    read_files,
)
from coordinator_replay.pipeline.group_metrics import METRICS, STEPS, commit_steps, earlier_steps, write_metrics
from coordinator_replay.pipeline.group_rows import Batches, Chunk, Files, Source, map_groups
from coordinator_replay.pipeline.group_sums import commits_since, sum_groups
from coordinator_replay.pipeline.hearing import (
    CAUSES,
    EVIDENCE,
    EXPIRED,
    HEARD,
    HELD,
    PENDING,
    SCHEMAS,
    STEP_PART,
    Court,
    hear,
    heard,
)
from coordinator_replay.pipeline.task_rows import task_rows
from coordinator_replay.pipeline.warehouse import Warehouse

Gap = tuple[int, int, int]

_PENDING_ENDS = ("COMMIT", "ABORT", "SKIPPED", "TOMBSTONE")


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
        history: what all rows of ``offset_history`` come to; None where that has to be added up.
    """

    end: datetime
    causes: DataFrame
    held: DataFrame
    gaps: Sequence[Gap]
    is_damaged: bool
    limits: Thresholds
    since: datetime | None = None
    history: HistorySums | None = None


def _ms(at: Column | str) -> Column:
    return F.unix_millis(at)


def long_pending(pending: DataFrame, end: datetime, limits: Thresholds) -> DataFrame:
    """Transactional commits that waited long; those replaced within their transaction count by the later one.

    Args:
        pending: rows of ``pending_offsets``.
        end: the end of the log.
        limits: what is long.
    """
    told = F.col("to_offset").isNull() | F.col("ended_by").isin(*_PENDING_ENDS)
    settled, since = _ms("valid_to"), _ms("pending_since")
    is_long = F.coalesce(settled, _ms(F.lit(end))) - since >= limits.pending_ms
    times = {"pending_since": since, "settled_at": settled}
    return pending.where(told & is_long).withColumns(times).select(*SCHEMAS[PENDING].names)


def _unreadable(quarantine: DataFrame) -> DataFrame:
    """What lies in quarantine, by where and what was wrong with it: no more rows than there are kinds of damage."""
    return quarantine.groupBy("log_partition", "error_class").agg(
        F.count("*").alias("records"),
        _ms(F.min("log_timestamp")).alias("first_at"),
        _ms(F.max("log_timestamp")).alias("last_at"),
        F.min("log_offset").alias("log_offset"),
        F.min(F.substring("error_message", 1, 200)).alias("error_message"),
    )


class _Trial:
    """Findings and metrics of one run; its steps share the warehouse and what the run knows."""

    def __init__(self, warehouse: Warehouse, cluster: str, known: Known, staging: str) -> None:
        self.warehouse = warehouse
        self.cluster = cluster
        self.known = known
        self.staging = staging
        self.until = kept_until(known.end)
        end_ms = round(known.end.timestamp() * 1000)
        self.court = Court(cluster=cluster, end_ms=end_ms, until=self.until, limits=known.limits)
        self.evidence = self.table(EVIDENCE_TABLE, EVIDENCE)
        self.severities = Counter[str]()

    def mine(self, name: str) -> DataFrame:
        return self.warehouse.read(name).where(F.col("cluster") == self.cluster)

    def table(self, name: str, source: str) -> Source:
        """A table's rows, as a source."""
        held = self.warehouse.held(name)
        files = None if held is None else Files([file.path for file in held], self.cluster)
        return Source(SCHEMAS[source], self.mine(name), files)

    def aside(self, rows: DataFrame, source: str) -> Source:
        """Rows that were written aside, as a source."""
        is_here = self.evidence.files is not None
        return Source(SCHEMAS[source], rows, Files(paths_of(rows)) if is_here else None)

    def history(self) -> HistorySums:
        """What the history since then comes to."""
        if self.known.history is not None:
            return self.known.history
        rows = task_rows(self.warehouse, "offset_history", self.cluster, "valid_from", self.known.since)
        return sum_history(rows, self.until, self.staging)

    def pending(self) -> Source:
        """Transactional commits that waited long; most logs have no transactions."""
        rows = long_pending(self.mine("pending_offsets"), self.known.end, self.known.limits)
        if self.warehouse.is_new("pending_offsets"):
            rows = self.warehouse.spark.createDataFrame([], rows.schema)
        else:
            rows = keep(rows, f"{self.staging}/long")
        return self.aside(rows, PENDING)

    def sources(self) -> tuple[dict[str, Source], DataFrame]:
        """All that is known of groups, and what commits come to by the minute."""
        warehouse, cluster, known = self.warehouse, self.cluster, self.known
        with ThreadPoolExecutor(2) as pool:
            # Neither of these waits for the others, and each leaves a core idle at its end.
            summing = pool.submit(self.history)
            pending = pool.submit(self.pending)
            sums = sum_groups(
                commits_since(warehouse, cluster, known.since),
                self.evidence,
                hot=known.limits.hot_commits_per_minute,
                until=self.until,
                since=known.since,
                staging=self.staging,
            )
        summed = summing.result()
        sources = {
            EVIDENCE: self.evidence,
            GROUP_PART: self.aside(sums.groups, GROUP_PART),
            PARTITION_PART: self.aside(summed.partitions, PARTITION_PART),
            REWIND_PART: self.aside(summed.rewinds, REWIND_PART),
            HELD: self.aside(known.held, HELD),
            PENDING: pending.result(),
            EXPIRED: self.table("expired_offsets", EXPIRED),
            CAUSES: self.aside(known.causes, CAUSES),
        }
        if known.since is not None:
            sources[TOTALS] = self.table(TOTALS, TOTALS)
        return sources, sums.minutes

    def hear(self, sources: dict[str, Source], parts: dict[str, Part]) -> dict[str, list[DataFile]]:
        """Judge every group; the files that were written."""
        spark = self.warehouse.spark
        buckets = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
        schemas = {name: SCHEMAS[name] for name in SCHEMAS if name not in sources}
        court = self.court

        def each(chunks: Iterator[Chunk]) -> Batches:
            nothing = {name: schema.empty_table() for name, schema in schemas.items()}
            return hear(({**nothing, **chunk} for chunk in chunks), court, parts)

        outcome = heard(map_groups(sources, each, HEARD, buckets=buckets))
        self.severities.update(outcome.severities)
        return outcome.files

    def of_log(self, part: Part) -> list[DataFile]:
        """Findings about the log itself: what could not be read of it, and what nobody has read."""
        judge, found = self.court.judge(""), list[Found]()
        if self.known.is_damaged:
            for row in _unreadable(self.mine("quarantine")).collect():
                found += judge.take(Evidence.UNREADABLE, row.asDict())
        for log_partition, low, high in self.known.gaps:
            gap = {"log_partition": log_partition, "from_offset": low, "to_offset": high}
            found += judge.take(Evidence.GAP, gap)
        self.severities.update(one["severity"] for one in found)
        files = DataFiles({FINDINGS: part})
        files.add_rows(FINDINGS, found)
        return files.close()

    def counted(self, commits: DataFrame) -> list[DataFrame]:
        """What commits came to by the minute, in this run and in earlier ones."""
        if self.known.since is None:
            return [commit_steps(commits)]
        earlier = self.mine(METRICS).where(F.col("bucket") < F.lit(self.known.since))
        return [commit_steps(commits), earlier_steps(earlier)]

    def metrics(self, steps: list[DataFile], counted: list[DataFrame]) -> int:
        """Write ``group_metrics``; its version."""
        warehouse = self.warehouse
        told = read_files(warehouse.spark, steps, from_arrow_schema(STEPS))
        part = warehouse.replacing_part(METRICS, self.staging, self.cluster)
        written = files_of(write_metrics([told, *counted], part, self.cluster))
        return warehouse.put_files(METRICS, written.get(METRICS, []), self.cluster)

    def write(self) -> tuple[dict[str, int], dict[str, int]]:
        warehouse, cluster = self.warehouse, self.cluster
        sources, commits = self.sources()
        parts = {name: warehouse.replacing_part(name, self.staging, cluster) for name in (FINDINGS, TOTALS)}
        parts[STEP_PART] = aside(f"{self.staging}/{STEP_PART}", STEPS)
        with ThreadPoolExecutor(2) as pool:
            hearing = pool.submit(self.hear, sources, parts)
            # What Spark has to be told is told meanwhile.
            by_minute = self.counted(commits)
            files = hearing.result()
            metrics = pool.submit(self.metrics, files.get(STEP_PART, []), by_minute)
            found = [*files.get(FINDINGS, []), *self.of_log(parts[FINDINGS])]
            versions = {FINDINGS: warehouse.put_files(FINDINGS, found, cluster), METRICS: metrics.result()}
        # After the metrics: what a killed run has written of them is no part of what these totals are taken for.
        versions[TOTALS] = warehouse.put_files(TOTALS, files.get(TOTALS, []), cluster)
        return versions, dict(self.severities)


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
    return _Trial(warehouse, cluster, known, staging).write()
