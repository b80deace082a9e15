"""The recorded life of a group (everything that happened to it in a time range), in a form for pictures.

There may be tens of thousands of time ranges of members and owners, and even more commits. So time ranges are named
tuples, which are faster than dataclasses, and commits are lists of numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from coordinator_replay.query.expired import ExpiredOffset
from coordinator_replay.query.findings import Finding
from coordinator_replay.query.groups import LastState
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.rollouts import Rollout


class StateBand(NamedTuple):
    """A time range in which a group stayed in one state.

    Attributes:
        since: start of the time range; None if the state began before the group's first record with a time.
        until: end of the time range; None for the group's last state.
        is_logged: whether the state is only in a broker's log, and not in a record.
        is_exact: whether the log proves the state: no record of the time range is missing.
    """

    state: str
    group_type: str
    since: datetime | None
    until: datetime | None
    first_epoch: int | None
    last_epoch: int | None
    fewest_members: int | None
    most_members: int | None
    is_exact: bool
    is_logged: bool


class MemberSpan(NamedTuple):
    """An interval in which a member did not change, with its partitions as text.

    Attributes:
        is_client_inherited: whether client id and host may be from an earlier process of this static member.
        partitions: number of partitions in ``assigned`` and ``pending`` together.
        assigned: the partitions that the member owned.
        pending: the partitions that the member had to give up.
        from_ms: start of the interval; None if unknown.
        to_ms: end of the interval; None if it has not ended.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    is_client_inherited: bool
    group_type: str | None
    member_state: str | None
    member_epoch: int | None
    partitions: int
    assigned: str
    pending: str
    from_ms: int | None
    to_ms: int | None


class OwnedInterval(NamedTuple):
    """An interval in which a member owned a partition.

    Attributes:
        topic: the topic's name, or the topic's id if the name is unknown.
        from_ms: start of the interval; None if unknown.
        to_ms: end of the interval; None if it has not ended.
        unowned_ms: how long nobody owned the partition before its next owner; None if that is not on record.
        unowned: start and end of each time without an owner between this interval and the partition's next owner. The
            end is None if the partition still has no owner. The list is None if these times are not on record.
        is_exact: whether the log proves that the member owned the partition in the whole interval.
    """

    topic: str
    partition: int
    member_id: str
    instance_id: str | None
    from_ms: int | None
    to_ms: int | None
    released_by: str | None
    unowned_ms: int | None
    unowned: Sequence[tuple[int, int | None]] | None
    is_exact: bool


class OffsetLine(NamedTuple):
    """The committed offsets of a partition, in log order, as a line of a picture.

    Times are milliseconds since the start of the picture's time range.

    Attributes:
        at: for each offset, the time from which it was in force.
        offsets: the committed offsets.
        until: for each offset, the time at which the line ends after this offset; None if the line goes on to the next
            offset.
        last_until: the time up to which the last offset was in force; the end of the time range if it is in force
            there.
        marked: offsets with a mark: the offset went backwards, was removed, or is negative. Each is a dict. Its
            ``back_from`` is the higher offset before it, if the offset went backwards. ``removed_by`` says what removed
            the offset. ``lost_offset`` is the offset that a negative offset replaced.
    """

    topic: str
    partition: int
    at: list[int]
    offsets: list[int]
    until: list[int | None]
    last_until: int
    marked: list[dict[str, Any]]


class FirstRecords(NamedTuple):
    """The first record of a group, and its first record that is not a commit.

    Attributes:
        at: time of the first record; None if the record has no time.
        offset: log offset of the first record.
        own_offset: log offset of the group's first record that is not a commit; None if the group has only commits.
        is_begin_exact: whether the log proves the group's state from the record at ``own_offset`` on.
    """

    at: datetime | None
    offset: int | None
    own_offset: int | None
    is_begin_exact: bool


class RecordAfterHole(NamedTuple):
    """The first record of a group after a hole: a time range in which records of the log partition are missing.

    Attributes:
        since: the time from which the group is Dead, as far as the records show.
        at: time of the group's next record after ``since``; None if there is none.
        offset: log offset of this record; None if there is none.
        begin_open_offset: log offset of the next record that shows the group, but not since when the group exists; None
            if there is none.
    """

    since: datetime
    at: datetime | None
    offset: int | None
    begin_open_offset: int | None


class CommitPause(NamedTuple):
    """The commit pause around a rebalance: the time without commits of the partition that paused for the longest time.

    Attributes:
        rebalance_id: the rebalance.
        topic: topic of the partition whose commits paused.
        partition: number of this partition.
        since: time of the last commit before the pause.
        until: end of the pause.
    """

    rebalance_id: str
    topic: str
    partition: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLife:
    """The recorded life of a group: everything that happened to the group in a time range.

    Attributes:
        start: start of the time range.
        end: end of the time range.
        log_partition: the partition of ``__consumer_offsets`` with the group's records.
        lines: the committed offsets of each partition. If there are too many for a figure, some are left out.
        commit_count: number of offset commits in the time range.
        first: time and log offset of the group's first record, and of its first record that is not an offset commit.
        outcome: state of the group at the end of the time range, or its deletion.
        notes: sentences that say what was left out because there was too much of it.
    """

    group: str
    start: datetime
    end: datetime
    log_partition: int | None
    first: FirstRecords
    outcome: LastState
    states: tuple[StateBand, ...]
    members: tuple[MemberSpan, ...]
    holdings: tuple[OwnedInterval, ...]
    rebalances: tuple[Rebalance, ...]
    pauses: tuple[CommitPause, ...]
    lines: tuple[OffsetLine, ...]
    commit_count: int
    expirations: tuple[ExpiredOffset, ...]
    findings: tuple[Finding, ...]
    rollouts: tuple[Rollout, ...]
    notes: tuple[str, ...]
