"""The run, in the order a person would tell it: find, read and decode, settle, write, account."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.log.dump import Dump, DumpFile, Format, find_dump, open_filesystem
from coordinator_replay.pipeline import settle
from coordinator_replay.pipeline.audited import task_of
from coordinator_replay.pipeline.commit_totals import TABLE as TOTALS_TABLE
from coordinator_replay.pipeline.commit_totals import totals_since
from coordinator_replay.pipeline.data_files import keep
from coordinator_replay.pipeline.decode import stage_rows, stage_segments
from coordinator_replay.pipeline.extremes import RECORDS, extremes_of
from coordinator_replay.pipeline.findings import Known, write_findings
from coordinator_replay.pipeline.group_tables import News, Replayed, write_group_tables
from coordinator_replay.pipeline.ledger import Run, audited_ranges, done_runs, last_run, unread, write_run
from coordinator_replay.pipeline.offset_tables import (
    OFFSET_TABLES,
    OFFSETS_VERSION,
    REMOVED_TABLE,
    Expiry,
    Newest,
    write_offset_tables,
)
from coordinator_replay.pipeline.positions import beyond
from coordinator_replay.pipeline.record_tables import RECORD_TABLES, write_records, write_staged
from coordinator_replay.pipeline.renumber import missing_before_end, renumber
from coordinator_replay.pipeline.replay import GROUP_TABLES, Given
from coordinator_replay.pipeline.restart import Groups, Restart, groups_anew, has_strays, restart_at, unfinished_groups
from coordinator_replay.pipeline.sources import read_tables
from coordinator_replay.pipeline.staged_records import Staged, as_records, staged_by
from coordinator_replay.pipeline.standing import standing_groups
from coordinator_replay.pipeline.tally import CONTROL, Tally, tally_of
from coordinator_replay.pipeline.topics import NAMING_KINDS, from_records, update_topics
from coordinator_replay.pipeline.warehouse import TABLES_AT_ONCE, Warehouse

FOUND_TABLES = ("findings", "group_metrics")
"""The tables that are derived from all others."""

INTERNAL_TABLES = ("group_state", REMOVED_TABLE, TOTALS_TABLE)
"""The tables that only the next run reads."""

TABLES = (*RECORD_TABLES, "topics", *GROUP_TABLES, *OFFSET_TABLES, *FOUND_TABLES, *INTERNAL_TABLES, "audit_runs")
"""The tables a run writes, the ledger last."""


_MARKERS_UNSEEN = (
    "the input is an export through a consumer: transaction markers, producer ids and batches are not in it, so "
    "whether a transactional commit was committed is unproven"
)


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
        found: records of the input by the struct that holds them, copies of one position counted once.
        kinds: the same by Kafka's name of their kind.
        quarantined: records that could not be decoded, by what was wrong with them.
        groups: groups that exist at the end of the log, by type and state.
        rebalances: all rebalances of the cluster that the tables hold.
        findings: what the tables now say that deserves a look, by severity.
    """

    run: Run
    found: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    groups: dict[tuple[str, str], int] = field(default_factory=dict)
    rebalances: int = 0
    findings: dict[str, int] = field(default_factory=dict)


Report = Callable[[str], None]
"""Is told which step begins."""


Rows = Callable[[], DataFrame]
"""Rows for whoever needs them: to tell Spark of so many columns takes as long as other steps do."""


def run_audit(
    spark: SparkSession, options: Options, report: Report = lambda _step: None, dump: Dump | None = None
) -> Summary:
    """Audit a dump into a warehouse.

    Args:
        spark: a session that knows Delta.
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
    warehouse = Warehouse(spark, options.warehouse, options.database)
    run = Run.begin(options.cluster, options.inputs, options.settings())
    run.notes.extend(dump.notes)
    run.input_form = str(dump.format)
    report("preparing the tables")
    # Most of a commit is waiting for the driver: tables that have nothing to do with each other go side by side.
    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        list(pool.map(warehouse.ensure, TABLES))
    try:
        return _Audit(spark, warehouse, run, options, report).of(dump)
    finally:
        _remove(warehouse.staging(run.run_id, "")[:-1])


class _Audit:
    """One run; its steps share the session, the warehouse and the ledger row."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, run: Run, options: Options, report: Report) -> None:
        self.spark = spark
        self.warehouse = warehouse
        self.run = run
        self.options = options
        self.report = report
        self.runs = done_runs(warehouse, run.cluster)
        self.ranges = audited_ranges(self.runs)
        # A run that wrote records only leaves the derived tables behind; the next full one makes up for it.
        self.ends = {partition: ranges[-1][1] for partition, ranges in self.ranges.items() if ranges}
        self.last = last_run(self.runs)
        last = self.last.settings
        self.is_behind = bool(last.get("records_only"))
        # Names and times of topics also explain what happened before, and what the rules saw in groups that have no
        # news depends on the thresholds; so a run that has other ones replays all groups.
        newly_told = any(run.settings[name] and not last.get(name) for name in ("topics", "cluster_metadata"))
        is_judged_anew = last.get("thresholds") != run.settings["thresholds"]
        self.is_told_anew = options.full or (bool(last) and (newly_told or is_judged_anew))
        self.is_apart = False
        self.was_empty = all(map(warehouse.is_new, RECORD_TABLES))
        self.names: Mapping[str, str] = {}
        self.end: datetime | None = None
        self.late: set[int] = set()
        self.has_new_positions = False
        self.may_wait = True
        self.is_clean = False
        self.unfinished: Groups = None

    def of(self, dump: Dump) -> Summary:
        self.report("reading and decoding")
        staged = self.stage(dump)
        self.report("ordering the records")
        records, tally = self.settle(staged, dump)
        summary, first_new = self.count(tally)
        self.names, self.may_wait = tally.names, tally.may_wait
        ends = self.ends
        self.run.cover(staged.extents, ends)
        self.has_new_positions = bool(first_new)
        self.late = {partition for partition, first in first_new.items() if first[0] < ends.get(partition, 0)}
        moved = self.moved(first_new, ends)
        self.report("writing commits, records and quarantine")
        self.is_clean = self.holds_none_of(tally)
        plain = self.plain_tables(tally)
        write_staged(self.warehouse, self.run, staged, moved, plain)
        if others := RECORD_TABLES.keys() - plain:
            rows = settle.move_missing(records(), moved, ends)
            write_records(self.warehouse, self.run, rows, summary.found, others)
        self.run.check()
        if self.late:
            staging = self.warehouse.staging(self.run.run_id, "renumbered")
            renumber(self.warehouse, self.run.cluster, self.late, staging)
        # Once the groups are written, nothing changes what is counted of them.
        with ThreadPoolExecutor(1) as pool:
            if not self.options.records_only and self.has_news():
                replayed = self.replay(summary, records)
                counting = pool.submit(self.sum_up, summary)
                self.derive(summary, replayed)
            else:
                counting = pool.submit(self.sum_up, summary)
                self.count_findings(summary)
            self.report("counting groups")
            counting.result()
        self.report("writing the ledger")
        # What this run had no reason to write stands as the last one left it, if nobody else was there.
        self.run.table_versions = {**self.last.table_versions, **self.run.table_versions}
        self.run.finished_at = datetime.now(UTC)
        self.run.status = "done"
        write_run(self.spark, self.warehouse, self.run)
        return summary

    def stage(self, dump: Dump) -> Staged:
        folder = self.warehouse.staging(self.run.run_id, "staged")
        if dump.format is Format.SEGMENTS:
            return self.stage_unread(dump.segments, folder)
        self.run.notes.append(_MARKERS_UNSEEN)
        return staged_by(stage_rows(read_tables(self.spark, dump), folder))

    def stage_unread(self, segments: Sequence[DumpFile], folder: str) -> Staged:
        """Read what no earlier run has read of segments; all of it where what the tables hold is in doubt."""
        audited = {}
        if not self.options.full and not self.was_empty:
            # Exports don't tell what is missing between their records, and lack some kinds of them.
            audited = audited_ranges(self.runs, Format.SEGMENTS)
        task = task_of(segments, audited)
        staged = staged_by(stage_segments(self.spark, task.files, folder, task.skip, self.ranges))
        staged.extents = task.extents(staged.extents)
        if (passed_over := task.said(staged.extents)) is not None:
            self.run.notes.append(passed_over if staged.rows else f"nothing new: {passed_over}")
        return staged

    def settle(self, staged: Staged, dump: Dump) -> tuple[Rows, Tally]:
        """Each position once; notes, gaps and dropped copies go to the ledger row."""
        self.run.notes.extend(staged.notes)
        extents = staged.extents
        self.run.gaps = extents.gaps()
        if dump.format is Format.SEGMENTS and not extents.have_copies():
            self.is_apart = True
            tally = staged.tally.shifted(extents.missing_before())
            return lambda: settle.settle_apart(as_records(self.spark, staged), extents), tally
        copies = as_records(self.spark, staged)
        settled = keep(settle.settle_copies(copies), self.warehouse.staging(self.run.run_id, "settled"))
        tally = tally_of(settled, self.ranges)
        self.run.duplicates_dropped = staged.rows - sum(count.records for count in tally.counts)
        return lambda: settled, tally

    def count(self, tally: Tally) -> tuple[Summary, dict[int, tuple[int, int]]]:
        """What there is: by log partition for the ledger, by kind for the person who waits.

        Returns:
            The counts, and for each log partition the first offset that no earlier run has read, with its
            ``missing_before``.
        """
        summary = Summary(self.run)
        first_new: dict[int, tuple[int, int]] = {}
        self.run.records_read = self.run.duplicates_dropped
        for count in tally.counts:
            self.run.records_read += count.records
            if count.low is not None and count.high is not None and count.log_partition is not None:
                partition = count.log_partition
                self.run.from_offsets[partition] = min(count.low, self.run.from_offsets.get(partition, count.low))
                self.run.to_offsets[partition] = max(count.high + 1, self.run.to_offsets.get(partition, 0))
                if not count.is_known and count.missing is not None:
                    seen = (count.low, count.missing)
                    first_new[partition] = min(seen, first_new.get(partition, seen))
            summary.found[count.what] = summary.found.get(count.what, 0) + count.records
            if count.what != CONTROL:
                counted = summary.quarantined if count.what == "quarantine" else summary.kinds
                counted[count.kind or ""] = counted.get(count.kind or "", 0) + count.records
        self.end = tally.end()
        return summary, first_new

    def moved(self, first_new: dict[int, tuple[int, int]], ends: dict[int, int]) -> dict[int, int]:
        """What ``missing_before`` of new records lacks, by log partition, to go on from where the tables end.

        A dump that begins where the last one ended would count all that came before as missing, and one taken after
        more compaction would count more of it than the records in the tables do.
        """
        later = {p: first for p, first in first_new.items() if p in ends and first[0] >= ends[p]}
        if not later:
            return {}
        held = missing_before_end(self.warehouse, self.run.cluster, {p: ends[p] for p in later})
        return {
            partition: held[partition] + offset - ends[partition] - counted
            for partition, (offset, counted) in later.items()
            if partition in held
        }

    def holds_none_of(self, tally: Tally) -> bool:
        """Whether the tables hold records of finished runs alone, and none of this one's."""
        if self.was_empty or not self.is_apart:
            return self.is_apart
        is_known = any(count.is_known for count in tally.counts)
        return not (self.late or is_known or self.has_unfinished_records())

    def plain_tables(self, tally: Tally) -> frozenset[str]:
        """The tables of records that take this run's as they are staged."""
        if not self.is_clean:
            return frozenset()
        if self.was_empty:
            return frozenset(RECORD_TABLES)
        # Where damage was looked at twice, its position does not tell.
        is_damaged = any(count.what == "quarantine" for count in tally.counts)
        return frozenset(
            name
            for name in RECORD_TABLES
            if not (is_damaged and name == "quarantine") and self.warehouse.takes_files(name)
        )

    def has_unfinished_records(self) -> bool:
        """Whether the tables hold records behind what finished runs have read: a killed run's."""
        return bool(extremes_of(self.warehouse, self.run.cluster, RECORDS, beyond(self.ends)))

    def named_by(self, summary: Summary, records: Rows) -> tuple[DataFrame | None, Mapping[str, str]]:
        """What records say of topics: group records, and commits; all of them, where some were left to a later run."""
        if self.is_behind or self.is_told_anew:
            mine = F.col("cluster") == self.run.cluster
            named = self.warehouse.read("offset_commits").where(mine & F.col("topic_id").isNotNull())
            pairs = named.groupBy("topic_id").agg(F.max("topic").alias("topic")).toLocalIterator()
            return from_records(self.warehouse.read("group_records").where(mine)), dict(map(tuple, pairs))
        if NAMING_KINDS.isdisjoint(summary.kinds):
            return None, self.names
        told = records().where("record IS NOT NULL").select("log_offset", "record.kind", "record.value_json")
        return from_records(told), self.names

    def replay(self, summary: Summary, records: Rows) -> Replayed:
        """Replay the groups that have records which their replay has not seen, from where it stands."""
        self.report("naming topics")
        options = self.options
        # Names that a killed run has found are new to the groups.
        was_left = self.is_as_left("topics")
        named_by, names = self.named_by(summary, records)
        topics = update_topics(
            self.spark,
            self.warehouse,
            self.run.cluster,
            named_by=named_by,
            names=names,
            topics_file=options.topics,
            cluster_metadata=options.cluster_metadata,
        )
        self.report("replaying groups")
        given = Given(
            cluster=self.run.cluster,
            run_id=self.run.run_id,
            topic_names=topics.names,
            topic_changes=topics.changes,
            limits=options.thresholds,
        )
        self.run.table_versions["topics"] = self.warehouse.version("topics")
        news = News(
            is_told_anew=self.is_told_anew,
            late=frozenset(self.late),
            versions=self.last.table_versions,
            are_names_known=was_left and topics.are_named_as_before,
            ends=None if self.is_behind else self.ends,
            records=summary.found.get("record", 0),
        )
        staging = self.warehouse.staging(self.run.run_id, "groups")
        if self.goes_on():
            self.unfinished = self.unfinished_groups()
        replayed = write_group_tables(self.warehouse, given, news, staging)
        self.run.table_versions |= replayed.versions
        return replayed

    def is_as_left(self, name: str) -> bool:
        """Whether a table says of the cluster what the last run left."""
        return self.warehouse.is_as_left(name, self.last.table_versions.get(name), self.run.cluster)

    def unfinished_groups(self) -> Groups:
        """Groups that a run replayed which did not end."""
        if self.is_as_left("group_state"):
            return frozenset()
        return unfinished_groups(self.warehouse, self.run.cluster, self.last.run_id)

    def sum_up(self, summary: Summary) -> None:
        """What the tables now say of the cluster's groups."""
        summary.groups = standing_groups(self.warehouse, self.run.cluster)
        summary.rebalances = self.warehouse.count("rebalances", self.run.cluster)

    def has_news(self) -> bool:
        """Whether there is anything that the derived tables do not say yet."""
        options = self.options
        asked = self.is_told_anew or options.topics or options.cluster_metadata or options.expiry != Expiry()
        # Records that the tables have and the ledger has not are what a killed run left: nothing was derived from them.
        return bool(self.has_new_positions or asked or self.is_behind)

    def count_findings(self, summary: Summary) -> None:
        """What earlier runs found, where this one had nothing to look at."""
        mine = F.col("cluster") == self.run.cluster
        for row in self.warehouse.read("findings").where(mine).groupBy("severity").count().toLocalIterator():
            summary.findings[row["severity"]] = row["count"]

    def goes_on(self) -> bool:
        """Whether the tables about offsets hold what this run's records can be added to."""
        last, made = self.last.settings, self.last.settings.get("offsets_version")
        is_whole = last.get("history_every_ms") is None and self.options.expiry.history_every_ms is None
        return is_whole and made == OFFSETS_VERSION and not (self.is_told_anew or self.is_behind or self.late)

    def restart(self, replayed: Replayed) -> Restart | None:
        """Where deriving offsets begins; None where all of them are derived anew."""
        if self.unfinished is None or has_strays(self.warehouse, self.run.cluster, self.ranges):
            return None
        anew = groups_anew(self.warehouse, self.run.cluster, replayed.anew, self.unfinished)
        return None if anew is None else restart_at(self.warehouse, self.run.cluster, self.ends, anew)

    def totals_since(self, restart: Restart | None) -> datetime | None:
        """The moment before which what earlier runs added up counts; None where nothing does."""
        if restart is None or restart.groups:
            return None
        return totals_since(self.warehouse, self.run.cluster, restart.since_us)

    def commits_may_wait(self) -> bool:
        """Whether any commit may wait for a transaction's marker, of this run or of earlier ones."""
        are_told = self.is_clean and not self.is_behind and self.warehouse.is_new("pending_offsets")
        return self.may_wait or not are_told

    def derive(self, summary: Summary, replayed: Replayed) -> None:
        """What follows from all of it: offsets and their expiry, findings, metrics."""
        self.report("deriving offset history and expiry")
        staging = self.warehouse.staging(self.run.run_id, "offsets")
        expiry, restart = self.options.expiry, self.restart(replayed)
        newest = Newest(self.end, is_end=self.was_empty)
        derived = write_offset_tables(
            self.warehouse,
            self.run.cluster,
            expiry,
            staging,
            newest=newest,
            restart=restart,
            may_wait=self.commits_may_wait(),
        )
        self.run.table_versions |= derived.versions
        self.run.notes.append(derived.said)
        if not self.was_empty:
            self.run.notes.append(f"offset history: {restart or 'derived anew from all records'}")
        if derived.end is not None:
            self.report("looking for findings")
            known = Known(
                end=derived.end,
                causes=derived.causes,
                held=derived.held,
                gaps=unread(self.ranges, self.run),
                is_damaged=self.run.table_versions["quarantine"] > 0,
                limits=self.options.thresholds,
                since=self.totals_since(restart),
                history=derived.sums,
            )
            versions, summary.findings = write_findings(self.warehouse, self.run.cluster, known, staging)
            self.run.table_versions |= versions


def _remove(uri: str) -> None:
    filesystem, path = open_filesystem(uri)
    if filesystem.get_file_info(path).type == fs.FileType.Directory:
        filesystem.delete_dir(path)
