"""The list of a run's stages: for each stage, its function, whether the run performs the stage, and why.

``stages_of`` makes the list from the plan and the options, before the work on the first bucket begins. A run performs
the stages of the list. ``audit --plan`` only prints the list.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from coordinator_replay.analysis.coordinator_changes import CoordinatorChange
from coordinator_replay.analysis.findings.evaluate import FINDINGS
from coordinator_replay.log.dump import DumpFile
from coordinator_replay.pipeline import log_partitions
from coordinator_replay.pipeline.broker_logs import read as broker_logs
from coordinator_replay.pipeline.broker_logs.rebalances import LinesContext, add_log_lines
from coordinator_replay.pipeline.bucket import BucketContext, BucketResult, run_bucket
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
from coordinator_replay.pipeline.findings.news import News, last_reading, news_of
from coordinator_replay.pipeline.findings.stage import EvaluationResult
from coordinator_replay.pipeline.group_moves import TABLE as MOVES
from coordinator_replay.pipeline.groups import topics
from coordinator_replay.pipeline.groups.replay import ReplayContext
from coordinator_replay.pipeline.job import Job
from coordinator_replay.pipeline.ledger import Run
from coordinator_replay.pipeline.offsets.causes import CausesResult
from coordinator_replay.pipeline.offsets.offset_step import OffsetContext
from coordinator_replay.pipeline.options import Summary
from coordinator_replay.pipeline.plan import Plan
from coordinator_replay.pipeline.read.metadata_log import MetadataFile, leader_changes
from coordinator_replay.pipeline.reading import Reading
from coordinator_replay.pipeline.rebalance_pauses import AWAITING_LOGS
from coordinator_replay.pipeline.rebalance_pauses import TABLE as REBALANCES
from coordinator_replay.times import milliseconds

COUNTED_EARLIER = "counting what earlier runs found"


@dataclass(frozen=True, slots=True)
class Topics:
    """The cluster's topics before and after this run's input, and the files of the cluster's metadata log."""

    before: topics.ClusterTopics
    now: topics.ClusterTopics
    metadata: Sequence[MetadataFile] = ()


@dataclass(slots=True, kw_only=True)
class Work:
    """The facts of a run that are known once its buckets are planned, and the results of its stages so far.

    Attributes:
        has_logs: whether this run has brokers' logs, or the tables have lines of such logs.
        sums: the time range of the commits that this run adds up, and the thresholds of their sums. None if no record
            has a time.
        results: results of the buckets.
        changes: files that tables gain and lose, except the files of buckets.
    """

    job: Job
    run: Run
    reading: Reading
    names: Topics
    plan: Plan
    logs: Sequence[DumpFile]
    has_logs: bool
    sums: SumsRange | None
    summary: Summary
    results: Sequence[BucketResult] = ()
    changes: Changes = field(default_factory=Changes)
    coordinators: Sequence[CoordinatorChange] = ()
    causes: CausesResult | None = None
    evaluated: Sequence[EvaluationResult] = ()

    @property
    def news(self) -> News:
        """Return the facts that decide which findings are new. Call this only after the run has counted its records."""
        return news_of(self.job.files(FINDINGS), self.run, self.reading.history.runs)

    @property
    def log(self) -> Log:
        """Return facts about all log partitions of the cluster.

        Raises:
            LookupError: no record of the log has a time.
        """
        if self.sums is None or self.run.log_end is None:
            raise LookupError("no record of the log has a time")
        history = self.reading.history
        return Log(self.run.log_end, self.sums, self.names.now, history, self.coordinators, self.plan.moves.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStage:
    """A stage of a run.

    Attributes:
        name: name of the stage in the progress display.
        perform: the function that does the work of the stage.
        is_done: whether the run performs the stage; if not, the run skips it.
        why: a clause on why the run performs or skips the stage.
    """

    name: str
    perform: Callable[[Work], None]
    is_done: bool = True
    why: str


def stages_of(work: Work) -> list[RunStage]:
    """Return the stages that follow the plan, in the order in which they run.

    Args:
        work: the run, after its buckets were planned.
    """
    plan, options = work.plan, work.job.options
    why_derived, derives = _why_derived(work)
    rebuilt = sum(share.is_rebuild for share in plan.shares)
    buckets = f"{len(plan.shares) - rebuilt} continue, {rebuilt} are rebuilt" if plan.shares else "no bucket changes"
    joins = plan.derives and work.has_logs
    counts = not plan.derives and not options.records_only
    return [
        RunStage(name="replaying groups and deriving offsets", perform=_work_on_buckets, why=buckets),
        RunStage(
            name="writing topics and moves of groups",
            perform=_write_names,
            is_done=_has_new_topics(work) or _has_new_moves(work),
            why="some are new" if _has_new_topics(work) or _has_new_moves(work) else "none is new",
        ),
        RunStage(
            name="reading logs of brokers",
            perform=_read_broker_logs,
            is_done=bool(work.logs),
            why="--broker-log is given" if work.logs else "no --broker-log is given",
        ),
        RunStage(
            name="following coordinators",
            perform=_follow_coordinators,
            why="leader epochs, cluster metadata and logs may show new ones",
        ),
        RunStage(
            name="joining rebalances with logs of brokers",
            perform=_add_log_lines,
            is_done=joins,
            why="lines of logs may explain rebalances" if joins else _why_not(work, "no log of a broker was ever read"),
        ),
        RunStage(name="explaining tombstones", perform=_explain_tombstones, is_done=derives, why=why_derived),
        RunStage(name="evaluating findings", perform=_evaluate, is_done=derives, why=why_derived),
        RunStage(name="writing metrics", perform=_write_metrics, is_done=derives, why=why_derived),
        RunStage(
            name=COUNTED_EARLIER,
            perform=_count_earlier,
            is_done=counts,
            why="this run evaluates no findings"
            if counts
            else "this run evaluates the findings itself"
            if plan.derives
            else "--records-only",
        ),
        RunStage(name="committing", perform=_commit, why="the ledger gets a row for every run"),
    ]


def _why_derived(work: Work) -> tuple[str, bool]:
    """Return whether the run performs the stages that need the results of all buckets, and why."""
    if not work.plan.derives:
        return _why_not(work, ""), False
    if work.sums is None or work.run.log_end is None:
        return "no record of the log has a time", False
    return "the derived tables do not have all results yet", True


def _why_not(work: Work, otherwise: str) -> str:
    if work.plan.derives:
        return otherwise
    return "--records-only" if work.job.options.records_only else "no new records"


def _work_on_buckets(work: Work) -> None:
    work.results = _run_buckets(work)
    count_records(work.results, work.reading.tally.records(), work.summary)
    work.summary.new_quarantined = last_reading(work.run, work.reading.history.runs).records_quarantined


def _write_names(work: Work) -> None:
    work.changes += _write_topics(work) + _write_moves(work)


def _follow_coordinators(work: Work) -> None:
    job = work.job
    elections = leader_changes(work.names.metadata)
    read = job.uris(log_partitions.TABLE, _changes_of(work.results))
    written, work.coordinators = write_coordinator_changes(
        job, work.run, work.reading.tally, elections, work.changes, read
    )
    work.changes += written


def _explain_tombstones(work: Work) -> None:
    work.causes = explain_tombstones(work.job, work.results, work.log, work.job.uris(broker_logs.TABLE, work.changes))
    work.run.notes.append(work.causes.retention.note)


def _evaluate(work: Work) -> None:
    if work.causes is not None:
        work.evaluated = evaluate(work.job, work.results, work.causes, work.log, work.news)
        work.changes += take_findings(work.job, work.evaluated, work.log, work.news, work.summary)


def _write_metrics(work: Work) -> None:
    work.changes += add_up_metrics(work.job, work.results, work.evaluated, work.log, work.summary)


def _count_earlier(work: Work) -> None:
    count_earlier(work.job, work.summary, work.news)


def _commit(work: Work) -> None:
    job = work.job
    work.changes += _changes_of(work.results)
    work.summary.rebalances = job.snapshots["rebalances"].rows(job.options.cluster) + work.changes.rows("rebalances")
    if (note := job.upkeep_note(work.changes)) is not None:
        work.run.notes.append(note)
    job.commit(work.run, work.changes)


def _changes_of(results: Iterable[BucketResult]) -> Changes:
    """Return the added and removed files of buckets."""
    return sum((Changes(result.files.added, result.files.removed) for result in results), Changes())


def _has_new_topics(work: Work) -> bool:
    return work.names.now != work.names.before


def _write_topics(work: Work) -> Changes:
    if not _has_new_topics(work):
        return Changes()
    job, names = work.job, work.names
    writer = TableWriter(job.place, None)
    writer.add_rows(topics.TABLE, [topic.row() for topic in names.now.topics.values()])
    return Changes(writer.close(), job.files(topics.TABLE))


def _has_new_moves(work: Work) -> bool:
    return list(work.plan.moves.now) != list(work.plan.moves.known)


def _write_moves(work: Work) -> Changes:
    if not _has_new_moves(work):
        return Changes()
    job, moves = work.job, work.plan.moves
    writer = TableWriter(job.place, None)
    writer.add_rows(MOVES, [move._asdict() for move in moves.now])
    return Changes(writer.close(), job.files(MOVES))


def _run_buckets(work: Work) -> Sequence[BucketResult]:
    """Run the stage that works on each bucket."""
    job, run, plan, names = work.job, work.run, work.plan, work.names
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
            sums=work.sums,
            as_of=expiry.as_of,
            history_every_ms=expiry.history_every_ms,
            topic_lives=names.now.lives,
        ),
        derives=plan.derives,
        has_logs=work.has_logs,
    )
    name = "deduplicate records, replay groups and derive offsets by bucket"
    return job.stages.run(name, plan.shares, partial(run_bucket, context=context), lambda share: share.size)


def _read_broker_logs(work: Work) -> None:
    """Run the two stages that read the brokers' logs and merge their lines."""
    job, run, results = work.job, work.run, work.results
    full, existing = job.options.full, job.files(broker_logs.TABLE)
    removed = {file.uri for result in results for file in result.files.removed}
    staged = [
        file for result in results for name in AWAITING_LOGS.values() for file in result.files.staged.get(name, [])
    ]
    context = broker_logs.LogContext(
        place=job.place,
        zone=job.options.broker_log_zone,
        rebalances=[
            *(file.uri for file in job.files(REBALANCES) if file.uri not in removed),
            *(file.path for file in staged),
        ],
        earlier={} if full else broker_logs.earlier_logs(run.broker_logs for run in work.reading.history.runs),
    )
    read = partial(broker_logs.read_log, context=context)
    read_logs = job.stages.run_on_files("read logs of brokers", work.logs, read, lambda file: file.size)
    share = [file for log in read_logs for file in log.files]
    stored = [] if full else [file.uri for file in existing]
    merge = partial(broker_logs.merge_lines, existing=stored, place=job.place)
    merged = job.stages.run("put lines of logs together", [share] if share else [], merge)
    added = [file for files in merged for file in files]
    run.broker_logs += broker_logs.ledger_rows(read_logs)
    run.notes += broker_logs.notes(read_logs, sum(file.rows for file in added if file.table == broker_logs.TABLE))
    work.changes += Changes(added, list(existing) if full else [])


def _add_log_lines(work: Work) -> None:
    """Run the stage that adds facts from brokers' logs to the rebalances of each bucket."""
    job, run, changes = work.job, work.run, work.changes
    new = [file.path for file in changes.added if file.table == broker_logs.TABLE]
    context = LinesContext(
        place=job.place,
        lines=job.uris(broker_logs.TABLE, changes),
        new=new,
        end_ms=None if run.log_end is None else milliseconds(run.log_end),
    )
    buckets = [result.files for result in work.results]
    joined = job.stages.run("join rebalances with logs of brokers", buckets, partial(add_log_lines, context=context))
    for bucket, files in zip(buckets, joined, strict=True):
        bucket.take(files.added)
        bucket.removed += files.removed
