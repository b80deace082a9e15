"""The run: decode, plan, replay by bucket, explain, evaluate, commit.

Stages are functions from a share of work to files (``stage``); the driver plans shares and commits files. All commits
come at the end of the run, the ledger's last: a run that is killed leaves nothing that counts.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from coordinator_replay.analysis.findings.evaluate import FINDINGS
from coordinator_replay.columns import plain_rows
from coordinator_replay.log.dump import TOPIC as OFFSETS_TOPIC
from coordinator_replay.log.dump import Dump, DumpFile, find_dump
from coordinator_replay.log.unchanged import unchanged
from coordinator_replay.pipeline import log_partitions
from coordinator_replay.pipeline.broker_logs import read as broker_logs
from coordinator_replay.pipeline.broker_logs.rebalances import LinesContext, add_log_lines
from coordinator_replay.pipeline.bucket import BucketContext, BucketResult, reasons_to_rebuild, run_bucket
from coordinator_replay.pipeline.bucket_files import Changes, TableWriter
from coordinator_replay.pipeline.commit_sums import SumsRange
from coordinator_replay.pipeline.coordinator_changes import write_coordinator_changes
from coordinator_replay.pipeline.derived import (
    Log,
    add_up_metrics,
    count_earlier,
    count_records,
    evaluate,
    explain_tombstones,
    take_findings,
)
from coordinator_replay.pipeline.findings.evaluation import TOTALS
from coordinator_replay.pipeline.findings.news import last_reading, news_of
from coordinator_replay.pipeline.group_moves import TABLE as MOVES
from coordinator_replay.pipeline.group_moves import (
    GroupMove,
    MovesShare,
    find_moves,
    from_rows,
    may_have_moved,
    moved_note,
)
from coordinator_replay.pipeline.groups import topics
from coordinator_replay.pipeline.groups.replay import STATE_TABLE, ReplayContext
from coordinator_replay.pipeline.job import Job, begin_job
from coordinator_replay.pipeline.ledger import History, Run
from coordinator_replay.pipeline.offsets.offset_step import OffsetContext
from coordinator_replay.pipeline.options import ExpiryOptions, Options, Summary
from coordinator_replay.pipeline.plan import Moves, Plan, plan_buckets, sums_range
from coordinator_replay.pipeline.read.metadata_log import MetadataFile, leader_changes, metadata_files, read_metadata
from coordinator_replay.pipeline.read.tally import COMMIT, RECORD, Tally
from coordinator_replay.pipeline.reading import Reading, read_dump
from coordinator_replay.pipeline.rebalance_pauses import AWAITING_LOGS
from coordinator_replay.pipeline.rebalance_pauses import TABLE as REBALANCES
from coordinator_replay.pipeline.stage import Observer, SparkStages, Stages
from coordinator_replay.store.scan import read_table
from coordinator_replay.times import milliseconds

__all__ = ["ExpiryOptions", "Options", "Summary", "audit", "plan_audit", "run_audit"]

_DIVISORS = ("log_partition", "hash_divisor")

Report = Callable[[str], None]
"""Is called with the step that begins."""


@dataclass(frozen=True, slots=True)
class _Topics:
    """The cluster's topics, as earlier runs knew them and as they are known now, and the log of its metadata."""

    before: topics.ClusterTopics
    now: topics.ClusterTopics
    metadata: Sequence[MetadataFile] = ()


def run_audit(
    spark: SparkSession,
    options: Options,
    report: Report = lambda _step: None,
    dump: Dump | None = None,
    logs: Sequence[DumpFile] | None = None,
    observer: Observer = lambda _stage: None,
) -> Summary:
    """Audit a dump into a warehouse with Spark, see ``audit``.

    Args:
        spark: the session, classic or over Spark Connect.
        options: as of ``audit``.
        report: as of ``audit``.
        dump: as of ``audit``.
        logs: as of ``audit``.
        observer: is called with what each stage has read and written.
    """
    return audit(SparkStages(spark).observed_by(observer), options, report, dump, logs)


def audit(
    stages: Stages,
    options: Options,
    report: Report = lambda _step: None,
    dump: Dump | None = None,
    logs: Sequence[DumpFile] | None = None,
) -> Summary:
    """Audit a dump into a warehouse, whose lock the caller has.

    Args:
        stages: runs the stages.
        options: what to read, and where to write.
        report: is called with the step that begins, for progress.
        dump: the dump of the options' inputs, where it was looked for already.
        logs: the brokers' logs of the options, where they were looked for already.

    Raises:
        InputError: an input is missing or no dump.
        UsageError: the inputs don't go together.
        WarehouseError: the warehouse can't be used.
    """
    dump = dump or _find_dump(options, report)
    if logs is None:
        logs = broker_logs.find_logs(options.broker_logs, options.broker_log_zone)
    report("preparing the tables")
    job, run = begin_job(stages, options)
    try:
        reading, names, plan = _plan(job, run, dump, report)
        report("replaying groups and deriving offsets")
        limits = options.thresholds
        sums = sums_range(reading.tally, job.files(TOTALS), run.log_end, is_rebuild=plan.is_rebuild, limits=limits)
        has_logs = bool(logs or job.files(broker_logs.TABLE))
        results = _run_buckets(job, run, plan, names, sums, has_logs=has_logs)
        summary = Summary(run)
        count_records(results, reading.tally.records(), summary)
        summary.new_quarantined = last_reading(run, reading.history.runs).records_quarantined
        news = news_of(job.files(FINDINGS), run, reading.history.runs)
        changes = _write_topics(job, names) + _write_moves(job, plan.moves)
        if logs:
            report("reading logs of brokers")
            changes += _read_broker_logs(job, run, logs, results, reading.history)
        elections = leader_changes(names.metadata)
        read = job.uris(log_partitions.TABLE, _changes_of(results))
        written, coordinators = write_coordinator_changes(job, run, reading.tally, elections, changes, read)
        changes += written
        if plan.derives and has_logs:
            report("joining rebalances with logs of brokers")
            _add_log_lines(job, run, results, changes)
        if plan.derives and sums is not None and run.log_end is not None:
            log = Log(run.log_end, sums, names.now, reading.history, coordinators, plan.moves.now)
            report("explaining tombstones")
            causes = explain_tombstones(job, results, log, job.uris(broker_logs.TABLE, changes))
            run.notes.append(causes.retention.note)
            report("evaluating findings")
            evaluated = evaluate(job, results, causes, log, news)
            changes += take_findings(job, evaluated, log, news, summary)
            report("writing metrics")
            changes += add_up_metrics(job, results, evaluated, log, summary)
        elif not plan.derives and not options.records_only:
            count_earlier(job, summary, news)
        changes += _changes_of(results)
        summary.rebalances = job.snapshots["rebalances"].rows(options.cluster) + changes.rows("rebalances")
        report("committing")
        job.commit(run, changes)
        return summary
    finally:
        job.clean_up()


def _changes_of(results: Iterable[BucketResult]) -> Changes:
    """What becomes of the files of buckets."""
    return sum((Changes(one.files.added, one.files.removed) for one in results), Changes())


def plan_audit(stages: Stages, options: Options, report: Report = lambda _step: None, dump: Dump | None = None) -> Plan:
    """What an audit would do with each bucket, and why; no table is written.

    The dump is read and decoded for it: which records are new decides.

    Args:
        stages: runs the stages.
        options: as of the audit.
        report: is called with the step that begins, for progress.
        dump: the dump of the options' inputs, where it was looked for already.

    Raises:
        InputError: an input is missing or no dump.
        WarehouseError: the warehouse can't be used.
    """
    dump = dump or _find_dump(options, report)
    job, run = begin_job(stages, options, is_plan=True)
    try:
        return _plan(job, run, dump, report)[2]
    finally:
        job.clean_up()


def _find_dump(options: Options, report: Report) -> Dump:
    report("finding the dump")
    return find_dump(options.inputs, form=options.format, include_deleted=options.include_deleted)


def _plan(job: Job, run: Run, dump: Dump, report: Report) -> tuple[Reading, _Topics, Plan]:
    """Read the dump, and decide what becomes of each bucket."""
    run.input_form = str(dump.format)
    report("reading and decoding")
    with unchanged(dump):
        reading = read_dump(job.stages, dump, job.earlier(), folder=f"{job.place.folder}/decoded", buckets=job.buckets)
    reading.record(run)
    report("naming topics")
    names = _name_topics(job, reading.tally)
    moves = _find_moves(job, reading, names)
    if (note := moved_note(moves.now)) is not None:
        run.notes.append(note)
    plan = plan_buckets(reading, job.options, job.bucket_files(), job.buckets, moves)
    shares = plan.continuing()
    look = partial(reasons_to_rebuild, names=names.now.names, renamed=names.now.renamed(names.before))
    reasons = job.stages.run("look for reasons to rebuild buckets", shares, look)
    buckets = [share.bucket for share in shares]
    return reading, names, plan.rebuilding(dict(zip(buckets, reasons, strict=True)))


def _find_moves(job: Job, reading: Reading, names: _Topics) -> Moves:
    """The stage that looks for groups in several log partitions; only where a single number doesn't explain all."""
    rows = [row for batch in read_table(job.files(log_partitions.TABLE), _DIVISORS) for row in batch.to_pylist()]
    known = from_rows(read_table(job.files(MOVES), GroupMove._fields))
    divisors = dict(reading.tally.divisors)
    for row in rows:
        divisor = row.get("hash_divisor") or 0
        divisors[row["log_partition"]] = math.gcd(divisor, divisors.get(row["log_partition"], 0))
    # A table of an earlier release does not have them.
    is_told = all(row.get("hash_divisor") is not None for row in rows)
    if is_told and not known and not may_have_moved(divisors):
        return Moves(divisors=divisors)
    files = [file for one in reading.decoded for file in one.files if file.what in (COMMIT, RECORD)]
    share = MovesShare(
        staged=[one.file.path for one in files],
        records=[file.uri for name in ("offset_commits", "group_records") for file in job.files(name)],
        groups=[
            *(file.uri for file in job.files(STATE_TABLE)),
            *(file.uri for file in job.files("offset_history") if file.is_open),
        ],
        known=known,
        partition_count=names.now.partition_count(OFFSETS_TOPIC),
        is_all=bool(reading.lost_from) or job.options.full,
    )
    [found] = job.stages.run("find groups in several log partitions", [share], find_moves)
    for partition, divisor in found.divisors.items():
        divisors[partition] = math.gcd(divisor, divisors.get(partition, 0))
    return Moves(known, found.moves, divisors)


def _name_topics(job: Job, tally: Tally) -> _Topics:
    options = job.options
    rows = [row for batch in read_table(job.files(topics.TABLE), topics.COLUMNS) for row in plain_rows(batch)]
    before = topics.best_topics(topics.from_rows(rows))
    sources = [*before.topics.values(), *topics.from_tally(tally)]
    if options.topics is not None:
        sources += topics.from_file(options.topics)
    metadata: list[MetadataFile] = []
    if options.cluster_metadata is not None:
        files = metadata_files(options.cluster_metadata)
        metadata = job.stages.run_on_files("read cluster metadata", files, read_metadata)
        sources += topics.from_metadata(record for one in metadata for record in one.records)
    return _Topics(before, topics.best_topics(sources), metadata)


def _write_topics(job: Job, names: _Topics) -> Changes:
    if names.now == names.before:
        return Changes()
    writer = TableWriter(job.place, None)
    writer.add_rows(topics.TABLE, [topic.row() for topic in names.now.topics.values()])
    return Changes(writer.close(), job.files(topics.TABLE))


def _write_moves(job: Job, moves: Moves) -> Changes:
    if list(moves.now) == list(moves.known):
        return Changes()
    writer = TableWriter(job.place, None)
    writer.add_rows(MOVES, [move._asdict() for move in moves.now])
    return Changes(writer.close(), job.files(MOVES))


def _run_buckets(
    job: Job, run: Run, plan: Plan, names: _Topics, sums: SumsRange | None, *, has_logs: bool
) -> Sequence[BucketResult]:
    """The stage that works on each bucket."""
    options, expiry = job.options, job.options.expiry
    context = BucketContext(
        place=job.place,
        replay=ReplayContext(
            cluster=options.cluster,
            run_id=run.run_id,
            topic_names=names.now.names,
            topic_changes=names.now.changes,
            limits=options.thresholds,
        ),
        offsets=OffsetContext(
            end=run.log_end,
            sums=sums,
            as_of=expiry.as_of,
            history_every_ms=expiry.history_every_ms,
            topic_lives=names.now.lives,
        ),
        derives=plan.derives,
        has_logs=has_logs,
    )
    name = "settle records, replay groups and derive offsets by bucket"
    return job.stages.run(name, plan.shares, partial(run_bucket, context=context), lambda share: share.size)


def _read_broker_logs(
    job: Job, run: Run, logs: Sequence[DumpFile], results: Sequence[BucketResult], history: History
) -> Changes:
    """Two stages: what the logs of brokers say, and each line once."""
    full, existing = job.options.full, job.files(broker_logs.TABLE)
    removed = {file.uri for result in results for file in result.files.removed}
    staged = [file for one in results for name in AWAITING_LOGS.values() for file in one.files.staged.get(name, [])]
    context = broker_logs.LogContext(
        place=job.place,
        zone=job.options.broker_log_zone,
        rebalances=[
            *(file.uri for file in job.files(REBALANCES) if file.uri not in removed),
            *(file.path for file in staged),
        ],
        earlier={} if full else broker_logs.earlier_logs(one.broker_logs for one in history.runs),
    )
    read = partial(broker_logs.read_log, context=context)
    read_logs = job.stages.run_on_files("read logs of brokers", logs, read, lambda file: file.size)
    share = [file for one in read_logs for file in one.files]
    stored = [] if full else [file.uri for file in existing]
    merge = partial(broker_logs.merge_lines, existing=stored, place=job.place)
    merged = job.stages.run("put lines of logs together", [share] if share else [], merge)
    added = [file for files in merged for file in files]
    run.broker_logs += broker_logs.ledger_rows(read_logs)
    run.notes += broker_logs.notes(read_logs, sum(file.rows for file in added if file.table == broker_logs.TABLE))
    return Changes(added, list(existing) if full else [])


def _add_log_lines(job: Job, run: Run, results: Sequence[BucketResult], changes: Changes) -> None:
    """The stage that joins the rebalances of each bucket with the lines of brokers' logs."""
    new = [file.path for file in changes.added if file.table == broker_logs.TABLE]
    context = LinesContext(
        place=job.place,
        lines=job.uris(broker_logs.TABLE, changes),
        new=new,
        end_ms=None if run.log_end is None else milliseconds(run.log_end),
    )
    buckets = [result.files for result in results]
    joined = job.stages.run("join rebalances with logs of brokers", buckets, partial(add_log_lines, context=context))
    for bucket, files in zip(buckets, joined, strict=True):
        bucket.take(files.added)
        bucket.removed += files.removed
