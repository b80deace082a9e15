"""The life of one group over a time range, as pictures need it.

What there may be ten thousands of is a named tuple, which is made faster than a dataclass.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from coordinator_replay.query.expired import ExpiredOffset
from coordinator_replay.query.findings import Finding
from coordinator_replay.query.rebalances import Rebalance


class StateBand(NamedTuple):
    """A time range in which a group stayed in one state; ``until`` is None for the last one."""

    state: str
    group_type: str
    since: datetime
    until: datetime | None
    first_epoch: int | None
    last_epoch: int | None
    fewest_members: int | None
    most_members: int | None
    is_exact: bool


class MemberSpan(NamedTuple):
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


class Holding(NamedTuple):
    """An interval in which a member owned a partition; ``topic`` is the id where no source gave the name."""

    topic: str
    partition: int
    member_id: str
    instance_id: str | None
    owned_from: datetime | None
    owned_to: datetime | None
    release_event: str | None
    unowned_ms: int | None


class Commit(NamedTuple):
    """A committed offset of a partition's line.

    Attributes:
        at: since when it held, not before the time range asked for.
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


class Subscription(NamedTuple):
    """A time range in which some member of the group subscribed to a topic.

    Attributes:
        topic: None where members may subscribe to any topic (by a regular expression, or in a way that the tables
            don't tell); empty for the stretches in which the group had members at all.
    """

    topic: str | None
    since: datetime | None
    until: datetime | None


class Pause(NamedTuple):
    """The longest pause between two commits of a partition around a rebalance: its ``commit_pause_ms``."""

    rebalance_id: str
    topic: str
    partition: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLife:
    """What happened to a group from one time to another, by time.

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
    pauses: tuple[Pause, ...]
    commits: tuple[Commit, ...]
    commit_count: int
    subscriptions: tuple[Subscription, ...]
    expirations: tuple[ExpiredOffset, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
