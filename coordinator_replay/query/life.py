"""The life of one group over a stretch of time, as pictures need it: bounded in size whatever the tables hold.

Bands of one state, members, owners and committed offsets are put together by the engine, so that a group with
millions of commits becomes some ten thousand marks. What had to be left out is counted and said.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from coordinator_replay.query import life_statements
from coordinator_replay.query.expired import ExpiredOffset, expired_offsets
from coordinator_replay.query.findings import Finding, findings_of
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.warehouse import Warehouse
from coordinator_replay.times import later

GROUPS_AT_ONCE = 100
"""Groups that are read together: bounds the memory for a whole cluster."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a life is kept; a page in a browser turns slow beyond.

    Attributes:
        intervals: of members, and of owners; the latest ones are kept.
        points: of committed offsets, shared by all partitions of the group.
    """

    intervals: int = 30_000
    points: int = 40_000


ONE_GROUP = Limits()
MANY_GROUPS = Limits(intervals=3000, points=4000)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBand:
    """A stretch of time in which a group stayed in one state; ``until`` is None for the last one."""

    state: str
    group_type: str
    since: datetime
    until: datetime | None
    first_epoch: int | None
    last_epoch: int | None
    fewest_members: int | None
    most_members: int | None
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpan:
    """An interval in which a member did not change, with what it owned as text."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    group_type: str | None
    member_state: str | None
    member_epoch: int | None
    partitions: int
    assigned: str
    pending: str
    valid_from: datetime | None
    valid_to: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An interval in which a member owned a partition; ``topic`` is the id where no source gave the name."""

    topic: str
    partition: int
    member_id: str
    instance_id: str | None
    owned_from: datetime | None
    owned_to: datetime | None
    release_event: str | None
    unowned_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A committed offset of a partition's line.

    Attributes:
        at: since when it held, not before the stretch of time asked for.
        until: when it ended; None while it still held.
        ended_by: ``COMMIT`` where the next commit took its place, else what took it away.
        back_from: the offset before it, where that was higher.
    """

    topic: str
    partition: int
    committed_offset: int | None
    at: datetime
    until: datetime | None
    ended_by: str
    back_from: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A stretch of time in which some member of the group subscribed to a topic.

    Attributes:
        topic: None where members may subscribe to any topic (by a regular expression, or in a way that the tables
            don't tell); empty for the stretches in which the group had members at all.
    """

    topic: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLife:
    """What happened to a group from one moment to another, by time.

    Attributes:
        start: where the pictures begin.
        end: where they end.
        commits: offsets that held at some time in the range, as many as lines need.
        commit_count: commits on record that were written in the range.
        notes: what was left out, in sentences.
    """

    group: str
    start: datetime
    end: datetime
    states: tuple[StateBand, ...]
    members: tuple[MemberSpan, ...]
    holdings: tuple[Holding, ...]
    rebalances: tuple[Rebalance, ...]
    commits: tuple[Commit, ...]
    commit_count: int
    subscriptions: tuple[Subscription, ...]
    expirations: tuple[ExpiredOffset, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From when to when pictures of a group show it."""

    group: str
    start: datetime
    end: datetime


Interval = TypeVar("Interval", MemberSpan, Holding)
Answer = TypeVar("Answer", StateBand, MemberSpan, Holding, Subscription, Rebalance)


def _latest(latest_first: Sequence[Interval], most: int, what: str, notes: list[str]) -> tuple[Interval, ...]:
    """Intervals by time, and a note where there were more."""
    if len(latest_first) > most:
        notes.append(f"Only the latest {most:,} intervals of {what} are shown: ask for less with --from and --to.")
    return tuple(reversed(latest_first[:most]))


def spans_of(
    warehouse: Warehouse, group: str | None = None, start: datetime | None = None, end: datetime | None = None
) -> list[Span]:
    """The time range that pictures of a group show: from its first record to the end of the log read.

    Args:
        warehouse: the tables.
        group: the group; every one that was there in the range if None.
        start: from then on; the group's first record if None.
        end: before then; after the last record of the log read if None.

    Raises:
        UsageError: the tables don't know the group, or nothing of that range.
    """
    warehouse.check_range(start, end)
    some = "" if group is None else "AND group_id = $group"
    found = warehouse.rows(life_statements.SPANS.format(some=some), group=group)
    if not found and group is not None:
        check_group(warehouse, group)
    covered = warehouse.coverage
    spans = []
    for name, first, last in found:
        # The last record belongs to the range, which ends before its end.
        until = end or later(max(covered.last, last or covered.last), 1)
        since = start or first or covered.first
        if since < until or group is not None:
            spans.append(Span(group=name, start=min(since, until), end=until))
    return spans


def life_of(
    warehouse: Warehouse,
    group: str,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    with_commits: bool = True,
    limits: Limits = ONE_GROUP,
) -> GroupLife:
    """What happened to a group in a time range.

    Args:
        warehouse: the tables.
        group: the group.
        start: from then on; its first record if None.
        end: before then; after the last record of the log read if None.
        with_commits: False leaves out committed offsets, expirations and findings.
        limits: how much is kept.

    Raises:
        UsageError: the tables don't know the group, or nothing of that range.
    """
    (life,) = lives_of(
        warehouse, spans_of(warehouse, group, start, end), start, end, with_commits=with_commits, limits=limits
    )
    return life


def lives_of(
    warehouse: Warehouse,
    spans: Sequence[Span],
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    with_commits: bool = True,
    limits: Limits = MANY_GROUPS,
) -> Iterator[GroupLife]:
    """What happened to each of several groups, by name: read for many groups at a time.

    Args:
        warehouse: the tables.
        spans: the groups.
        start: from then on; no bound if None.
        end: before then; no bound if None.
        with_commits: False leaves out committed offsets, expirations and findings.
        limits: how much is kept of each group.
    """
    one = spans[0].group if len(spans) == 1 else None
    expirations: dict[str, list[ExpiredOffset]] = defaultdict(list)
    findings: dict[str, list[Finding]] = defaultdict(list)
    if with_commits and spans:
        for offset in expired_offsets(warehouse, one):
            expirations[offset.group_id].append(offset)
        for finding in findings_of(warehouse):
            if finding.group_id is not None:
                findings[finding.group_id].append(finding)
    for first in range(0, len(spans), GROUPS_AT_ONCE):
        chosen = spans[first : first + GROUPS_AT_ONCE]
        read = _Reading(warehouse, chosen, start, end, limits, with_commits=with_commits)
        for span in chosen:
            yield read.life(span, tuple(expirations[span.group]), tuple(findings[span.group]))


class _Reading:
    """The rows of some groups, read by one statement for each kind."""

    def __init__(
        self,
        warehouse: Warehouse,
        spans: Sequence[Span],
        start: datetime | None,
        end: datetime | None,
        limits: Limits,
        *,
        with_commits: bool,
    ) -> None:
        names = [span.group for span in spans]
        self._warehouse = warehouse
        self._limits = limits
        # One group's name also keeps files without it from being read.
        self._some = "AND group_id = $group" if len(names) == 1 else "AND list_contains($groups, group_id)"
        self._asked: dict[str, Any] = {"groups": names, "start": start, "end": end}
        self._asked |= {"group": names[0]} if len(names) == 1 else {}
        self._states = self._answers(StateBand, life_statements.STATES)
        self._members = self._answers(MemberSpan, life_statements.MEMBERS)
        self._holdings = self._answers(Holding, life_statements.OWNERS)
        self._subscriptions = self._answers(Subscription, life_statements.SUBSCRIPTIONS)
        columns = ", ".join(Rebalance.__slots__)
        self._rebalances = self._answers(Rebalance, life_statements.REBALANCES.replace("{columns}", columns))
        self._commits = self._rows(life_statements.COMMITS) if with_commits else {}
        self._counts = self._rows(life_statements.COMMIT_COUNTS) if with_commits else {}

    def _rows(self, statement: str) -> Mapping[str, list[tuple[Any, ...]]]:
        """Rows by group, without the group's name."""
        found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        rows = self._warehouse.rows(
            statement.replace("{some}", self._some),
            most=self._limits.intervals,
            points=self._limits.points,
            **self._asked,
        )
        for group, *row in rows:
            found[group].append(tuple(row))
        return found

    def _answers(self, kind: type[Answer], statement: str) -> Mapping[str, list[Answer]]:
        names = kind.__slots__
        return {
            group: [kind(**dict(zip(names, row, strict=True))) for row in rows]
            for group, rows in self._rows(statement).items()
        }

    def life(self, span: Span, expirations: tuple[ExpiredOffset, ...], findings: tuple[Finding, ...]) -> GroupLife:
        """One of the groups."""
        group, most = span.group, self._limits.intervals
        notes: list[str] = []
        rows = self._commits.get(group, [])
        if rows and rows[0][-1] > len(rows):
            notes.append(f"Lines show {len(rows):,} of {rows[0][-1]:,} commits: the last of each short stretch.")
        return GroupLife(
            group=group,
            start=span.start,
            end=span.end,
            states=tuple(self._states.get(group, ())),
            members=_latest(self._members.get(group, ()), most, "members", notes),
            holdings=_latest(self._holdings.get(group, ()), most, "ownership", notes),
            rebalances=tuple(self._rebalances.get(group, ())),
            commits=tuple(Commit(**dict(zip(Commit.__slots__, row[:-1], strict=True))) for row in rows),
            commit_count=self._counts[group][0][0] if group in self._counts else 0,
            subscriptions=tuple(self._subscriptions.get(group, ())),
            expirations=expirations,
            findings=findings,
            notes=tuple(notes),
        )
