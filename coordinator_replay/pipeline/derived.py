"""The stages that need the results of all buckets: causes of removed offsets, expiring offsets, findings, metrics."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from coordinator_replay.analysis.coordinator_changes import CoordinatorChange
from coordinator_replay.analysis.findings.evaluate import FINDINGS, Evaluator
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.evidence_rows import Content, Loading, LogRange
from coordinator_replay.analysis.reasons.topic_changes import REMOVED as TOPIC_REMOVED
from coordinator_replay.pipeline.bucket import BucketResult
from coordinator_replay.pipeline.bucket_files import Changes, TableWriter
from coordinator_replay.pipeline.commit_sums import MINUTE_SUMS, SumsRange
from coordinator_replay.pipeline.findings.evidence import TOTALS
from coordinator_replay.pipeline.findings.metrics import METRICS, MetricsShare, last_groups, write_metrics
from coordinator_replay.pipeline.findings.news import News
from coordinator_replay.pipeline.findings.stage import (
    STEP_ROWS,
    EvaluationContext,
    EvaluationResult,
    evaluate_bucket,
    text_counts,
)
from coordinator_replay.pipeline.group_moves import GroupMove, evidence_of
from coordinator_replay.pipeline.groups.topics import ClusterTopics
from coordinator_replay.pipeline.interval_rows import REMOVED_ROWS
from coordinator_replay.pipeline.job import Job
from coordinator_replay.pipeline.ledger import History, Run, lost_ranges, unread
from coordinator_replay.pipeline.offsets.causes import (
    COMMITS,
    GROUP_RECORDS,
    REBALANCES,
    REMOVED,
    CausesResult,
    CausesShare,
    find_causes,
)
from coordinator_replay.pipeline.offsets.offset_step import SURVIVOR_ROWS
from coordinator_replay.pipeline.options import Summary
from coordinator_replay.pipeline.read.tally import CONTROL, QUARANTINE
from coordinator_replay.store.scan import read_table
from coordinator_replay.times import milliseconds


@dataclass(frozen=True, slots=True)
class Log:
    """Facts about all log partitions of a cluster, known when every bucket is done.

    Attributes:
        end: the latest timestamp of a record.
        sums: the time range of the commits that the run has added up, and the thresholds of their sums.
        topics: the cluster's topics.
        history: the finished runs over the cluster.
        coordinators: changes of the coordinators of the log partitions.
        moves: moves of groups to other log partitions.
    """

    end: datetime
    sums: SumsRange
    topics: ClusterTopics
    history: History
    coordinators: Sequence[CoordinatorChange]
    moves: Sequence[GroupMove] = ()


def explain_tombstones(job: Job, results: Sequence[BucketResult], log: Log, lines: Sequence[str]) -> CausesResult:
    """Run the stage that finds why offsets were removed, and return its result.

    Args:
        job: the job of the run.
        results: results of the buckets.
        log: facts about all log partitions of the cluster.
        lines: paths of the files of the table ``broker_log``.
    """
    expiry = job.options.expiry
    share = CausesShare(
        removed=[file.path for result in results for file in result.files.staged.get(REMOVED_ROWS, [])],
        closed=[uri for result in results for uri in result.files.uris(REMOVED)],
        deletions=[
            (name, change.at_ms)
            for name, changes in log.topics.changes.items()
            for change in changes
            if change.change == TOPIC_REMOVED
        ],
        coordinators=[
            (coordinator.log_partition, coordinator.elected_at, coordinator.leader_epoch, coordinator.is_exact)
            for coordinator in log.coordinators
            if coordinator.elected_at is not None
        ],
        rebalances=[uri for result in results for uri in result.files.uris(REBALANCES)],
        lines=lines,
        commits=[uri for result in results for uri in result.files.uris(COMMITS)] if lines else [],
        group_records=[uri for result in results for uri in result.files.uris(GROUP_RECORDS)] if lines else [],
        survivors=[file.path for result in results for file in result.files.staged.get(SURVIVOR_ROWS, [])],
        retention_ms=expiry.retention_ms,
        end=log.end,
        as_of=expiry.as_of,
        place=job.place,
        buckets=job.buckets,
    )
    [causes] = job.stages.run("explain tombstones", [share], find_causes)
    by_bucket = {result.files.bucket: result.files for result in results}
    for file in causes.files:
        by_bucket[int(dict(file.partition)["bucket"] or 0)].added.append(file)
    return causes


def evaluate(
    job: Job, results: Sequence[BucketResult], causes: CausesResult, log: Log, news: News
) -> list[EvaluationResult]:
    """Run the stage that finds the findings of each bucket, and return the results of all buckets."""
    expiry = job.options.expiry
    context = EvaluationContext(
        place=job.place,
        end=log.end,
        sums=log.sums,
        limits=job.options.thresholds,
        retention=causes.retention,
        as_of=expiry.as_of or log.end,
        horizon_ms=expiry.horizon_ms,
        news=news,
        moved=sorted({move.group_id for move in log.moves}),
    )
    buckets = [result.files for result in results]
    return job.stages.run("evaluate findings by bucket", buckets, partial(evaluate_bucket, context=context))


def add_up_metrics(
    job: Job, results: Sequence[BucketResult], evaluated: Sequence[EvaluationResult], log: Log, summary: Summary
) -> Changes:
    """Run the stage that adds up the metrics of all buckets, minute by minute.

    Set ``summary.groups``, and return the added and removed files of ``group_metrics``.
    """
    share = MetricsShare(
        steps=[file.path for step in evaluated for file in step.files if file.part == STEP_ROWS],
        minutes=[file.path for result in results for file in result.files.staged.get(MINUTE_SUMS, [])],
        earlier=[file.uri for file in job.files(METRICS)],
        since=log.sums.since,
        place=job.place,
    )
    [metrics] = job.stages.run("add up metrics", [share], write_metrics)
    summary.groups = metrics.groups
    return Changes(list(metrics.files), job.files(METRICS))


def take_findings(job: Job, evaluated: Sequence[EvaluationResult], log: Log, news: News, summary: Summary) -> Changes:
    """Count the findings of all buckets, and write the findings that are about no single group.

    These are about log offsets that were not read or were lost, slow loading of groups, and groups that moved.

    Returns:
        The changes of the tables, including the files that the buckets have written.
    """
    run = summary.run
    for step in evaluated:
        summary.findings.update(step.severities)
        summary.new_findings.update(step.new)
        summary.causes.update(step.causes)
        summary.expired.update(step.expired)
        run.fail(step.failed)
    evaluator = Evaluator(run.cluster, "", milliseconds(log.end), job.options.thresholds)
    writer = TableWriter(job.place, None)
    first_runs = news.first_runs()
    for kind, evidence in _of_log(run, log):
        rows = news.dated(evaluator.add(kind, evidence), first_runs)
        summary.new_findings.update(news.count(rows))
        summary.findings.update(row["severity"] for row in rows)
        writer.add_rows(FINDINGS, rows)
    added = [file for step in evaluated for file in step.files if file.table is not None]
    return Changes([*added, *writer.close()], [*job.files(FINDINGS), *job.files(TOTALS)])


def _of_log(run: Run, log: Log) -> Iterator[tuple[Evidence, Content]]:
    """Yield the evidence for findings that are about no single group, as kind and content.

    Args:
        run: this run.
        log: facts about the cluster, with the earlier runs.
    """
    gaps, lost = unread(log.history.ranges, run), lost_ranges([run, *log.history.runs])
    for kind, ranges in ((Evidence.GAP, gaps), (Evidence.LOST, lost)):
        for log_partition, low, high in ranges:
            log_range: LogRange = {"log_partition": log_partition, "from_offset": low, "to_offset": high}
            yield kind, log_range
    for change in log.coordinators:
        if change.loaded_at is not None:
            loading: Loading = {
                "log_partition": change.log_partition,
                "leader_epoch": change.leader_epoch,
                "broker": change.broker,
                "loading_ms": change.loading_ms,
                "loaded_at": change.loaded_at,
                "sources": list(change.sources),
            }
            yield Evidence.LOADING, loading
    if log.moves:
        yield Evidence.MOVED, evidence_of(log.moves)


def count_earlier(job: Job, summary: Summary, news: News) -> None:
    """Count the findings, causes, expired offsets and groups in the tables, and write the numbers to the summary.

    Only a run that changes no findings needs this.
    """
    summary.new_findings.update(news.count_earlier())
    for name, column, counts in (
        (FINDINGS, "severity", summary.findings),
        ("rebalances", "cause", summary.causes),
        ("expired_offsets", "status", summary.expired),
    ):
        counts.update(text_counts(read_table(job.files(name), [column], dictionaries=[column]), column))
    summary.groups = last_groups(job.files(METRICS))


def count_records(results: Sequence[BucketResult], records_read: int, summary: Summary) -> None:
    """Count the records of all buckets in the summary, and check that no record is left out.

    Raises:
        CoordinatorReplayError: the counts do not add up to ``records_read``.
    """
    run = summary.run
    run.records_read = records_read
    kinds: dict[str, Counter[str]] = {QUARANTINE: summary.quarantined, CONTROL: Counter()}
    for result in results:
        counts = result.deduplicated
        run.duplicates_dropped += counts.duplicates
        run.already_audited += counts.already
        for what, records in counts.written.items():
            if what == QUARANTINE:
                run.records_quarantined += records
            elif what == CONTROL:
                run.control_records += records
            else:
                run.records_decoded += records
        for (what, kind), records in counts.kinds.items():
            kinds.get(what, summary.kinds)[kind or ""] += records
        run.positions.update(counts.positions)
    run.check()
