"""The life of one group over a stretch of time, as pictures need it: bounded in size whatever the tables hold.

Bands of one state, members, owners and committed offsets are put together by the engine, so that a group with
millions of commits becomes some ten thousand marks. What had to be left out is counted and said.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from coordinator_replay.query.expired import ExpiredOffset, expired_offsets
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.rebalances import Rebalance, rebalances_of
from coordinator_replay.query.warehouse import Warehouse

MOST_INTERVALS = 30_000
"""Intervals of members, and of owners, beyond which a page in a browser turns slow."""

MOST_POINTS = 40_000
"""Points of committed offsets, shared by all partitions of the group."""

_POINTS_EACH = range(40, 1600)
"""Points that each partition's line has at least, and at most: a screen is no wider."""

_SPAN = """
    SELECT min(first), max(last) FROM (
        SELECT min(log_timestamp) AS first, max(log_timestamp) AS last FROM group_timeline
        WHERE cluster = $cluster AND group_id = $group
        UNION ALL SELECT min(valid_from), max(coalesce(valid_to, valid_from)) FROM offset_history
        WHERE cluster = $cluster AND group_id = $group
        UNION ALL SELECT min(valid_from), max(coalesce(valid_to, valid_from)) FROM pending_offsets
        WHERE cluster = $cluster AND group_id = $group
    )
"""

_STATES = """
    WITH told AS (
        SELECT seq, log_timestamp, group_type, epoch, member_count, is_exact,
               CASE WHEN event = 'GROUP_DELETED' THEN 'Dead' ELSE to_state END AS state
        FROM group_timeline WHERE cluster = $cluster AND group_id = $group AND log_timestamp IS NOT NULL
    ), turned AS (
        SELECT *, (state IS DISTINCT FROM lag(state) OVER in_order
                   OR group_type IS DISTINCT FROM lag(group_type) OVER in_order) AS turns
        FROM told WINDOW in_order AS (ORDER BY seq)
    ), numbered AS (SELECT *, sum(CAST(turns AS INTEGER)) OVER (ORDER BY seq) AS band FROM turned),
    bands AS (
        SELECT band, any_value(state) AS state, any_value(group_type) AS group_type, min(log_timestamp) AS since,
               min(epoch) AS first_epoch, max(epoch) AS last_epoch, min(member_count) AS fewest,
               max(member_count) AS most, bool_and(coalesce(is_exact, true)) AS is_exact
        FROM numbered GROUP BY band
    )
    SELECT state, group_type, since, lead(since) OVER (ORDER BY band) AS until, first_epoch, last_epoch, fewest, most,
           is_exact
    FROM bands
    QUALIFY since < $end AND coalesce(until > $start, true)
    ORDER BY band
"""

_ASSIGNED = """array_to_string(list_transform({column}, lambda one:
    coalesce(one.topic, one.topic_id) || ':' || array_to_string(one.partitions, ',')), '; ')"""

_MEMBERS = f"""
    SELECT member_id, instance_id, client_id, client_host, group_type, member_state, member_epoch,
           coalesce(list_sum(list_transform(assigned, lambda one: len(one.partitions))), 0)
           + coalesce(list_sum(list_transform(pending_revocation, lambda one: len(one.partitions))), 0) AS partitions,
           {_ASSIGNED.format(column="assigned")} AS assigned,
           {_ASSIGNED.format(column="pending_revocation")} AS pending,
           valid_from, valid_to
    FROM member_timeline
    WHERE cluster = $cluster AND group_id = $group
      AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
    ORDER BY coalesce(valid_from, $start) DESC, from_offset DESC, member_id
    LIMIT $most + 1
"""  # noqa: S608 - put together from constants

_OWNERS = """
    SELECT coalesce(topic, topic_id, '?') AS topic, partition, member_id, instance_id, owned_from, owned_to,
           release_event, unowned_ms
    FROM partition_ownership
    WHERE cluster = $cluster AND group_id = $group
      AND coalesce(owned_to + to_milliseconds(coalesce(unowned_ms, 0)) >= $start, true)
      AND coalesce(owned_from < $end, true)
    ORDER BY coalesce(owned_from, $start) DESC, topic, partition
    LIMIT $most + 1
"""

# Of each stretch of time a line keeps its last commit; what went backwards, or ended otherwise, is always kept.
_COMMITS = """
    WITH inside AS (
        SELECT topic, partition, committed_offset, valid_from, valid_to, from_offset, ended_by,
               floor((epoch_ms(valid_from) - epoch_ms($start)) * $points
                     / greatest(epoch_ms($end) - epoch_ms($start), 1)) AS stretch
        FROM offset_history
        WHERE cluster = $cluster AND group_id = $group
          AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
    ), compared AS (
        SELECT *, lag(committed_offset) OVER in_order AS before,
               lead(stretch) OVER in_order IS DISTINCT FROM stretch AS is_last
        FROM inside WINDOW in_order AS (PARTITION BY topic, partition ORDER BY from_offset)
    )
    SELECT topic, partition, committed_offset, greatest(valid_from, $start), valid_to,
           coalesce(ended_by, 'COMMIT') AS ended_by, CASE WHEN committed_offset < before THEN before END AS back_from
    FROM compared
    WHERE is_last OR committed_offset < before OR coalesce(ended_by, 'COMMIT') <> 'COMMIT'
    ORDER BY topic, partition, from_offset
"""

_LINES = """
    SELECT count(*), coalesce(sum(commits), 0) FROM (
        SELECT topic, partition, count(*) AS commits FROM offset_history
        WHERE cluster = $cluster AND group_id = $group
          AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
        GROUP BY topic, partition
    )
"""


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
class GroupLife:
    """What happened to a group from one moment to another, by time.

    Attributes:
        start: where the pictures begin.
        end: where they end.
        commit_count: commits in the tables, of which ``commits`` are those that the lines keep.
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
    expirations: tuple[ExpiredOffset, ...]
    notes: tuple[str, ...]


Interval = TypeVar("Interval", MemberSpan, Holding)


def _latest(
    kind: type[Interval], rows: list[tuple[Any, ...]], most: int, what: str, notes: list[str]
) -> tuple[Interval, ...]:
    """Rows that came latest first as intervals by time, and a note where there were more."""
    if len(rows) > most:
        notes.append(f"Only the latest {most:,} intervals of {what} are here: ask for less with --from and --to.")
    names = kind.__slots__
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in reversed(rows[:most]))


def window_of(
    warehouse: Warehouse, group: str, start: datetime | None, end: datetime | None
) -> tuple[datetime, datetime]:
    """The stretch of time that pictures of a group show: from its first record to the end of the log read.

    Raises:
        UsageError: the tables don't know the group, or nothing of that stretch of time.
    """
    warehouse.check_range(start, end)
    first, last = warehouse.rows(_SPAN, group=group)[0]
    if first is None:
        check_group(warehouse, group)
    covered = warehouse.coverage
    start = start or first or covered.first
    end = end or max(covered.last, last or covered.last)
    warehouse.check_range(start, end if end > start else None)
    return start, max(start, end)


def life_of(
    warehouse: Warehouse,
    group: str,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    with_commits: bool = True,
    most_intervals: int = MOST_INTERVALS,
) -> GroupLife:
    """What happened to a group from one moment to another.

    Args:
        warehouse: the tables.
        group: the group.
        start: from then on; its first record if None.
        end: up to then; the end of the log read if None.
        with_commits: False leaves out committed offsets and expirations.
        most_intervals: of members, and of owners; the latest ones count.

    Raises:
        UsageError: the tables don't know the group, or nothing of that stretch of time.
    """
    start, end = window_of(warehouse, group, start, end)
    notes: list[str] = []
    asked: dict[str, Any] = {"group": group, "start": start, "end": end}
    states = [StateBand(**dict(zip(StateBand.__slots__, row, strict=True))) for row in warehouse.rows(_STATES, **asked)]
    commits: list[Commit] = []
    commit_count = 0
    if with_commits:
        lines, commit_count = warehouse.rows(_LINES, **asked)[0]
        points = min(max(_POINTS_EACH.start, MOST_POINTS // max(lines, 1)), _POINTS_EACH.stop)
        commits = [
            Commit(**dict(zip(Commit.__slots__, row, strict=True)))
            for row in warehouse.rows(_COMMITS, points=points, **asked)
        ]
        if commit_count > len(commits):
            notes.append(f"Lines show {len(commits):,} of {commit_count:,} commits: the last of each short stretch.")
    return GroupLife(
        group=group,
        start=start,
        end=end,
        states=tuple(states),
        members=_latest(
            MemberSpan, warehouse.rows(_MEMBERS, most=most_intervals, **asked), most_intervals, "members", notes
        ),
        holdings=_latest(
            Holding, warehouse.rows(_OWNERS, most=most_intervals, **asked), most_intervals, "ownership", notes
        ),
        rebalances=tuple(rebalances_of(warehouse, group, start, end)) if end > start else (),
        commits=tuple(commits),
        commit_count=commit_count,
        expirations=tuple(expired_offsets(warehouse, group)) if with_commits else (),
        notes=tuple(notes),
    )
