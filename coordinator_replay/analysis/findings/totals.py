"""Sums of commits by group and by partition. Sums of several tasks or of earlier runs can be merged."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, cast

from coordinator_replay.analysis.findings.evidence_rows import (
    Burst,
    GroupCommits,
    LastCommit,
    PastExpiry,
    PastStall,
    Range,
)
from coordinator_replay.analysis.findings.thresholds import MINUTE_MS, Thresholds
from coordinator_replay.times import elapsed_ms, latest_ms, time_order

Sum = dict[str, Any]
"""The sum of some commits, by column."""

Key = tuple[str, int]
"""A topic and a partition."""

WHOLE: Key = ("", -1)
"""Key for all partitions in a sum of a group."""


def _plus(value: Any, other: Any) -> Any:
    return other if value is None else value if other is None else value + other


def _least(value: Any, other: Any) -> Any:
    return other if value is None else value if other is None else min(value, other)


def _most(value: Any, other: Any) -> Any:
    return other if value is None else value if other is None else max(value, other)


BURST_MS = 10 * MINUTE_MS
"""Rewinds of a topic belong to one burst if at most this time lies between a rewind and the next."""

_MOST_BURSTS = 100
"""Largest number of bursts that are kept. If there are more, the oldest are merged."""


def bursts_of(bursts: Iterable[Burst]) -> list[Burst]:
    """Return bursts in order of time. Bursts in quick succession are merged.

    If more than _MOST_BURSTS remain, the oldest are merged too. The result does not depend on the order of the given
    bursts.
    """
    joined: list[list[Burst]] = []
    until_ms: int | None = None
    for burst in sorted(bursts, key=lambda burst: (time_order(burst["first_at"]), burst["first_offset"])):
        if joined and _follows(until_ms, burst["first_at"]):
            joined[-1].append(burst)
        else:
            joined.append([burst])
        until_ms = latest_ms(until_ms, burst["last_at"])
    oldest = max(len(joined) - _MOST_BURSTS, 0) + 1
    joined[:oldest] = [[burst for parts in joined[:oldest] for burst in parts]] if joined else []
    return [_one_burst(some) for some in joined]


def _follows(until_ms: int | None, at_ms: int | None) -> bool:
    """Return whether a burst continues earlier bursts.

    If both have no time, return True. If one of the two has no time, return False.

    Args:
        until_ms: the end of the earlier bursts; None if no record has it.
        at_ms: the beginning of the burst; None if no record has it.
    """
    since_ms = elapsed_ms(until_ms, at_ms)
    return until_ms is at_ms is None if since_ms is None else since_ms <= BURST_MS


def _one_burst(bursts: Sequence[Burst]) -> Burst:
    """Return one burst merged from several bursts, which are given oldest first."""
    return {
        "log_partition": bursts[0]["log_partition"],
        "count": sum(burst["count"] for burst in bursts),
        "first_at": bursts[0]["first_at"],
        "last_at": max((burst["last_at"] for burst in bursts), key=time_order),
        "first_offset": min(burst["first_offset"] for burst in bursts),
        "furthest": max(burst["furthest"] for burst in bursts),
        "partitions": sorted({number for burst in bursts for number in burst["partitions"]}),
        "last": max((burst["last"] for burst in bursts), key=lambda last: last["from_offset"]),
    }


_MOST_PAUSES = 100
"""Number of a group's longest pauses that are kept."""


FEWEST_COMMITS = 3
"""Number of commits that are needed to know how often a group commits."""


def mean_interval_ms(first_ms: int, last_ms: int, commits: int) -> int | None:
    """Return the mean time between commits.

    Return None if there are too few commits.
    """
    return None if commits < FEWEST_COMMITS else (last_ms - first_ms) // (commits - 1)


def ranges_of(ranges: Iterable[Range], pause_ms: int = 1, patience: int = 0) -> list[Range]:
    """Return ranges in order of time. Merge two ranges if the time between the two is too short to be a pause.

    Args:
        ranges: time ranges with commits, in any order.
        pause_ms: the shortest pause.
        patience: a pause must also last at least this many times the mean time between the commits before the pause.
    """
    joined: list[Range] = []
    current = [0, 0, 0]
    so_far = 0
    for first, last, commits in sorted(ranges):
        gap_ms = first - current[1]
        usual_ms = mean_interval_ms(joined[0][0], current[1], so_far) if joined else None
        if joined and (gap_ms < pause_ms or gap_ms < patience * (usual_ms or 0)):
            current[1] = max(current[1], last)
            current[2] += commits
        else:
            current = [first, last, commits]
            joined.append(current)
        so_far += commits
    return joined


def with_longest_pauses(ranges: Sequence[Range]) -> list[Range]:
    """Return time ranges with commits, in order.

    If there are too many, merge neighbours with a short pause between the two.
    """
    kept = list(map(list, ranges))
    shortest = nsmallest(len(kept) - 1 - _MOST_PAUSES, pairwise(kept), key=lambda pair: pair[1][0] - pair[0][1])
    for before, after in sorted(shortest, reverse=True):
        kept.remove(after)
        before[1] = after[1]
        before[2] += after[2]
    return list(kept)


class ActiveTime:
    """Times in which a group committed without a pause.

    Args:
        ranges: the times as ranges, in order; the ranges don't overlap.
    """

    __slots__ = ("_before", "_firsts", "_lasts")

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._firsts = [first for first, _, _ in ranges]
        self._lasts = [last for _, last, _ in ranges]
        self._before = list(accumulate((last - first for first, last, _ in ranges), initial=0))

    def elapsed_ms(self, first_ms: int, last_ms: int) -> int:
        """Return how long the group committed without a pause between two times, in milliseconds.

        The time between two ranges of commits is a pause, and does not count.

        >>> ActiveTime([[0, 10, 3], [50, 90, 2]]).elapsed_ms(5, 60)
        15
        """
        return max(self._elapsed_before(last_ms) - self._elapsed_before(first_ms), 0)

    def _elapsed_before(self, at_ms: int) -> int:
        begun = bisect_left(self._firsts, at_ms)
        return self._before[begun] - max(self._lasts[begun - 1] - at_ms, 0) if begun else 0

    def last_before(self, until_ms: int) -> int | None:
        """Return the latest time in the ranges that begin before ``until_ms``, but at most ``until_ms``.

        Return None if there is no such range.

        >>> active = ActiveTime([[0, 10, 3], [50, 90, 2]])
        >>> active.last_before(60), active.last_before(50), active.last_before(0)
        (60, 10, None)
        """
        begun = bisect_left(self._firsts, until_ms)
        return min(self._lasts[begun - 1], until_ms) if begun else None


class SummaryKind(NamedTuple):
    """A kind of sums, with the functions that merge two sums of this kind.

    Attributes:
        name: name of the kind.
        columns: for each column, the function that merges the values that two sums have in this column.
        newest: lists of columns whose values come from the newer of two sums. The key of a list is the column that
            decides which sum is newer: the sum with the larger value in it.
    """

    name: str
    columns: Mapping[str, Callable[[Any, Any], Any]]
    newest: Mapping[str, Sequence[str]] = {}

    def merge(self, first: Sum, other: Sum) -> Sum:
        """Merge two sums of the same key into one sum."""
        # A sum of an earlier release may lack a column.
        merged = {column: how(first.get(column), other.get(column)) for column, how in self.columns.items()}
        for by, columns in self.newest.items():
            is_newer = first[by] is None or (other[by] is not None and other[by] > first[by])
            newer = other if is_newer else first
            merged |= {column: newer[column] for column in columns}
        return merged


GROUP = SummaryKind(
    "group",
    {
        "log_partition": _most,
        "commits": _plus,
        "bytes": _plus,
        "unproven": _plus,
        "first_at": _least,
        "last_at": _most,
        "last_offset": _most,
        "most_a_minute": _most,
        "hot_minutes": _plus,
        "hot_from": _least,
        "hot_to": _most,
        "active": lambda value, other: ranges_of([*(value or ()), *(other or ())]),
    },
)
"""Commits of a group, see ``GroupCommits``."""

PARTITION = SummaryKind(
    "partition",
    {
        "log_partition": _most,
        "commits": _plus,
        "first_at": _least,
        "last_at": _most,
        "metadata_bytes": _most,
        "with_leader_epoch": _plus,
        "from_offset": _most,
        "empty_count": _plus,
        "empty_first_at": _least,
        "empty_from_offset": _most,
        "lowest": _least,
        # The first of the longest steps wins: lists compare element by element, and the log offset is negated.
        "longest_step": _most,
    },
    {
        "from_offset": ("committed_offset", "is_lost", "topic_id"),
        "empty_from_offset": ("empty_valid_from", "empty_committed_offset", "empty_previous_offset"),
    },
)
"""Commits of a partition, with columns of the newest commit, and of the newest commit to the Empty group."""

_BURSTS = {"bursts": lambda bursts, other: bursts_of([*bursts, *other])}

REWIND = SummaryKind("rewind", _BURSTS)
"""Rewinds of a partition while the group was not Empty, in bursts, each burst with its newest commit."""

EMPTY_REWIND = SummaryKind("empty_rewind", _BURSTS)
"""The same as REWIND, for commits while the group was Empty or had no records but offset commits."""

POSITION_LOSS = SummaryKind("position_loss", _BURSTS)
"""Commits of negative offsets of a partition, in bursts, each with its newest commit."""

_MOST_PAST = 20


def last_past(rows: Iterable[PastStall | PastExpiry]) -> list[PastStall | PastExpiry]:
    """Return the newest past stalls and expiries of a partition."""
    return sorted(rows, key=itemgetter("from_offset", "at", "status"))[-_MOST_PAST:]


PAST = SummaryKind("past", {"past": lambda pasts, other: last_past([*pasts, *other])})
"""Past stalls and expiries of a partition; only the last are kept."""

SUMMARIES = {summary.name: summary for summary in (GROUP, PARTITION, REWIND, EMPTY_REWIND, POSITION_LOSS, PAST)}
"""All kinds of sums, by name."""

_REWIND = (
    *("partition", "from_offset", "committed_offset", "previous_offset", "leader_epoch", "is_transactional"),
    *("owner_member_id", "group_state", "valid_from"),
)
_POSITION_LOSS = ("partition", "from_offset", "committed_offset", "replaced_offset", "owner_member_id", "valid_from")


def rewind(row: Mapping[str, Any]) -> Sum:
    """Return the sum of a single rewind: a commit of a lower offset than the commit before.

    Args:
        row: the columns partition, log_partition, from_offset, committed_offset, previous_offset, leader_epoch,
            is_transactional, owner_member_id, group_state, valid_from.
    """
    return _burst(row, row["previous_offset"] - row["committed_offset"], _REWIND)


def position_loss(row: Mapping[str, Any]) -> Sum:
    """Return the sum of a single commit of a negative offset.

    Args:
        row: the columns partition, log_partition, from_offset, committed_offset, replaced_offset, owner_member_id,
            valid_from.
    """
    return _burst(row, 0, _POSITION_LOSS)


def _burst(row: Mapping[str, Any], furthest: int, kept: Sequence[str]) -> Sum:
    """Return a burst that consists of a single commit.

    Args:
        row: row of the commit.
        furthest: the distance by which the commit went back.
        kept: names of the columns of ``row`` that the burst keeps about its last commit.
    """
    burst: Burst = {
        "log_partition": row["log_partition"],
        "count": 1,
        "first_at": row["valid_from"],
        "last_at": row["valid_from"],
        "first_offset": row["from_offset"],
        "furthest": furthest,
        "partitions": [row["partition"]],
        "last": cast("LastCommit", {name: row[name] for name in kept}),
    }
    return {"bursts": [burst]}


class Totals:
    """Sums of the commits of one group.

    Attributes:
        every: sums of all commits.
        over: sums of the commits that no later record changes. The next run continues from these sums.
    """

    def __init__(self) -> None:
        self.every: dict[str, dict[Key, Sum]] = {name: {} for name in SUMMARIES}
        self.over: dict[str, dict[Key, Sum]] = {name: {} for name in SUMMARIES}

    def add(self, summary: SummaryKind, key: Key, added: Sum, *, is_over: bool) -> None:
        """Add a sum of commits to the sum with the same key.

        Args:
            summary: the kind of the sum.
            key: the topic and partition of the commits; ``WHOLE`` if the sum is about the whole group.
            added: the sum to add.
            is_over: whether no later commit belongs to the sum.
        """
        for sums in (self.every, self.over) if is_over else (self.every,):
            before = sums[summary.name].get(key)
            sums[summary.name][key] = added if before is None else summary.merge(before, added)

    def active(self, limits: Thresholds) -> list[Range]:
        """Return the time ranges in which the group committed without a pause.

        Also store the ranges, so that the next run gets them.
        """
        ranges: list[Range] = []
        for sums in (self.over[GROUP.name], self.every[GROUP.name]):
            if (group := sums.get(WHOLE)) is not None:
                # The border between two runs is no pause.
                ranges = with_longest_pauses(ranges_of(group["active"], limits.pause_ms, limits.patience))
                group["active"] = ranges
        return ranges

    def commits(self) -> GroupCommits | None:
        """Return the sum of all commits of the group.

        Return None if the group has no commit.
        """
        return cast("GroupCommits | None", self.every[GROUP.name].get(WHOLE))

    def kept(self) -> Iterator[tuple[str, Key, Sum]]:
        """Yield the sums from which the next run continues. Each sum comes with its name and its key."""
        for name, sums in self.over.items():
            for key, total in sums.items():
                yield name, key, total
