"""The audit run: it decodes the dump, plans, and performs a list of stages. The last stage commits.

A stage is a function that turns a share of work into files (``stage``). The driver plans the shares and commits the
files. All tables are committed at the end of the run, and the ledger last. A run without a row in the ledger does not
count: the next run undoes the commits of a killed run.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from coordinator_replay.columns import plain_rows
from coordinator_replay.log.dump import TOPIC as OFFSETS_TOPIC
from coordinator_replay.log.dump import Dump, DumpFile, find_dump
from coordinator_replay.log.unchanged import unchanged
from coordinator_replay.pipeline import log_partitions
from coordinator_replay.pipeline.broker_logs import read as broker_logs
from coordinator_replay.pipeline.bucket import reasons_to_rebuild
from coordinator_replay.pipeline.findings.evidence import TOTALS
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
from coordinator_replay.pipeline.groups.replay import STATE_TABLE
from coordinator_replay.pipeline.job import Job, begin_job
from coordinator_replay.pipeline.ledger import Run
from coordinator_replay.pipeline.options import ExpiryOptions, Options, Summary
from coordinator_replay.pipeline.plan import Moves, Plan, plan_buckets, sums_range
from coordinator_replay.pipeline.read.metadata_log import MetadataFile, metadata_files, read_metadata
from coordinator_replay.pipeline.read.tally import COMMIT, RECORD, Tally
from coordinator_replay.pipeline.reading import Reading, read_dump
from coordinator_replay.pipeline.run_stages import RunStage, Topics, Work, stages_of
from coordinator_replay.pipeline.stage import Observer, SparkStages, Stages
from coordinator_replay.store.scan import read_table

__all__ = ["ExpiryOptions", "Options", "Summary", "audit", "plan_audit", "run_audit"]

_DIVISORS = ("log_partition", "hash_divisor")

Report = Callable[[str], None]
"""A function that is called with the name of each step that begins."""


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
        options: see ``audit``.
        report: see ``audit``.
        dump: see ``audit``.
        logs: see ``audit``.
        observer: called with the metrics of each finished stage.
    """
    return audit(SparkStages(spark).observed_by(observer), options, report, dump, logs)


def audit(
    stages: Stages,
    options: Options,
    report: Report = lambda _step: None,
    dump: Dump | None = None,
    logs: Sequence[DumpFile] | None = None,
) -> Summary:
    """Audit a dump into a warehouse. The caller must hold the lock of the warehouse.

    Args:
        stages: runs the stages.
        options: options of the run.
        report: called with the name of each step that begins, to show progress.
        dump: the dump of the options' inputs, if the caller has found it already.
        logs: the brokers' logs of the options, if the caller has found them already.

    Raises:
        InputError: an input is missing or is no dump.
        UsageError: the inputs can't be audited together.
        WarehouseError: the warehouse can't be used.
    """
    dump = dump or _find_dump(options, report)
    if logs is None:
        logs = broker_logs.find_logs(options.broker_logs, options.broker_log_zone)
    report("preparing the tables")
    job, run = begin_job(stages, options)
    try:
        work = _plan(job, run, dump, logs, report)
        for stage in stages_of(work):
            if stage.is_done:
                report(stage.name)
                stage.perform(work)
        return work.summary
    finally:
        job.clean_up()


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run as ``audit --plan`` shows it.

    Attributes:
        plan: the work for each bucket, and the reason.
        stages: the stages that follow the plan. Each stage says whether it runs, and why.
    """

    plan: Plan
    stages: Sequence[RunStage]


def plan_audit(
    stages: Stages, options: Options, report: Report = lambda _step: None, dump: Dump | None = None
) -> PlannedRun:
    """Return what an audit would do, and why. Read and decode the dump, but write no table.

    Args:
        stages: runs the stages.
        options: the options of the audit.
        report: called with the name of each step that begins, to show progress.
        dump: the dump of the options' inputs, if the caller has found it already.

    Raises:
        InputError: an input is missing or is no dump.
        UsageError: the inputs can't be audited together.
        WarehouseError: the warehouse can't be used.
    """
    dump = dump or _find_dump(options, report)
    logs = broker_logs.find_logs(options.broker_logs, options.broker_log_zone)
    job, run = begin_job(stages, options, is_plan=True)
    try:
        work = _plan(job, run, dump, logs, report)
        return PlannedRun(work.plan, stages_of(work))
    finally:
        job.clean_up()


def _find_dump(options: Options, report: Report) -> Dump:
    report("finding the dump")
    return find_dump(options.inputs, form=options.format, include_deleted=options.include_deleted)


def _plan(job: Job, run: Run, dump: Dump, logs: Sequence[DumpFile], report: Report) -> Work:
    """Read the dump, decide what to do with each bucket, and return the work of the run's stages."""
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
    plan = plan.rebuilding(dict(zip(buckets, reasons, strict=True)))
    limits = job.options.thresholds
    return Work(
        job=job,
        run=run,
        reading=reading,
        names=names,
        plan=plan,
        logs=logs,
        has_logs=bool(logs or job.files(broker_logs.TABLE)),
        sums=sums_range(reading.tally, job.files(TOTALS), run.log_end, is_rebuild=plan.is_rebuild, limits=limits),
        summary=Summary(run),
    )


def _find_moves(job: Job, reading: Reading, names: Topics) -> Moves:
    """Find the groups that moved to another log partition.

    Skip the search if no group can have moved. This is so if earlier runs found no move, and a single partition count
    of ``__consumer_offsets`` explains the log partitions of all groups.
    """
    rows = [row for batch in read_table(job.files(log_partitions.TABLE), _DIVISORS) for row in batch.to_pylist()]
    known = from_rows(read_table(job.files(MOVES), GroupMove._fields))
    divisors = dict(reading.tally.divisors)
    for row in rows:
        divisor = row.get("hash_divisor") or 0
        divisors[row["log_partition"]] = math.gcd(divisor, divisors.get(row["log_partition"], 0))
    # A table of an earlier release has no divisors.
    is_told = all(row.get("hash_divisor") is not None for row in rows)
    if is_told and not known and not may_have_moved(divisors):
        return Moves(divisors=divisors)
    files = [file for decoded in reading.decoded for file in decoded.files if file.what in (COMMIT, RECORD)]
    share = MovesShare(
        staged=[file.file.path for file in files],
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


def _name_topics(job: Job, tally: Tally) -> Topics:
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
        sources += topics.from_metadata(record for log in metadata for record in log.records)
    return Topics(before, topics.best_topics(sources), metadata)
