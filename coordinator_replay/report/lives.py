"""The lives of groups in a time range, read from the tables for pictures.

A group may have millions of commits, but a picture has room for some thousand marks. So the SQL statements join rows
into time ranges with the same state or owner, and into lines of committed offsets. ``Limits`` has the largest numbers
of these. If something is left out, a note says so.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from functools import partial
from typing import Any, TypeVar

from coordinator_replay.answer_columns import row_of
from coordinator_replay.engine.model import GroupState
from coordinator_replay.query.expired import ExpiredOffset, expired_offsets
from coordinator_replay.query.findings import Finding, findings_of
from coordinator_replay.query.groups import LastState, check_group, outcomes_at
from coordinator_replay.query.rebalances import REBALANCES, Rebalance
from coordinator_replay.query.rollouts import Rollout, rollouts_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.report import life_statements
from coordinator_replay.report.life import (
    CommitPause,
    FirstRecords,
    GroupLife,
    MemberSpan,
    OffsetLine,
    OwnedInterval,
    RecordAfterHole,
    StateBand,
)
from coordinator_replay.report.unknown_past import unknown_after_holes, unknown_past, with_unknown
from coordinator_replay.times import EPOCH, later, milliseconds

_POINTS_EACH = range(40, 1600)
"""Smallest and largest number of points of each partition's line; a screen is not wider."""

GROUPS_AT_ONCE = 100
"""Number of groups that are read together; it bounds the memory for a whole cluster."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest numbers of things in the picture of one group. With more, a browser becomes slow.

    Attributes:
        intervals: largest number of intervals in which a member did not change, and also of intervals in which a
            partition had the same owner. If there are more, the latest are shown.
        points: largest number of points of the lines of committed offsets, all partitions together.
    """

    intervals: int = 30_000
    points: int = 40_000


class Detail(IntEnum):
    """Kinds of facts about a group to read from the tables. Each level includes the lower levels."""

    STATES = 1
    """States, rebalances and rollouts."""
    OWNERS = 2
    """Members and owners too."""
    OFFSETS = 3
    """Committed offsets, expirations and findings too."""


ONE_GROUP = Limits()
MANY_GROUPS = Limits(intervals=1500, points=2000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time range that pictures of a group show, and the group's first records.

    Attributes:
        group: id of the group.
        start, end: the time range.
        log_partition: the log partition with the group's records.
        first_at: time of the group's first record; None if the record has no time.
        first_offset: log offset of the group's first record.
        first_own_offset: log offset of the group's first record that is not a commit; None if the group has only
            commits.
    """

    group: str
    start: datetime
    end: datetime
    log_partition: int | None = None
    first_at: datetime | None = None
    first_offset: int | None = None
    first_own_offset: int | None = None


Interval = TypeVar("Interval", MemberSpan, OwnedInterval)
Answer = TypeVar("Answer", StateBand, RecordAfterHole, MemberSpan, OwnedInterval, Rebalance, CommitPause, OffsetLine)


def _latest(latest_first: Sequence[Interval], most: int, what: str, notes: list[str]) -> tuple[Interval, ...]:
    """Return the latest intervals, in order of time. If others are left out, add a note that says so.

    Args:
        latest_first: the intervals, the latest first.
        most: largest number of intervals to return.
        what: a word for the note that says whose intervals they are, such as ``members``.
        notes: the list that gets the note.
    """
    if len(latest_first) > most:
        notes.append(f"Only the latest {most:,} intervals of {what} are shown: ask for less with --from and --to.")
    return tuple(reversed(latest_first[:most]))


def spans_of(
    warehouse: Tables, group: str | None = None, start: datetime | None = None, end: datetime | None = None
) -> list[Span]:
    """Return, for each group, the time range that a picture of the group shows.

    Args:
        warehouse: the tables to read.
        group: the group; None for every group that existed in the range.
        start: start of the time range, included; None to begin at the group's first record.
        end: end of the time range, excluded; None to end after the last record of the log.

    Raises:
        UsageError: the tables have no record of the group, or of the time range.
    """
    warehouse.check_range(start, end)
    rows = warehouse.rows(life_statements.SPANS, group=group)
    if not rows and group is not None:
        check_group(warehouse, group)
    covered = warehouse.coverage
    spans = []
    for name, first, last, log_partition, *offsets in rows:
        # The end of a range is excluded, but the last record belongs to the range.
        until = end or later(max(covered.last, last or covered.last), 1)
        since = start or first or covered.first
        if since < until or group is not None:
            firsts = dict(zip(("first_at", "first_offset", "first_own_offset"), (first, *offsets), strict=True))
            spans.append(Span(group=name, start=min(since, until), end=until, log_partition=log_partition, **firsts))
    return spans


def life_of(
    warehouse: Tables,
    group: str,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    detail: Detail = Detail.OFFSETS,
    limits: Limits = ONE_GROUP,
) -> GroupLife:
    """Return the recorded life of a group: everything that happened to the group in a time range.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        start: start of the time range, included; None to begin at the group's first record.
        end: end of the time range, excluded; None to end after the last record of the log.
        detail: kinds of facts to read, such as committed offsets.
        limits: how many intervals and points to keep at most.

    Raises:
        UsageError: the tables have no record of the group, or of the time range.
    """
    (life,) = lives_of(warehouse, spans_of(warehouse, group, start, end), start, end, detail=detail, limits=limits)
    return life


def lives_of(
    warehouse: Tables,
    spans: Sequence[Span],
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    detail: Detail = Detail.OFFSETS,
    limits: Limits = MANY_GROUPS,
) -> Iterator[GroupLife]:
    """Yield the recorded life of each of several groups, in the order of the groups' names.

    Args:
        warehouse: the tables to read.
        spans: the result of ``spans_of``: each group's name and time range.
        start: start of the time range, included; None for no lower bound.
        end: end of the time range, excluded; None for no upper bound.
        detail: kinds of facts to read, such as committed offsets.
        limits: how many intervals and points of one group to keep at most.
    """
    group = spans[0].group if len(spans) == 1 else None
    expirations: dict[str, list[ExpiredOffset]] = defaultdict(list)
    findings: dict[str, list[Finding]] = defaultdict(list)
    rollouts: dict[str, list[Rollout]] = defaultdict(list)
    if detail >= Detail.OFFSETS and spans:
        for offset in expired_offsets(warehouse, group):
            expirations[offset.group_id].append(offset)
        for finding in findings_of(warehouse):
            if finding.group_id is not None:
                findings[finding.group_id].append(finding)
    for rollout in rollouts_of(warehouse, start, end, group) if spans else ():
        rollouts[rollout.group_id].append(rollout)
    outcomes = outcomes_at(warehouse, end, group=group)
    for first in range(0, len(spans), GROUPS_AT_ONCE):
        chosen = spans[first : first + GROUPS_AT_ONCE]
        read = _Reading(warehouse, chosen, start, end, limits, detail=detail)
        for span in chosen:
            outcome = outcomes.get(span.group) or LastState(span.group, "classic", str(GroupState.DEAD))
            marked = tuple(expirations[span.group]), tuple(findings[span.group]), tuple(rollouts[span.group])
            yield read.life(span, outcome, *marked)


class _Reading:
    """Rows of several groups, such as their states and rebalances, read with one statement for each kind of row."""

    def __init__(
        self,
        warehouse: Tables,
        spans: Sequence[Span],
        start: datetime | None,
        end: datetime | None,
        limits: Limits,
        *,
        detail: Detail,
    ) -> None:
        self._warehouse = warehouse
        self._limits = limits
        self._spans = spans
        self._groups = [span.group for span in spans]
        self._range = {"start": start, "end": end}
        self._states = self._answers(StateBand._make, life_statements.STATES)
        is_whole = warehouse.completeness.is_whole
        self._after_holes = {} if is_whole else self._answers(RecordAfterHole._make, life_statements.AFTER_HOLES)
        by_group = f"SELECT group_id, recorded.* FROM ({REBALANCES}) AS recorded"  # noqa: S608 - our own statement
        self._rebalances = self._answers(partial(row_of, Rebalance), by_group)
        with_owners, with_offsets = detail >= Detail.OWNERS, detail >= Detail.OFFSETS
        has_pauses = any(rebalance.commit_pause_ms is not None for of in self._rebalances.values() for rebalance in of)
        self._members = self._answers(MemberSpan._make, life_statements.MEMBERS) if with_owners else {}
        self._holdings = self._answers(OwnedInterval._make, life_statements.OWNERS) if with_owners else {}
        self._pauses = self._answers(CommitPause._make, life_statements.PAUSES) if with_offsets and has_pauses else {}
        self._line_counts = self._rows(life_statements.LINE_COUNTS) if with_offsets else {}
        self._lines = self._thinned() if self._line_counts else {}
        self._counts = self._rows(life_statements.COMMIT_COUNTS) if with_offsets else {}

    def _rows(self, statement: str, **more: object) -> Mapping[str, list[tuple[Any, ...]]]:
        """Return the result rows of a statement by group id. The rows are without the column of the group id."""
        most = self._limits.intervals
        return self._warehouse.rows_by_group(statement, self._groups, most=most, **self._range, **more)

    def _thinned(self) -> Mapping[str, list[OffsetLine]]:
        """Return the lines that show committed offsets in the picture of each group, by group id.

        A line has at most about as many points as ``Limits`` allows.
        """
        firsts, widths = [], []
        for name in self._groups:
            _, lines, first, last = self._line_counts[name][0] if name in self._line_counts else (0, 1, EPOCH, EPOCH)
            first, last = self._range["start"] or first or EPOCH, self._range["end"] or last or EPOCH
            points = min(max(_POINTS_EACH.start, self._limits.points // max(lines, 1)), _POINTS_EACH.stop)
            firsts.append(milliseconds(first))
            widths.append(max(round((milliseconds(last) - milliseconds(first)) / points), 1))
        starts = [milliseconds(span.start) for span in self._spans]
        ends = [milliseconds(span.end) for span in self._spans]
        more = {"firsts": firsts, "widths": widths, "starts": starts, "ends": ends}
        return self._answers(OffsetLine._make, life_statements.LINES, **more)

    def _answers(
        self, make: Callable[[Iterable[Any]], Answer], statement: str, **more: object
    ) -> Mapping[str, list[Answer]]:
        return {group: list(map(make, rows)) for group, rows in self._rows(statement, **more).items()}

    def life(
        self,
        span: Span,
        outcome: LastState,
        expirations: tuple[ExpiredOffset, ...],
        findings: tuple[Finding, ...],
        rollouts: tuple[Rollout, ...],
    ) -> GroupLife:
        """Return the recorded life of a group, made from the rows that were read.

        If rows are left out because there are too many, a note in the result says so.

        Args:
            span: the group and its time range.
            outcome: the group's last state.
            expirations: the group's expired offsets.
            findings: findings about the group.
            rollouts: rollouts of the group.
        """
        group, most = span.group, self._limits.intervals
        states = list(map(with_unknown, self._states.get(group, ())))
        is_begin_exact = not states or states[0].is_exact
        if group in self._after_holes:
            after_holes = self._after_holes[group]
            states = list(unknown_after_holes(self._warehouse, span.log_partition, after_holes, states, span.end))
        first = FirstRecords(span.first_at, span.first_offset, span.first_own_offset, is_begin_exact)
        notes: list[str] = []
        lines = self._lines.get(group, [])
        drawn = sum(len(line.at) for line in lines)
        all_commits = self._line_counts[group][0][0] if group in self._line_counts else 0
        if all_commits > drawn:
            notes.append(f"Lines show {drawn:,} of {all_commits:,} commits: the last of each short time range.")
        return GroupLife(
            group=group,
            start=span.start,
            end=span.end,
            log_partition=span.log_partition,
            outcome=outcome,
            first=first,
            states=(*unknown_past(self._warehouse, span.log_partition, first, states, span.start, span.end), *states),
            members=_latest(self._members.get(group, ()), most, "members", notes),
            holdings=_latest(self._holdings.get(group, ()), most, "ownership", notes),
            rebalances=tuple(self._rebalances.get(group, ())),
            pauses=tuple(self._pauses.get(group, ())),
            lines=tuple(lines),
            commit_count=self._counts[group][0][0] if group in self._counts else 0,
            expirations=expirations,
            findings=findings,
            rollouts=rollouts,
            notes=tuple(notes),
        )
