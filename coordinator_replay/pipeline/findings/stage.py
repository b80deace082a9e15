"""The stage *evaluate* of a bucket. It writes expiring offsets, findings, and the input of the table ``group_metrics``.

The stage reads sums of commits, and no single commits. A group whose findings can't have changed is not evaluated
again, see ``unchanged``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.expiring import Retention
from coordinator_replay.analysis.findings.evaluate import FINDINGS, Evaluator
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.evidence_rows import FindingRow, GroupCommits
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.findings.totals import (
    GROUP,
    SUMMARIES,
    WHOLE,
    Totals,
)
from coordinator_replay.analysis.rows import encode
from coordinator_replay.completeness.spans import ExactSpan
from coordinator_replay.garbage import few_collections
from coordinator_replay.pipeline.bucket_files import BucketFiles, Place, TableWriter
from coordinator_replay.pipeline.commit_sums import (
    GROUP_SUMS,
    LOSS_SUMS,
    PARTITION_SUMS,
    PAUSE,
    PAUSES,
    REWIND_SUMS,
    SumsRange,
    pauses,
)
from coordinator_replay.pipeline.findings.evidence import (
    ENDANGERED,
    EVIDENCE,
    EXPIRED,
    OFFSETS,
    OWNERSHIP,
    PENDING,
    QUARANTINE,
    REMOVED,
    RULES,
    STALLS,
    TOTALS,
    UNCOMMITTED,
    Chunk,
    GroupEvidence,
    by_group,
    chunks,
)
from coordinator_replay.pipeline.findings.metrics import happened_rows, minute_steps
from coordinator_replay.pipeline.findings.news import FOUND_IN_RUN, News
from coordinator_replay.pipeline.findings.statements import (
    endangered_offsets,
    expected_offsets,
    long_transactions,
    stalls,
    uncommitted_partitions,
    unreadable_records,
)
from coordinator_replay.pipeline.findings.unchanged import (
    CONDITIONS,
    EVALUATED,
    conditions_row,
    conditions_text,
    evaluated_row,
    evidence_hashes,
    last_evaluation,
    unchanged_groups,
)
from coordinator_replay.pipeline.guard import GroupGuard
from coordinator_replay.pipeline.interval_rows import OPEN_ROWS, STAGED
from coordinator_replay.pipeline.log_partitions import exact_spans
from coordinator_replay.pipeline.minute_states import STATES
from coordinator_replay.records.damage import ErrorClass
from coordinator_replay.store.scan import read_paths, rows_of
from coordinator_replay.store.writer import DataFile, conform
from coordinator_replay.tables.definition import table
from coordinator_replay.times import milliseconds

STEP_ROWS = "metric_steps"
"""Staged steps of the metrics, with the columns of STEPS."""

_READ = {
    EVIDENCE: (*STATES.names, "detail"),
    TOTALS: ("group_id", "what", "topic", "partition", "sums"),
    OFFSETS: ("group_id", "topic", "partition", "is_exact"),
    EXPIRED: (
        *("group_id", "topic", "partition", "status", "rule", "confidence", "last_owner_member_id", "tombstone_at"),
        *("tombstone_offset", "expire_at", "is_exact"),
    ),
    REMOVED: ("group_id", "ended_by", "valid_to"),
    PENDING: (
        *("group_id", "topic", "log_partition", "producer_id", "producer_epoch", "from_offset", "to_offset"),
        *("ended_by", "pending_since", "valid_to", "is_exact"),
    ),
    OWNERSHIP: (
        *("group_id", "topic", "partition", "member_id", "log_partition", "owned_from", "owned_to", "from_offset"),
        *("to_offset", "is_exact"),
    ),
    RULES: (
        *("group_id", "group_state", "log_partition", "log_offset", "log_timestamp", "rule", "base_timestamp"),
        "spared_topics",
    ),
    QUARANTINE: ("group_id", "log_partition", "log_offset", "log_timestamp", "error_class", "error_message"),
}
"""Columns to read, by table. The tables have groups' own evidence, sums of commits of earlier runs, current offsets,
offsets that retention removes, tombstones, commits that waited for a marker, owners, changes of expiry rules, and
quarantined records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationContext:
    """Values of a run that the evaluation of each bucket needs.

    Attributes:
        place: the folders for the rows that are written.
        end: the latest timestamp of a record of the log.
        sums: the time range of the commits that the run has added up, and the thresholds of their sums.
        limits: the thresholds of findings.
        retention: the retention of offsets.
        as_of: the time at which the ages of offsets are compared with the retention.
        horizon_ms: how long after ``as_of`` an offset may expire to be reported, in milliseconds.
        news: the facts that decide which findings are new.
        moved: groups that have records in several log partitions.
    """

    place: Place
    end: datetime
    sums: SumsRange
    limits: Thresholds
    retention: Retention
    as_of: datetime
    horizon_ms: int
    news: News
    moved: Sequence[str] = ()

    def evaluator(
        self, group_id: str, commits: GroupCommits | None = None, spans: Sequence[ExactSpan] = ()
    ) -> Evaluator:
        """Return an object that finds the findings of a group.

        Args:
            group_id: the group; empty for findings that are about no group.
            commits: sums of the group's commits; None if the group has no commits.
            spans: the time ranges in which no record is missing, for each log partition that lacks some records.
        """
        return Evaluator(self.place.cluster, group_id, milliseconds(self.end), self.limits, commits, spans)


@dataclass(slots=True)
class EvaluationResult:
    """Result of the evaluation of a bucket.

    Attributes:
        files: written files of tables, and staged files.
        severities: the number of findings, by severity.
        new: the number of new findings, by severity.
        causes: the number of rebalances in the tables, by cause.
        expired: the number of offsets that expired, are past retention, or will soon expire, by status.
        failed: groups that could not be evaluated.
    """

    files: list[DataFile] = field(default_factory=list)
    severities: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)


def text_counts(batches: Iterable[pa.RecordBatch | pa.Table], column: str) -> Counter[str]:
    """Return how often each text occurs in a column.

    Nulls do not count.
    """
    counts: Counter[str] = Counter()
    for batch in batches:
        for count in pc.value_counts(batch.column(column).cast(pa.string())).to_pylist():
            if count["values"] is not None:
                counts[count["values"]] += count["counts"]
    return counts


def _schema(name: str) -> pa.Schema:
    """Return the columns that are read from a table, as an Arrow schema with times as microseconds."""
    columns = table(name).arrow_schema(_READ[name]).remove_metadata()
    return pa.schema(
        [column.with_type(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    )


_NEW_SUMS = (GROUP_SUMS, PARTITION_SUMS, REWIND_SUMS, LOSS_SUMS)
"""Sources with sums of the commits of this run."""


class Evaluation:
    """The search for findings of one bucket.

    Args:
        files: the files of the bucket, including those that earlier stages wrote.
        context: values of the run that are the same for each bucket.
    """

    def __init__(self, files: BucketFiles, context: EvaluationContext) -> None:
        self.files = files
        self.context = context
        self.writer = TableWriter(context.place, files.bucket)
        self.found = TableWriter(context.place, files.bucket)
        self.spans = exact_spans(files)
        self.conditions = conditions_text(context.limits, context.retention, context.horizon_ms, self.spans)
        self.totals = self._stored_totals()
        self.last = last_evaluation(self.totals)
        self.earlier = None if files.is_rebuild else self.last.findings(context.news.earlier)
        self.first_runs = context.news.first_runs(None if context.moved else self.earlier)
        self.hashes: dict[str, str] = {}
        self.result = EvaluationResult()

    def run(self) -> EvaluationResult:
        """Write expiring offsets, findings and sums of commits. Stage the input of the table ``group_metrics``."""
        context = self.context
        expected = expected_offsets(self._opened(), context.retention, context.as_of, context.horizon_ms)
        for batch in expected.to_batches():
            self.writer.add(EXPIRED, batch, is_open=True)
        pending = self._rows(PENDING)
        sources = self._sources(expected, pending)
        self.result.expired = text_counts([sources[EXPIRED]], "status")
        self.result.causes = text_counts(
            read_paths(self.files.uris("rebalances"), ["cause"], dictionaries=["cause"]), "cause"
        )
        # Only the metrics need the tombstones: the rules see expired offsets.
        happened = happened_rows(
            sources.pop(REMOVED),
            sources[EVIDENCE],
            sources.get(GROUP_SUMS),
            sources[TOTALS],
            sources[OFFSETS],
            pending,
        )
        for steps in minute_steps(sources[EVIDENCE], happened).to_batches():
            self.writer.stage(STEP_ROWS, steps)
        with few_collections():
            for chunk in chunks(self._due(sources)):
                self._evaluate_chunk(chunk)
        self._evaluate_quarantine()
        self._close()
        return self.result

    def _close(self) -> None:
        """Finish all files of the bucket. Store the options and versions on which its findings depend."""
        found = self.found.close()
        names = [file.path for file in found]
        self._keep(
            [("", CONDITIONS, None, None, conditions_row(self.conditions, milliseconds(self.context.end), names))]
        )
        self.result.files = [*found, *self.writer.close()]

    def _due(self, sources: dict[str, pa.Table]) -> dict[str, pa.Table]:
        """Return the evidence about groups whose findings may have changed. Keep the findings of all other groups.

        Args:
            sources: the evidence about all groups, by source.
        """
        hashes = evidence_hashes(sources)
        self.hashes = dict(zip(*(column.to_pylist() for column in hashes.columns), strict=True))
        end_ms = milliseconds(self.context.end)
        is_comparable = self.context.sums.since is not None and not self.files.is_rebuild
        is_comparable &= self.last.conditions == self.conditions and end_ms >= self.last.end_ms
        if not is_comparable or self.earlier is None:
            return sources
        added = (pc.unique(rows.column("group_id")).to_pylist() for name, rows in sources.items() if name in _NEW_SUMS)
        unchanged = unchanged_groups(self.last, hashes, end_ms, chain(self.context.moved, *added))
        self._keep_unchanged(unchanged, self.earlier)
        of_unchanged = pc.SetLookupOptions(unchanged)
        return {
            name: rows.filter(pc.invert(pc.is_in(rows.column("group_id"), options=of_unchanged)))
            for name, rows in sources.items()
        }

    def _keep_unchanged(self, unchanged: pa.Array, earlier: Sequence[str]) -> None:
        """Keep the stored findings and the sums of groups that are not evaluated again: write them to this run's files.

        Args:
            unchanged: ids of the groups.
            earlier: files with the bucket's findings.
        """
        schema = table(FINDINGS).file_schema().remove_metadata()
        for batch in read_paths(earlier, schema.names, pc.field("group_id").isin(unchanged)):
            rows = conform(batch, schema)
            self.result.severities += text_counts([rows], "severity")
            self.result.new += self.context.news.count(rows.select(["severity", FOUND_IN_RUN]).to_pylist())
            self.found.add(FINDINGS, rows)
        schema = table(TOTALS).arrow_schema([*_READ[TOTALS], "until"])
        kept = self.totals.filter(pc.is_in(self.totals.column("group_id"), options=pc.SetLookupOptions(unchanged)))
        for batch in kept.filter(pc.not_equal(kept.column("what"), CONDITIONS)).to_batches():
            self.writer.add(TOTALS, conform(batch, schema, until=self.context.sums.until))

    def _opened(self) -> pa.Table:
        """Return offsets that are current at the end of the log, with the columns of STAGED."""
        uris = [file.path for file in self.files.staged.get(OPEN_ROWS, [])]
        return pa.Table.from_batches(read_paths(uris, STAGED.names), STAGED)

    def _sources(self, expected: pa.Table, pending: pa.Table) -> dict[str, pa.Table]:
        """Return the rows from which evidence is made, by source.

        Args:
            expected: offsets that are past retention now or will soon expire, see ``expected_offsets``.
            pending: rows of ``pending_offsets``.
        """
        end, limits, context = self.context.end, self.context.limits, self.context
        staged = {
            name: [*read_paths((file.path for file in self.files.staged.get(name, ())), None)] for name in _NEW_SUMS
        }
        new = {name: pa.Table.from_batches(batches) for name, batches in staged.items() if batches}
        opened = self._intervals(OFFSETS, pc.field("to_offset").is_null())
        removed = self._intervals(REMOVED)
        totals, paused, ownership = self._totals(), self._pauses(opened, removed), self._rows(OWNERSHIP)
        return {
            EVIDENCE: self._table(EVIDENCE),
            **new,
            TOTALS: totals,
            STALLS: stalls(paused, ownership, end, limits),
            ENDANGERED: endangered_offsets(
                paused, self._rows(RULES), context.retention, context.horizon_ms, end, limits
            ),
            UNCOMMITTED: uncommitted_partitions(new.get(PARTITION_SUMS), totals, ownership, limits),
            OFFSETS: rows_of(opened, _schema(OFFSETS)),
            PENDING: long_transactions(pending, end, limits),
            EXPIRED: pa.concat_tables([rows_of(expected.to_batches(), _schema(EXPIRED)), self._table(EXPIRED)]),
            REMOVED: rows_of(removed, _schema(REMOVED)),
        }

    def _table(self, name: str) -> pa.Table:
        return rows_of(read_paths(self.files.uris(name), _READ[name]), _schema(name))

    def _intervals(self, name: str, where: Any = None) -> list[pa.RecordBatch]:
        """Read rows of a table of offsets, with the columns that show how long each offset stayed current.

        Args:
            name: ``offset_history`` or ``removed_offsets``.
            where: a condition on rows; None for all rows.
        """
        return [*read_paths(self.files.uris(name), [*PAUSE.names, "is_exact"], where)]

    def _stored_totals(self) -> pa.Table:
        """Return all rows of ``commit_totals`` that the last run has stored."""
        uris = [file.uri for file in self.files.old(TOTALS)]
        return rows_of(read_paths(uris, _READ[TOTALS]), _schema(TOTALS))

    def _totals(self) -> pa.Table:
        """Return the sums of commits from earlier runs that are still valid."""
        kept = [GROUP.name] if self.context.sums.since is not None else []
        kept += [] if self.files.is_rebuild else [name for name in SUMMARIES if name != GROUP.name]
        is_kept = pc.is_in(self.totals.column("what"), options=pc.SetLookupOptions(pa.array(kept, pa.string())))
        return self.totals.filter(is_kept)

    def _pauses(self, opened: Iterable[pa.RecordBatch], removed: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return offsets that stayed current for at least ``limits.pause_ms``.

        Args:
            opened: offsets that are current at the end of the log.
            removed: offsets that a tombstone removed.
        """
        limit, end = self.context.limits.pause_ms, self.context.end
        ended = read_paths((file.path for file in self.files.staged.get(PAUSES, ())), PAUSE.names)
        rows = [*ended, *(pauses(batch, limit, end) for batch in (*opened, *removed))]
        return pa.Table.from_batches([conform(batch, PAUSE) for batch in rows], PAUSE)

    def _rows(self, name: str) -> pa.Table:
        """Return the bucket's rows of a table. Times are Arrow timestamps, not integers as in ``_table``."""
        schema = table(name).arrow_schema(_READ[name]).remove_metadata()
        return rows_of(read_paths(self.files.uris(name), schema.names), schema)

    def _evaluate_chunk(self, chunk: Chunk) -> None:
        """Find and write the findings of the groups of a chunk. Write the groups' sums of commits for the next run."""
        kept: list[tuple[str | int | None, ...]] = []
        for group_id, evidence in by_group(chunk).items():
            totals = evidence.totals(self.context.limits)
            evaluated = self._evaluate_group(group_id, evidence, totals)
            if evaluated is not None:
                kept.append((group_id, EVALUATED, None, None, evaluated))
            for what, key, sums in totals.kept():
                kept.append((group_id, what, *((None, None) if key == WHOLE else key), encode(sums)))
        self._keep(kept)

    def _evaluate_group(self, group_id: str, evidence: GroupEvidence, totals: Totals) -> str | None:
        """Find and write the findings of a group.

        Return a text to store for the next run (``evaluated_row``); None if the group could not be evaluated.

        Args:
            group_id: the group.
            evidence: the evidence about the group.
            totals: the sums of its commits.
        """
        guard, is_replayed = GroupGuard("evaluating findings"), True
        findings: list[FindingRow] = []
        changes_at_ms: int | None = None
        with guard:
            evaluator = self.context.evaluator(group_id, totals.commits(), self.spans)
            for row in evidence.ordered(totals):
                is_replayed &= row.tag != Evidence.FAILURE
                findings += evaluator.add(row.tag, row.content)
            findings += evaluator.finish()
            changes_at_ms = evaluator.changes_at_ms
        if findings:
            self._find(findings)
        if guard.failure is not None:
            self._find(self.context.evaluator(group_id).add(Evidence.FAILURE, guard.failure.evidence()))
        if guard.failure is not None or not is_replayed:
            self.result.failed.append(group_id)
            return None
        return evaluated_row(self.hashes.get(group_id, ""), changes_at_ms)

    def _evaluate_quarantine(self) -> None:
        """Write findings about unreadable records, by log partition and error."""
        unreadable = unreadable_records(self._rows(QUARANTINE))
        evaluator = self.context.evaluator("")
        for row in unreadable.to_pylist():
            is_unknown = row["error_class"] == ErrorClass.UNKNOWN_RECORD_TYPE
            self._find(evaluator.add(Evidence.UNKNOWN_KIND if is_unknown else Evidence.UNREADABLE, row))

    def _find(self, findings: Iterable[FindingRow]) -> None:
        dated = self.context.news.dated(findings, self.first_runs)
        self.result.new += self.context.news.count(dated)
        self.result.severities.update(finding["severity"] for finding in dated)
        self.found.add_rows(FINDINGS, dated)

    def _keep(self, totals: Sequence[tuple[str | int | None, ...]]) -> None:
        """Write rows of ``commit_totals``, which the next run reads.

        Args:
            totals: the rows, with the columns what, group_id and sums.
        """
        if totals:
            schema = table(TOTALS).arrow_schema([*_READ[TOTALS], "until"])
            rows = pa.RecordBatch.from_arrays([*map(pa.array, zip(*totals, strict=True))], _READ[TOTALS])
            self.writer.add(TOTALS, conform(rows, schema, until=self.context.sums.until))


def evaluate_bucket(files: BucketFiles, context: EvaluationContext) -> EvaluationResult:
    """Find and write the findings of a bucket. This is a stage of the run.

    Args:
        files: the files of the bucket, including those that earlier stages wrote.
        context: values of the run that are the same for each bucket.
    """
    return Evaluation(files, context).run()
