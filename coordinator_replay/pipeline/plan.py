"""Which buckets a run works on, and whether each goes on from where its tables end or begins anew."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from coordinator_replay.pipeline.bucket import BucketShare
from coordinator_replay.pipeline.ledger import FinishedRun, below
from coordinator_replay.pipeline.offsets.bucket import SumsRange
from coordinator_replay.pipeline.read.copies import DumpCopy
from coordinator_replay.pipeline.read.decode import DecodedFile, StagedFile
from coordinator_replay.pipeline.read.same_log import EarlierLog
from coordinator_replay.pipeline.read.tally import Ranges, Tally, moment_of
from coordinator_replay.store.layout import bucket_of, has_buckets
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.tables.definition import tables
from coordinator_replay.times import EPOCH

BUCKET_TABLES = tuple(name for name, table in tables().items() if has_buckets(table))
"""The tables whose rows lie by bucket."""

RECENTLY = timedelta(minutes=10)
"""Minutes so shortly before the end are added up again by the next run: its first records may carry earlier times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What earlier runs over a cluster have read.

    Attributes:
        runs: those that are done, the newest first.
        ranges: positions that they have read, by log partition.
        segment_ranges: those of them that were read from segments.
        positions: how many offsets below the end of these hold a record.
    """

    runs: Sequence[FinishedRun]
    ranges: Ranges
    segment_ranges: Ranges
    positions: Mapping[int, int]

    def without(self, lost_from: Mapping[int, int]) -> "History":
        """The same without what was lost at an election of a leader.

        Args:
            lost_from: the first offset that counts no more, by log partition.
        """
        return replace(self, ranges=below(self.ranges, lost_from), segment_ranges=below(self.segment_ranges, lost_from))

    @property
    def ends(self) -> dict[int, int]:
        """The first offset that no run has read, by log partition."""
        return {partition: ranges[-1][1] for partition, ranges in self.ranges.items() if ranges}

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the last run was asked to do."""
        return self.runs[0].settings if self.runs else {}

    @property
    def log_end(self) -> datetime | None:
        """Timestamp of the last record that any run has read."""
        return max((run.log_end for run in self.runs if run.log_end is not None), default=None)

    def is_behind(self) -> bool:
        """Whether the last run wrote records only, so that nothing was derived from them."""
        return bool(self.settings.get("records_only"))

    def differs(self, settings: Mapping[str, Any]) -> bool:
        """Whether what was derived before would be derived otherwise now.

        Names and times of topics explain what happened before, findings depend on the thresholds, and other releases
        may have other rules.
        """
        if not self.runs:
            return False
        is_explained = any(settings[name] and not self.settings.get(name) for name in ("topics", "cluster_metadata"))
        same = ("thresholds", "offsets_version", "history_every_ms")
        return is_explained or any(self.settings.get(name) != settings[name] for name in same)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run is asked for, as far as the plan depends on it.

    Attributes:
        settings: as the ledger keeps them.
        is_full: whether everything is read and derived anew.
        records_only: whether nothing but records is written.
        is_explicit: whether the run was asked for more than the dump: names of topics, settings of expiry.
        copies: the copies of log partitions that it reads.
        logs: what is kept of each log partition to compare the next dump with.
        lost_from: from which offset on what the tables hold was lost, for log partitions that were truncated.
    """

    settings: Mapping[str, Any]
    is_full: bool
    records_only: bool
    is_explicit: bool
    copies: Sequence[DumpCopy] = ()
    logs: Mapping[int, EarlierLog] = field(default_factory=dict)
    lost_from: Mapping[int, int] = field(default_factory=dict)

    def overlapping(self, ends: Mapping[int, int]) -> set[int]:
        """Log partitions of which copies may have records among those that the tables have."""
        found = set()
        for copy in self.copies:
            end = ends.get(copy.bounds.log_partition)
            if copy.lacks_new_offsets(end) or copy.is_older(end):
                found.add(copy.bounds.log_partition)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run works on.

    Attributes:
        shares: the buckets.
        derives: whether there is anything that the derived tables do not say yet.
        is_anew: whether all buckets begin anew.
    """

    shares: Sequence[BucketShare]
    derives: bool
    is_anew: bool


def first_new_offsets(tally: Tally) -> dict[int, int]:
    """The first offset of each log partition that no earlier run has read."""
    found: dict[int, int] = {}
    for key, count in tally.counts.items():
        if not key.is_known and key.log_partition is not None and key.log_partition >= 0 and count.low is not None:
            found[key.log_partition] = min(count.low, found.get(key.log_partition, count.low))
    return found


def last_times(tally: Tally) -> dict[int, int]:
    """The latest time of the records of each log partition, in microseconds."""
    found: dict[int, int] = {}
    for key, count in tally.counts.items():
        if key.log_partition is not None and count.end_us is not None:
            found[key.log_partition] = max(count.end_us, found.get(key.log_partition, count.end_us))
    return found


def _by_bucket(files: Iterable[TableFile]) -> dict[int, dict[str, tuple[TableFile, ...]]]:
    found: dict[int, dict[str, tuple[TableFile, ...]]] = {}
    for file in files:
        if file.bucket is not None:
            of_bucket = found.setdefault(file.bucket, {})
            of_bucket[file.table] = (*of_bucket.get(file.table, ()), file)
    return found


def plan_buckets(
    decoded: Iterable[DecodedFile],
    tally: Tally,
    history: History,
    files: Iterable[TableFile],
    *,
    buckets: int,
    wanted: Wanted,
) -> Plan:
    """Decide what becomes of each bucket.

    A bucket begins anew where records came in between those that its tables hold, where some of these were lost, where
    ``--full`` asks for it, or where everything would be derived otherwise now; else it goes on.

    Args:
        decoded: what decoding the dump came to, in its order.
        tally: counts of all of it.
        history: what earlier runs have read.
        files: of all tables that have buckets, of the cluster.
        buckets: how many buckets there are.
        wanted: what the run is asked for.
    """
    staged: dict[int, list[StagedFile]] = {}
    for one in decoded:
        for file in one.files:
            staged.setdefault(file.bucket, []).append(file)
    first, ends = first_new_offsets(tally), history.ends
    late = {bucket_of(partition, buckets) for partition, low in first.items() if low < ends.get(partition, 0)}
    late |= {bucket_of(partition, buckets) for partition in wanted.overlapping(ends)}
    late |= {bucket_of(partition, buckets) for partition in wanted.lost_from}
    is_anew = wanted.is_full or history.is_behind() or history.differs(wanted.settings)
    tries_again = any(run.groups_failed for run in history.runs[:1])
    has_news = bool(first or wanted.lost_from)
    derives = not wanted.records_only and bool(has_news or is_anew or wanted.is_explicit or tries_again)
    existing, last = _by_bucket(files), last_times(tally)
    every = sorted({*staged, *existing} if derives else staged)

    def of_bucket(numbers: Mapping[int, Any], bucket: int) -> dict[int, Any]:
        return {partition: one for partition, one in numbers.items() if bucket_of(partition, buckets) == bucket}

    shares = [
        BucketShare(
            bucket=bucket,
            staged=staged.get(bucket, ()),
            files=existing.get(bucket, {}),
            ranges=of_bucket(history.ranges, bucket),
            ends=of_bucket(ends, bucket),
            positions=of_bucket(history.positions, bucket),
            last_us=of_bucket(last, bucket),
            copies=[one for one in wanted.copies if bucket_of(one.bounds.log_partition, buckets) == bucket],
            logs=of_bucket(wanted.logs, bucket),
            lost_from=of_bucket(wanted.lost_from, bucket),
            merges=bucket in late or wanted.is_full,
            is_anew=is_anew or bucket in late,
            are_offsets_anew=wanted.settings["history_every_ms"] is not None,
        )
        for bucket in every
    ]
    return Plan(shares=shares, derives=derives, is_anew=is_anew)


def sums_range(tally: Tally, totals: Sequence[TableFile], end: datetime, *, is_anew: bool, hot: int) -> SumsRange:
    """Which commits are added up by this run.

    Sums of earlier runs count for minutes that were over then. A record of such a minute that comes now has all
    commits added up again.

    Args:
        tally: counts of what the run has read.
        totals: files of ``commit_totals``.
        end: timestamp of the last record of the log.
        is_anew: whether sums of earlier runs don't count.
        hot: so many commits of each partition in a minute are too many.
    """
    new = [count for key, count in tally.counts.items() if not key.is_known and key.log_partition is not None]
    kept = [file.lowest["until"] for file in totals if "until" in file.lowest]
    since = None if is_anew or not kept else min(kept)
    begins = [count.begin_us for count in new if count.begin_us is not None]
    if since is not None and begins and moment_of(min(begins)) < since:
        since = None
    last: dict[int, int] = {}
    for key, count in tally.counts.items():
        if not key.is_known and key.log_partition is not None and count.end_us is not None:
            last[key.log_partition] = max(count.end_us, last.get(key.log_partition, count.end_us))
    # Times before 1970 can't be shown, and no table holds one.
    until = max(EPOCH, _whole_minute((moment_of(min(last.values())) if last else end) - RECENTLY))
    return SumsRange(since=since, until=until if since is None else max(until, since), hot=hot)


def _whole_minute(moment: datetime) -> datetime:
    whole = moment.replace(second=0, microsecond=0)
    return whole if whole == moment else whole + timedelta(minutes=1)
