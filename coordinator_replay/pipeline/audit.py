"""The run, in the order a person would tell it: decode, plan, replay by bucket, explain, evaluate, commit.

Stages are functions from a share of work to files (``stage``); the driver plans shares and commits files. All commits
come at the end of the run, the ledger's last: a run that is killed leaves nothing that counts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from pyarrow import fs
from pyspark.sql import SparkSession

from coordinator_replay.analysis.findings.evaluate import FINDINGS, Evaluator
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.reasons.topic_changes import REMOVED as TOPIC_REMOVED
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.log.dump import Dump, DumpFile, Format, find_dump
from coordinator_replay.pipeline.bucket import BucketContext, BucketResult, run_bucket
from coordinator_replay.pipeline.bucket_files import Place, TableWriter
from coordinator_replay.pipeline.findings.evaluation import (
    STEP_ROWS,
    TOTALS,
    EvaluationContext,
    EvaluationResult,
    EvaluationShare,
    counted,
    evaluate_bucket,
)
from coordinator_replay.pipeline.findings.metrics import METRICS, MetricsShare, last_groups, write_metrics
from coordinator_replay.pipeline.groups import topics
from coordinator_replay.pipeline.groups.replay import ReplayContext
from coordinator_replay.pipeline.host.catalog import register_tables
from coordinator_replay.pipeline.ledger import (
    FinishedRun,
    Run,
    audited_ranges,
    below,
    finished_runs,
    lost_ranges,
    positions_of,
    unread,
)
from coordinator_replay.pipeline.log_partitions import TABLE as PARTITIONS
from coordinator_replay.pipeline.offsets.bucket import MINUTE_SUMS, REMOVED_ROWS, SURVIVOR_ROWS, OffsetContext
from coordinator_replay.pipeline.offsets.causes import REMOVED, CausesResult, CausesShare, tell_causes
from coordinator_replay.pipeline.offsets.expiry import Horizon
from coordinator_replay.pipeline.plan import BUCKET_TABLES, History, Plan, Wanted, plan_buckets, sums_range
from coordinator_replay.pipeline.read import same_log
from coordinator_replay.pipeline.read.anchors import Comparison
from coordinator_replay.pipeline.read.audited import UnreadFiles, unread_files
from coordinator_replay.pipeline.read.copies import DumpCopy, export_copies, gaps_of, passed_over, segment_copies
from coordinator_replay.pipeline.read.decode import DecodedFile, FileShare, Skip, decode_files, decode_rows
from coordinator_replay.pipeline.read.extents import Extent, Extents
from coordinator_replay.pipeline.read.same_log import look_up
from coordinator_replay.pipeline.read.sources import read_tables
from coordinator_replay.pipeline.read.tally import CONTROL, QUARANTINE, Ranges, Tally
from coordinator_replay.pipeline.stage import run_on_rows, run_stage, together
from coordinator_replay.store.beginning import begin
from coordinator_replay.store.keeping import given_up
from coordinator_replay.store.layout import BUCKETS_PROPERTY, LEDGER, default_buckets
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.warehouse import Store
from coordinator_replay.store.writer import DataFile
from coordinator_replay.tables.definition import tables
from coordinator_replay.times import milliseconds

OFFSETS_VERSION = 2
"""Of the rules of derivation: what other ones made is derived anew."""

_TABLES_AT_ONCE = 8

_MARKERS_UNSEEN = (
    "the input is an export through a consumer: transaction markers, producer ids and batches are not in it, so "
    "whether a transactional commit was committed is unproven"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What is asked of expiry.

    Attributes:
        as_of: the moment to judge at; None for the end of the log.
        retention_ms: offsets.retention.minutes of the brokers; None to infer it, or else to take Kafka's default.
        horizon_ms: how far ahead to look.
        history_every_ms: keep the last commit of each such interval only; None for all.
    """

    as_of: datetime | None = None
    retention_ms: int | None = None
    horizon_ms: int = 3 * 86_400_000
    history_every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is asked to do; the names are those of the command line."""

    inputs: Sequence[str]
    warehouse: str
    cluster: str = "default"
    format: Format | None = None
    include_deleted: bool = False
    database: str | None = None
    topics: str | None = None
    cluster_metadata: str | None = None
    expiry: Expiry = field(default_factory=Expiry)
    records_only: bool = False
    full: bool = False
    thresholds: Thresholds = DEFAULTS

    def settings(self) -> dict[str, Any]:
        """For the ledger."""
        return {
            "format": self.format or "auto",
            "include_deleted": self.include_deleted,
            "database": self.database,
            "topics": self.topics,
            "cluster_metadata": self.cluster_metadata,
            "as_of": self.expiry.as_of and self.expiry.as_of.isoformat(),
            "retention_ms": self.expiry.retention_ms,
            "horizon_ms": self.expiry.horizon_ms,
            "history_every_ms": self.expiry.history_every_ms,
            "records_only": self.records_only,
            "full": self.full,
            "thresholds": asdict(self.thresholds),
            "offsets_version": OFFSETS_VERSION,
        }


@dataclass(slots=True)
class Summary:
    """What a run has to say at its end.

    Attributes:
        kinds: records that are new to the tables, by Kafka's name of their kind.
        quarantined: those of them that could not be decoded, by what was wrong with them.
        groups: groups that exist at the end of the log, by type and state.
        rebalances: all rebalances of the cluster that the tables hold.
        causes: how many of them have each cause.
        expired: offsets of the cluster that expired, are past retention, or expire within the horizon, by status.
        findings: what the tables now say that deserves a look, by severity.
    """

    run: Run
    kinds: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    rebalances: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)


Report = Callable[[str], None]
"""Is told which step begins."""


def run_audit(
    spark: SparkSession, options: Options, report: Report = lambda _step: None, dump: Dump | None = None
) -> Summary:
    """Audit a dump into a warehouse. Whoever calls this holds the warehouse's lock.

    Args:
        spark: runs the stages.
        options: what to read, and where to write.
        report: is told which step begins, for progress.
        dump: what the options' inputs hold, where that was found already.

    Raises:
        InputError: an input is missing or no dump.
        UsageError: the inputs don't go together.
        WarehouseError: the warehouse can't be used.
    """
    if dump is None:
        report("finding the dump")
        dump = find_dump(options.inputs, form=options.format, include_deleted=options.include_deleted)
    report("preparing the tables")
    store = Store(options.warehouse)
    begun = begin(store, except_derived=options.full)
    audit = _Audit(spark, store, options, report, begun.last.run_id)
    audit.run.notes += [f"restored {name}: an earlier run had not finished" for name in begun.undone]
    try:
        return audit.of(dump)
    finally:
        _remove(store.staging(audit.run.run_id))


class _Audit:
    """One run; its steps share the session, the tables and the ledger row."""

    def __init__(self, spark: SparkSession, store: Store, options: Options, report: Report, last_run_id: str) -> None:
        self.spark = spark
        self.store = store
        self.options = options
        self.report = report
        self.run = Run.begin(options.cluster, options.inputs, options.settings(), last_run_id)
        self.snapshots = self._open()
        self.buckets = int(self.snapshots[LEDGER].properties[BUCKETS_PROPERTY])
        runs = finished_runs(self.snapshots[LEDGER], options.cluster)
        self.history = History(
            runs=runs,
            ranges=audited_ranges(runs),
            segment_ranges=audited_ranges(runs, Format.SEGMENTS),
            positions=positions_of(runs),
        )
        self.logs = same_log.earlier_logs(self.snapshots[PARTITIONS].files(cluster=options.cluster))
        self.judgement = same_log.Judgement()
        self.place = Place(
            warehouse=store.uri,
            cluster=options.cluster,
            folder=store.staging(self.run.run_id),
            given_up={name: gone for name, one in self.snapshots.items() if (gone := given_up(one)) is not None},
        )
        self.added: list[DataFile] = []
        self.removed: list[TableFile] = []
        self.copies: list[DumpCopy] = []

    def _open(self) -> dict[str, Snapshot]:
        """Open every table, and make those that are not there."""
        ledger = self.store.snapshot(LEDGER)
        parallel = self.spark.sparkContext.defaultParallelism
        buckets = default_buckets(parallel) if ledger is None else int(ledger.properties[BUCKETS_PROPERTY])
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            return dict(zip(tables(), pool.map(lambda name: self.store.create(name, buckets), tables()), strict=True))

    def of(self, dump: Dump) -> Summary:
        """Audit a dump."""
        self.run.notes.extend(dump.notes)
        self.run.input_form = str(dump.format)
        self.report("reading and decoding")
        decoded = self.decode(dump)
        tally = Tally()
        for one in decoded:
            tally.merge(one.tally)
        plan = plan_buckets(
            decoded,
            tally,
            self.history,
            self.bucket_files(),
            buckets=self.buckets,
            wanted=self.wanted(),
        )
        self.run.log_end = max(filter(None, (tally.end(), self.history.log_end)), default=None)
        self.report("naming topics")
        before, known = self.name_topics(tally)
        self.deletions = [
            (name, change.at_ms)
            for name, changes in known.changes.items()
            for change in changes
            if change.change == TOPIC_REMOVED
        ]
        self.report("replaying groups and deriving offsets")
        results = self.run_buckets(plan, tally, before, known)
        summary = Summary(self.run)
        self.count(results, tally, summary)
        if plan.derives and self.run.log_end is not None:
            self.derive(results, tally, summary, is_anew=plan.is_anew, end=self.run.log_end)
        elif not plan.derives and not self.options.records_only:
            self.count_earlier(summary)
        for result in results:
            self.added += result.files.added
            self.removed += result.files.removed
        self.report("committing")
        self.commit(summary)
        return summary

    def wanted(self) -> Wanted:
        """What the plan depends on of what is asked."""
        options = self.options
        return Wanted(
            settings=self.run.settings,
            is_full=options.full,
            records_only=options.records_only,
            is_explicit=bool(options.topics or options.cluster_metadata or options.expiry != Expiry()),
            copies=self.copies,
            logs=self.logs,
            lost_from=self.run.lost_from,
        )

    def bucket_files(self) -> list[TableFile]:
        """The cluster's files of all tables that have buckets."""
        cluster = self.run.cluster
        return [file for name in BUCKET_TABLES for file in self.snapshots[name].files(cluster=cluster)]

    def decode(self, dump: Dump) -> list[DecodedFile]:
        """Read and decode what earlier runs have not read; notes and coverage go to the ledger row.

        Raises:
            InputError: the dump is not of the log that earlier runs have read.
        """
        if dump.format is not Format.SEGMENTS:
            return self.decode_rows(dump)
        unread_, decoded = self.decode_unread(dump)
        self.judge(dump, decoded, unread_.unopened)
        if self.judgement.is_branched:
            self.run.lost_from = self.judgement.lost_from
            self.history = self.history.without(self.run.lost_from)
            unread_, decoded = self.decode_unread(dump)
        self.keep_anchors(decoded)
        extents = unread_.extents(Extents(tuple(extent for one in decoded for extent in one.extents)))
        copies = segment_copies(dump, extents.files, self.history.ends)
        self.copies = [copy.below(self.judgement.limit(copy.files[0])) for copy in copies]
        decoded += self.decode_passed_over()
        self._note(decoded)
        self.run.gaps = gaps_of(self.copies, extents.gaps())
        if (passed_over := unread_.note(extents)) is not None:
            is_any = any(one.files for one in decoded)
            self.run.notes.append(passed_over if is_any else f"nothing new: {passed_over}")
        self.run.cover(extents, self.history.ends)
        return decoded

    def decode_rows(self, dump: Dump) -> list[DecodedFile]:
        """Decode an export through a consumer."""
        self.run.notes.append(_MARKERS_UNSEEN)
        stage = partial(
            decode_rows,
            folder=f"{self.place.folder}/decoded",
            buckets=self.buckets,
            known=dict(self.history.ranges),
            anchors={partition: log.anchors for partition, log in self.logs.items()},
        )
        decoded = run_on_rows(self.spark, "decode records", read_tables(self.spark, dump), stage)
        self.judge(dump, decoded, [])
        self.keep_anchors(decoded)
        self._note(decoded)
        tally = Tally()
        for one in decoded:
            tally.merge(one.tally)
        self.copies = export_copies(tally, self.history.ends)
        return decoded

    def decode_unread(self, dump: Dump) -> tuple[UnreadFiles, list[DecodedFile]]:
        """Decode what no earlier run has read of the segments of a dump."""
        # Exports don't tell what is missing between their records, and lack some kinds of them.
        audited = {} if self.options.full else self.history.segment_ranges
        unread_ = unread_files(dump.segments, audited)
        return unread_, self.decode_files(
            unread_.files, unread_.skip, metadata=same_log.metadata_files(dump, unread_.files)
        )

    def decode_files(
        self, files: Sequence[DumpFile], skip: Skip, metadata: Mapping[str, str] = MappingProxyType({})
    ) -> list[DecodedFile]:
        """Read and decode segments, but for batches that lie in some ranges."""
        shares = [
            FileShare(
                file=file,
                skip=skip.get(file.log_partition, ()),
                known={file.log_partition: self.history.ranges.get(file.log_partition, ())},
                anchors=self.logs[file.log_partition].anchors if file.log_partition in self.logs else (),
                limit=self.judgement.limit(file),
                metadata=metadata.get(file.uri),
            )
            for file in files
        ]
        tasks = together(shares, lambda share: share.file.size, self.spark.sparkContext.defaultParallelism)
        stage = partial(decode_files, folder=f"{self.place.folder}/decoded", buckets=self.buckets)
        return run_stage(
            self.spark, "decode segments", tasks, stage, lambda task: sum(share.file.size for share in task)
        )

    def judge(self, dump: Dump, decoded: Sequence[DecodedFile], unopened: Sequence[tuple[DumpFile, Extent]]) -> None:
        """Compare the dump with what earlier runs have kept, and say what came of it."""

        def look(shares: Sequence[same_log.LookUp]) -> list[list[Comparison]]:
            name = "look up records of earlier audits"
            return run_stage(self.spark, name, shares, look_up, lambda share: share.file.size)

        parts = [part for one in decoded for part in one.parts]
        self.judgement = same_log.judge(dump, parts, self.logs, unopened, look)
        self.run.notes += self.judgement.notes

    def keep_anchors(self, decoded: Sequence[DecodedFile]) -> None:
        """Keep records of this dump for the next one to be compared with."""
        found = [one.anchors for one in decoded]
        parts = [part for one in decoded for part in one.parts]
        self.logs |= same_log.logs_after(self.logs, found, parts, self.judgement)

    def decode_passed_over(self) -> list[DecodedFile]:
        """Read what was passed over of copies whose own records tell what is still alive, or was lost since."""
        decoded: list[DecodedFile] = []
        wanted = list(passed_over(self.copies, self.history.ends, self.complete_ranges()))
        for copy, skip in wanted:
            decoded += self.decode_files(copy.files, skip)
        again = {copy.source for copy, _ in wanted}
        self.copies = [copy.as_read_whole() if copy.source in again else copy for copy in self.copies]
        return decoded

    def complete_ranges(self) -> Ranges:
        """Ranges of offsets of each log partition of which earlier runs have every one."""
        files = self.snapshots[PARTITIONS].files(cluster=self.run.cluster)
        rows = [row for batch in read_table(files, ["log_partition", "complete_ranges"]) for row in batch.to_pylist()]
        complete = {
            row["log_partition"]: [(one["from_offset"], one["to_offset"]) for one in row["complete_ranges"]]
            for row in rows
        }
        return below(complete, self.run.lost_from)

    def _note(self, decoded: Sequence[DecodedFile]) -> None:
        for one in decoded:
            self.run.notes.extend(one.notes)
            self.run.reach(one.tally)

    def name_topics(self, tally: Tally) -> tuple[topics.KnownTopics, topics.KnownTopics]:
        """What was known of the cluster's topics, and what is now."""
        files = self.snapshots[topics.TABLE].files(cluster=self.run.cluster)
        rows = [row for batch in read_table(files, topics.COLUMNS) for row in batch.to_pylist()]
        before = topics.best_topics(topics.from_rows(rows))
        sources = [*before.topics.values(), *topics.from_tally(tally)]
        if self.options.topics is not None:
            sources += topics.from_file(self.options.topics)
        if self.options.cluster_metadata is not None:
            files_ = topics.metadata_files(self.options.cluster_metadata)
            found = run_stage(self.spark, "read cluster metadata", files_, topics.read_metadata)
            sources += topics.from_metadata(record for one in found for record in one)
        known = topics.best_topics(sources)
        if known != before:
            writer = TableWriter(self.place, None)
            writer.add_rows(topics.TABLE, [topic.row() for topic in known.topics.values()])
            self.added += writer.close()
            self.removed += files
        return before, known

    def run_buckets(
        self, plan: Plan, tally: Tally, before: topics.KnownTopics, known: topics.KnownTopics
    ) -> list[BucketResult]:
        """The stage that works on each bucket."""
        expiry, end = self.options.expiry, self.run.log_end
        totals = self.snapshots[TOTALS].files(cluster=self.run.cluster)
        hot = self.options.thresholds.hot_commits_per_minute
        self.sums = None if end is None else sums_range(tally, totals, end, is_anew=plan.is_anew, hot=hot)
        context = BucketContext(
            place=self.place,
            replay=ReplayContext(
                cluster=self.run.cluster,
                run_id=self.run.run_id,
                topic_names=known.names,
                topic_changes=known.changes,
                limits=self.options.thresholds,
            ),
            renamed=known.renamed(before),
            offsets=OffsetContext(
                end=end, sums=self.sums, as_of=expiry.as_of, history_every_ms=expiry.history_every_ms
            ),
            derives=plan.derives,
        )
        name = "settle records, replay groups and derive offsets by bucket"
        return run_stage(self.spark, name, plan.shares, partial(run_bucket, context=context), lambda share: share.size)

    def count(self, results: Sequence[BucketResult], tally: Tally, summary: Summary) -> None:
        """Account for every record that was read."""
        run = self.run
        run.records_read = sum(count.records for count in tally.counts.values())
        for result in results:
            settled = result.settled
            run.duplicates_dropped += settled.duplicates
            run.already_audited += settled.already
            for what, records in settled.written.items():
                if what == QUARANTINE:
                    run.records_quarantined += records
                elif what == CONTROL:
                    run.control_records += records
                else:
                    run.records_decoded += records
            for (what, kind), records in settled.kinds.items():
                if what != CONTROL:
                    (summary.quarantined if what == QUARANTINE else summary.kinds)[kind or ""] += records
            run.positions.update(settled.positions)
        run.check()

    def derive(
        self, results: Sequence[BucketResult], tally: Tally, summary: Summary, *, is_anew: bool, end: datetime
    ) -> None:
        """What follows from all buckets together: causes of tombstones, what expires, findings, metrics."""
        self.report("explaining tombstones")
        causes = self.explain_tombstones(results, end)
        self.run.notes.append(causes.retention.note)
        self.report("evaluating findings")
        evaluated = self.evaluate(results, causes, end)
        for one in evaluated:
            summary.findings.update(one.severities)
            summary.causes.update(one.causes)
            summary.expired.update(one.expired)
            self.run.fail(one.failed)
            self.added += [file for file in one.files if file.table is not None]
        cluster = self.run.cluster
        for name in (FINDINGS, METRICS):
            self.removed += self.snapshots[name].files(cluster=cluster)
        self.removed += self.snapshots[TOTALS].files(cluster=cluster)
        self.report("writing metrics")
        summary.groups = self.write_metrics(results, evaluated)
        self.find_gaps(summary, end)

    def explain_tombstones(self, results: Sequence[BucketResult], end: datetime) -> CausesResult:
        """The one stage across buckets; what it writes joins the files of each bucket."""
        expiry = self.options.expiry
        share = CausesShare(
            removed=[file.path for result in results for file in result.files.staged.get(REMOVED_ROWS, [])],
            closed=[uri for result in results for uri in result.files.uris(REMOVED)],
            deletions=self.deletions,
            survivors=[file.path for result in results for file in result.files.staged.get(SURVIVOR_ROWS, [])],
            retention_ms=expiry.retention_ms,
            end=end,
            as_of=expiry.as_of,
            place=self.place,
            buckets=self.buckets,
        )
        [causes] = run_stage(self.spark, "explain tombstones", [share], tell_causes)
        by_bucket = {result.bucket: result.files for result in results}
        for file in causes.files:
            by_bucket[int(dict(file.partition)["bucket"] or 0)].added.append(file)
        return causes

    def evaluate(self, results: Sequence[BucketResult], causes: CausesResult, end: datetime) -> list[EvaluationResult]:
        """The stage that lets the rules look at each bucket."""
        assert self.sums is not None  # noqa: S101 - the log has an end
        expiry = self.options.expiry
        context = EvaluationContext(
            place=self.place,
            end=end,
            until=self.sums.until,
            since=self.sums.since,
            limits=self.options.thresholds,
            retention=causes.retention,
            horizon=Horizon(as_of=expiry.as_of or end, horizon_ms=expiry.horizon_ms),
        )
        shares = [
            EvaluationShare(bucket=result.bucket, files=result.files, is_anew=result.is_anew) for result in results
        ]
        return run_stage(self.spark, "evaluate findings by bucket", shares, partial(evaluate_bucket, context=context))

    def write_metrics(
        self, results: Sequence[BucketResult], evaluated: Sequence[EvaluationResult]
    ) -> Counter[tuple[str, str]]:
        """The stage that adds the minutes of all buckets up; how many groups there are at the end of the log."""
        assert self.sums is not None  # noqa: S101 - the log has an end
        share = MetricsShare(
            steps=[file.path for one in evaluated for file in one.files if file.part == STEP_ROWS],
            minutes=[file.path for result in results for file in result.files.staged.get(MINUTE_SUMS, [])],
            earlier=[file.uri for file in self.snapshots[METRICS].files(cluster=self.run.cluster)],
            since=self.sums.since,
            place=self.place,
        )
        [metrics] = run_stage(self.spark, "add up metrics", [share], write_metrics)
        self.added += metrics.files
        return metrics.groups

    def find_gaps(self, summary: Summary, end: datetime) -> None:
        """Findings about ranges of offsets that no audit has read, and such that the log has lost since."""
        evaluator = Evaluator(self.run.cluster, "", milliseconds(end), self.options.thresholds)
        writer = TableWriter(self.place, None)
        ranges = [(Evidence.GAP, *one) for one in unread(self.history.ranges, self.run)]
        runs: list[Run | FinishedRun] = [self.run, *self.history.runs]
        for kind, log_partition, low, high in (*ranges, *((Evidence.LOST, *one) for one in lost_ranges(runs))):
            evidence = {"log_partition": log_partition, "from_offset": low, "to_offset": high}
            found = list(evaluator.add(kind, evidence))
            summary.findings.update(one["severity"] for one in found)
            writer.add_rows(FINDINGS, found)
        self.added += writer.close()

    def count_earlier(self, summary: Summary) -> None:
        """What earlier runs found, where this one had nothing to derive."""
        cluster = self.run.cluster
        for name, column, counts in (
            (FINDINGS, "severity", summary.findings),
            ("rebalances", "cause", summary.causes),
            ("expired_offsets", "status", summary.expired),
        ):
            files = self.snapshots[name].files(cluster=cluster)
            counts.update(counted(read_table(files, [column], dictionaries=[column]), column))
        summary.groups = last_groups(self.snapshots[METRICS].files(cluster=cluster))

    def commit(self, summary: Summary) -> None:
        """Commit the files of all tables, the ledger's last."""
        rebalances = self.snapshots["rebalances"].rows(self.run.cluster)
        rebalances += sum(file.rows for file in self.added if file.table == "rebalances")
        summary.rebalances = rebalances - sum(file.rows or 0 for file in self.removed if file.table == "rebalances")
        names = [name for name in tables() if name != LEDGER]

        def one(name: str) -> int:
            added = [file for file in self.added if file.table == name]
            removed = [file for file in self.removed if file.table == name]
            return self.store.commit(self.snapshots[name], added, removed, self.run.run_id)

        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            self.run.table_versions = dict(zip(names, pool.map(one, names), strict=True))
        self.run.table_versions[LEDGER] = self.snapshots[LEDGER].version + 1
        self.run.finished_at = datetime.now(UTC)
        self.run.status = "done"
        writer = TableWriter(self.place, None)
        writer.add_rows(LEDGER, [self.run.row()])
        self.store.commit(self.snapshots[LEDGER], writer.close(), [], self.run.run_id)
        if self.options.database is not None:
            register_tables(self.spark, self.options.database, {name: self.store.path(name) for name in tables()})


def _remove(uri: str) -> None:
    filesystem, path = open_filesystem(uri)
    if filesystem.get_file_info(path).type == fs.FileType.Directory:
        filesystem.delete_dir(path)
