"""The plan of a run: the buckets that it works on, and for each bucket one of two actions.

- CONTINUE: derive rows from the new records only, starting from the states that the bucket's tables have.
- REBUILD: derive all rows of the bucket again.

The plan is complete before the work on the first bucket begins.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.pipeline.bucket_share import Action, BucketShare
from coordinator_replay.pipeline.commit_sums import SumsRange
from coordinator_replay.pipeline.group_moves import GroupMove, rebuilt_for
from coordinator_replay.pipeline.ledger import History
from coordinator_replay.pipeline.options import Options
from coordinator_replay.pipeline.read.decode import StagedFile
from coordinator_replay.pipeline.read.tally import Tally
from coordinator_replay.pipeline.reading import Reading
from coordinator_replay.store.layout import bucket_of, has_buckets
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.tables.definition import tables
from coordinator_replay.times import EPOCH

BUCKET_TABLES = tuple(name for name, table in tables().items() if has_buckets(table))
"""The tables that are partitioned by bucket."""

RECENTLY = timedelta(minutes=10)
"""Length of the time before the end of the log that the next run adds up again: new records may belong to it."""


_SOURCES = {
    "topics": "--topics was not given to the last run",
    "cluster_metadata": "--cluster-metadata was not given to the last run",
}
"""Settings that add names and times of topics, each with the reason to rebuild if the last run lacked it."""

_RULES = {
    "thresholds": "the last run had other thresholds",
    "offsets_version": "offsets were derived by another release",
    "findings_version": "findings were made by the rules of another release",
    "history_every_ms": "the last run had another --history-every",
}
"""Settings that rows depend on, each with the reason to rebuild if it differs from the last run's."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves of groups to other log partitions.

    Attributes:
        known: the moves that earlier runs found.
        now: the moves that this run found.
        divisors: greatest common divisor of ``hash(group) - log_partition`` over the groups of each log partition; 0
            if the log partition has no groups. See ``group_moves.hash_divisor``.
    """

    known: Sequence[GroupMove] = ()
    now: Sequence[GroupMove] = ()
    divisors: Mapping[int, int] = field(default_factory=dict)


NOTHING_MOVED = Moves()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The buckets that a run works on, and the action for each of them.

    Attributes:
        shares: the buckets, each with its action and the reasons.
        derives: whether the run writes tables that are derived from the records. If not, it writes only the records.
        is_rebuild: whether the run rebuilds all buckets.
        moves: moves of groups to other log partitions.
    """

    shares: Sequence[BucketShare]
    derives: bool
    is_rebuild: bool
    moves: Moves = NOTHING_MOVED

    def continuing(self) -> list[BucketShare]:
        """Return the buckets with the action CONTINUE; an empty list if the run derives no rows."""
        return [share for share in self.shares if self.derives and share.action is Action.CONTINUE]

    def rebuilding(self, reasons: Mapping[int, Sequence[str]]) -> "Plan":
        """Return the plan with the action REBUILD for some more buckets.

        Args:
            reasons: the reasons why a bucket is rebuilt, by bucket. Other buckets keep their action.
        """
        shares = [
            replace(share, action=Action.REBUILD, reasons=more) if (more := reasons.get(share.bucket)) else share
            for share in self.shares
        ]
        return replace(self, shares=shares)


def _by_bucket(files: Iterable[TableFile]) -> dict[int, dict[str, tuple[TableFile, ...]]]:
    buckets: dict[int, dict[str, tuple[TableFile, ...]]] = {}
    for file in files:
        if file.bucket is not None:
            of_bucket = buckets.setdefault(file.bucket, {})
            of_bucket[file.table] = (*of_bucket.get(file.table, ()), file)
    return buckets


def plan_buckets(
    reading: Reading, options: Options, files: Iterable[TableFile], buckets: int, moves: Moves = NOTHING_MOVED
) -> Plan:
    """Decide what to do with each bucket, as far as this is possible without reading the bucket's rows.

    A bucket is rebuilt in these cases:

    - The tables have no rows of the bucket.
    - The dump has new records with lower log offsets than records in the tables, or an election truncated records.
    - A group has moved into or out of one of the bucket's log partitions.
    - The run has ``--full`` or ``--history-every``, or other rules or options than the last run.

    Otherwise the run continues from the bucket's tables (CONTINUE).

    Args:
        reading: the result of reading the dump.
        options: the options of the run.
        files: the cluster's files of all tables that have buckets.
        buckets: number of buckets.
        moves: moves of groups to other log partitions.
    """
    staged: dict[int, list[StagedFile]] = {}
    history, tally = reading.history, reading.tally
    for decoded_part in reading.decoded:
        for file in decoded_part.files:
            staged.setdefault(file.bucket, []).append(file)
    new, ends = tally.by_partition(only_new=True), history.ends
    first = {partition: count.low for partition, count in new.items() if count.low is not None}
    last = {partition: count.end for partition, count in tally.by_partition().items() if count.end is not None}
    everywhere = list(_reasons_everywhere(history, options))
    late: dict[int, list[str]] = {}
    for partition, why in _late_records(first, ends, reading):
        late.setdefault(bucket_of(partition, buckets), []).append(f"log partition {partition}: {why}")
    moved: dict[int, list[str]] = {}
    for partition, why in rebuilt_for(moves.known, moves.now).items():
        moved.setdefault(bucket_of(partition, buckets), []).append(why)
    tries_again = any(run.groups_failed for run in history.runs[:1])
    has_news = bool(first or reading.lost_from)
    derives = not options.records_only and bool(has_news or everywhere or options.is_explicit or tries_again)
    existing = _by_bucket(files)

    def of_bucket(numbers: Mapping[int, Any], bucket: int) -> dict[int, Any]:
        return {partition: number for partition, number in numbers.items() if bucket_of(partition, buckets) == bucket}

    def share(bucket: int) -> BucketShare:
        reasons = [*everywhere, *late.get(bucket, ()), *moved.get(bucket, ())]
        if bucket not in existing:
            reasons = ["no table has rows of it yet"]
        elif options.expiry.history_every_ms is not None:
            reasons.append("--history-every leaves out commits, which the next ones are compared with")
        continued = "new records follow those that the tables have" if bucket in staged else "no new records"
        return BucketShare(
            bucket=bucket,
            staged=staged.get(bucket, ()),
            files=existing.get(bucket, {}),
            ranges=of_bucket(history.ranges, bucket),
            ends=of_bucket(ends, bucket),
            positions=of_bucket(history.positions, bucket),
            last=of_bucket(last, bucket),
            copies=[copy for copy in reading.copies if bucket_of(copy.bounds.log_partition, buckets) == bucket],
            logs=of_bucket(reading.logs, bucket),
            lost_from=of_bucket(reading.lost_from, bucket),
            moves=[
                move
                for move in moves.now
                if bucket in (bucket_of(move.log_partition, buckets), bucket_of(move.to_log_partition, buckets))
            ],
            divisors=of_bucket(moves.divisors, bucket),
            are_late=bucket in late or options.full,
            action=Action.REBUILD if reasons else Action.CONTINUE,
            reasons=reasons or [continued],
        )

    # A copy without any record may still show that offsets are missing.
    copied = {bucket_of(copy.bounds.log_partition, buckets) for copy in reading.copies if copy.bounds.end}
    shares = [share(bucket) for bucket in sorted({*staged, *existing, *copied} if derives else staged)]
    return Plan(shares=shares, derives=derives, is_rebuild=bool(everywhere), moves=moves)


def _reasons_everywhere(history: History, options: Options) -> Iterator[str]:
    """Yield the reasons to rebuild all buckets, such as other thresholds or other versions of rules than the last run.

    Args:
        history: facts about earlier runs.
        options: the options of this run.
    """
    if options.full:
        yield "--full"
    if history.is_behind():
        yield "the last run wrote records only"
    if history.runs:
        before, now = history.settings, options.settings()
        yield from (why for name, why in _SOURCES.items() if now[name] and not before.get(name))
        yield from (why for name, why in _RULES.items() if now[name] != before.get(name))


def _late_records(first: Mapping[int, int], ends: Mapping[int, int], reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield log partitions whose new records don't all follow the records in the tables, each with the reason.

    The new records may have lower log offsets, or an election may have truncated records that are in the tables.

    Args:
        first: the first new log offset, by log partition.
        ends: the log offset after the last record in the tables, by log partition.
        reading: the result of reading the dump.
    """
    bounds = ((copy, copy.bounds.log_partition) for copy in reading.copies)
    overlapping = {partition for copy, partition in bounds if copy.may_have_below(ends.get(partition))}
    for partition in sorted({*first, *overlapping, *reading.lost_from}):
        if partition in reading.lost_from:
            yield partition, f"records from log offset {reading.lost_from[partition]} on were lost at an election"
        elif first.get(partition, LARGEST_INT64) < ends.get(partition, 0):
            yield partition, f"log offset {first[partition]} is new, and the tables end at log offset {ends[partition]}"
        elif partition in overlapping:
            yield partition, f"a copy may have records below log offset {ends.get(partition, 0)}, where the tables end"


def sums_range(
    tally: Tally, totals: Sequence[TableFile], end: datetime | None, *, is_rebuild: bool, limits: Thresholds
) -> SumsRange | None:
    """Return the time range of the commits that this run adds up, and the thresholds of their sums.

    Return None if no record has a time. The sums of earlier runs are used for the minutes before the time range. If a
    new record belongs to one of these minutes, all commits are added up again.

    Args:
        tally: counts of the records that the run has read.
        totals: files of ``commit_totals``.
        end: the latest timestamp of a record of the log; None if no record has a time.
        is_rebuild: whether all commits are added up again, because sums of earlier runs don't count.
        limits: the thresholds of findings.
    """
    if end is None:
        return None
    new = tally.by_partition(only_new=True).values()
    kept = [file.lowest["until"] for file in totals if "until" in file.lowest]
    since = None if is_rebuild or not kept else min(kept)
    begins = [count.begin for count in new if count.begin is not None]
    if since is not None and begins and min(begins) < since:
        since = None
    last = [count.end for count in new if count.end is not None]
    # Times before 1970 can't be shown, and no table has one.
    until = max(EPOCH, _whole_minute(min(last, default=end) - RECENTLY))
    return SumsRange(
        since=since,
        until=until if since is None else max(until, since),
        hot=limits.hot_commits_per_minute,
        pause_ms=limits.pause_ms,
        patience=limits.patience if since is None else 0,
    )


def _whole_minute(moment: datetime) -> datetime:
    whole = moment.replace(second=0, microsecond=0)
    return whole if whole == moment else whole + timedelta(minutes=1)
