"""Rebalances: what belongs together, from when to when, why, and what it cost: the table ``rebalances``.

In consumer, share and streams groups every new group epoch is a rebalance of its own, with a reason of its own: the
broker logs each as one. It is over when the group has reached the targets of that epoch or of a later one; an epoch
that is overtaken is over together with the one that overtook it. In classic groups every new generation is one. Its
beginning is not on disk: ``started_at`` is the end of the join phase where the record has it, so ``duration_ms`` is
the least it can have taken.

Joins and leaves count to the first rebalance that begins with or after them; the time for which nobody owned a
partition counts to the rebalance in which it was given up. A row is final once a later rebalance is over too, because
until then partitions given up in it may still be without an owner.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from coordinator_replay.analysis.members import Members
from coordinator_replay.analysis.ownership import Handover, Ownership
from coordinator_replay.analysis.reasons import NO_CHANGES, Past, Reason, Situation, TopicChanges, reason_of
from coordinator_replay.analysis.reasons.arrivals import returns
from coordinator_replay.analysis.rows import Row, Scope, Topics
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupType

TABLE = "rebalances"

# Looked up once: these stand in the way of every event.
JOINED, LEFT = EventKind.MEMBER_JOINED, EventKind.MEMBER_LEFT

GENERATIONS = frozenset({EventKind.REBALANCE_COMPLETED, EventKind.GROUP_EMPTIED, EventKind.EPOCH_CHANGED})
"""Events of a classic group that tell of a new generation."""

ENDS = frozenset(
    {
        EventKind.GROUP_EMPTIED,
        EventKind.REBALANCE_COMPLETED,
        EventKind.GROUP_CONVERTED,
        EventKind.GROUP_DELETED,
    }
)
"""Events after which no rebalance of the group is running any more."""

OPENS_OR_ENDS = GENERATIONS | ENDS | {EventKind.REBALANCE_STARTED}


@dataclass(slots=True)
class Rebalance:
    """One rebalance so far; ``is_counted`` once the partitions owned at its end were counted."""

    rebalance_id: str
    group_type: str
    epoch: int
    attempts: int
    started_ms: int
    completed_ms: int | None
    members_before: int
    members_after: int
    is_exact: bool
    joined: list[str]
    left: list[str]
    cause: str
    join_reason: str
    confidence: str
    evidence: list[str]
    alternatives: list[str]
    triggers: list[str]
    metadata_delay_ms: int | None
    moved: int = 0
    partitions: int = 0
    is_counted: bool = False
    unowned_ms_max: int = 0
    unowned_ms_total: int = 0


_values = attrgetter(*Rebalance.__slots__)


def rebalance_id(scope: Scope, partition: int, offset: int) -> str:
    """The id of the rebalance that a record began: the same in every run over the same log.

    >>> rebalance_id(Scope("default", "orders"), 3, 117)
    '8e4bb10c601a9af9491bb57ca31df591'
    """
    place = "\x00".join((scope.cluster, scope.group_id, str(partition), str(offset)))
    return hashlib.sha256(place.encode()).hexdigest()[:32]


class Rebalances:
    """The fold over rebalances.

    Attributes:
        running: rebalances that are not over, and those over whose cost may still rise, oldest first.
        member_count: members when the last rebalance began.
        joined: members that came since then.
        left: members that went since then.
        past: what reasons rest on beside the operation at hand.
        partitions: how many are owned since the last operation.
        has_completed: whether one has ended whose partitions are not counted yet.
    """

    __slots__ = (
        "_members",
        "_ownership",
        "_topic_changes",
        "_topics",
        "has_completed",
        "joined",
        "left",
        "member_count",
        "partitions",
        "past",
        "running",
        "scope",
    )

    def __init__(
        self,
        scope: Scope,
        topics: Topics,
        members: Members,
        ownership: Ownership,
        topic_changes: TopicChanges = NO_CHANGES,
    ) -> None:
        self.scope = scope
        self._topics = topics
        self._members = members
        self._ownership = ownership
        self._topic_changes = topic_changes
        self.running: list[Rebalance] = []
        self.partitions = 0
        self.has_completed = False
        self.member_count = 0
        self.joined: list[str] = []
        self.left: list[str] = []
        self.past = Past(topics)

    def begin(self, events: Sequence[Event], at_ms: int, last_ms: int) -> str | None:
        """Open and close rebalances by one operation's events; called before other folds take them.

        Returns:
            The id of the rebalance that the operation belongs to.
        """
        current = next((one for one in reversed(self.running) if one.completed_ms is None), None)
        belongs_to = current.rebalance_id if current is not None else None
        opened: Situation | None = None
        for event in events:
            kind = event.kind
            if kind is JOINED or kind is LEFT:
                (self.joined if kind is JOINED else self.left).append(event.member_id or "")
            elif kind in OPENS_OR_ENDS:
                started_ms, completed_ms = _opens(event, at_ms, last_ms)
                if started_ms is not None:
                    opened = self._situation(events, event, at_ms, started_ms)
                    belongs_to = self._open(opened, completed_ms)
                if kind in ENDS:
                    self._complete(at_ms, is_exact=event.is_exact)
        self.past.watch(events, at_ms)
        if opened is not None:
            back, _ = returns(opened)
            self.past.begin(opened.started_ms, self.running[-1].join_reason, {one.departed.member_id for one in back})
        return belongs_to

    def end(self, handovers: Sequence[Handover], partitions: int) -> Iterator[Row]:
        """Count what an operation handed over; yields the rebalances that are final by it."""
        if handovers:
            self._count(handovers)
        self.partitions = partitions
        running = self.running
        if self.has_completed:
            # A group that is never stable has ever more rebalances that run: only an end is a reason to see to them.
            self.has_completed = False
            self._count_partitions()
        while len(running) > 1 and running[0].completed_ms is not None and running[1].completed_ms is not None:
            yield self._row(running.pop(0))

    def _count_partitions(self) -> None:
        for one in self.running:
            if not one.is_counted:
                one.partitions = self.partitions
                one.is_counted = one.completed_ms is not None

    def _count(self, handovers: Sequence[Handover]) -> None:
        by_id = {one.rebalance_id: one for one in self.running}
        for handover in handovers:
            one = by_id.get(handover.rebalance_id or "")
            if one is not None:
                one.moved += handover.is_moved
                one.unowned_ms_total += handover.unowned_ms
                one.unowned_ms_max = max(one.unowned_ms_max, handover.unowned_ms)

    def open_rows(self) -> Iterator[Row]:
        """Rebalances that are not over, and those whose cost is not final."""
        self._count_partitions()
        for one in self.running:
            yield self._row(one)

    def _situation(self, events: Sequence[Event], opening: Event, at_ms: int, started_ms: int) -> Situation:
        self.past.settle_commits(opening.offset)
        return Situation(
            events,
            opening,
            at_ms=at_ms,
            started_ms=started_ms,
            before={member_id: stay.member for member_id, stay in self._members.stays.items()},
            unrevoked_since=self._ownership.unrevoked_since,
            past=self.past,
            topics=self._topics,
            topic_changes=self._topic_changes,
        )

    def _open(self, situation: Situation, completed_ms: int | None) -> str:
        event, reason = situation.opening, reason_of(situation)
        one = Rebalance(
            rebalance_id(self.scope, event.partition, event.offset),
            str(event.group_type),
            event.epoch,
            event.changes.get("attempts") or 1,
            situation.started_ms,
            completed_ms,
            self.member_count,
            event.member_count,
            event.is_exact,
            self.joined,
            self.left,
            **_plain(reason),
        )
        self.running.append(one)
        self.has_completed |= completed_ms is not None
        self.member_count = event.member_count
        self.joined, self.left = [], []
        return one.rebalance_id

    def _complete(self, at_ms: int, *, is_exact: bool) -> None:
        for one in self.running:
            if one.completed_ms is None:
                one.completed_ms = at_ms
                self.has_completed = True
                one.is_exact = one.is_exact and is_exact

    def _row(self, one: Rebalance) -> Row:
        return TABLE, {
            "rebalance_id": one.rebalance_id,
            "cluster": self.scope.cluster,
            "group_id": self.scope.group_id,
            "group_type": one.group_type,
            "epoch": one.epoch,
            "attempts": one.attempts,
            "started_at": one.started_ms,
            "completed_at": one.completed_ms,
            "duration_ms": one.completed_ms - one.started_ms if one.completed_ms is not None else None,
            "join_reason": one.join_reason,
            "cause": one.cause,
            "confidence": one.confidence,
            "evidence": list(one.evidence),
            "alternatives": list(one.alternatives),
            "trigger_members": list(one.triggers),
            "members_before": one.members_before,
            "members_after": one.members_after,
            "members_joined": list(one.joined),
            "members_left": list(one.left),
            "partitions_moved": one.moved,
            "partitions_total": one.partitions,
            "unowned_ms_max": one.unowned_ms_max,
            "unowned_ms_total": one.unowned_ms_total,
            "metadata_delay_ms": one.metadata_delay_ms,
            "is_exact": one.is_exact,
        }

    def snapshot(self) -> dict[str, Any]:
        """Running rebalances as plain data."""
        self._count_partitions()
        return {
            "running": [list(_values(one)) for one in self.running],
            "member_count": self.member_count,
            "joined": self.joined,
            "left": self.left,
            "past": self.past.snapshot(),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from ``snapshot``."""
        self.running = [Rebalance(**dict(zip(Rebalance.__slots__, one, strict=True))) for one in plain["running"]]
        self.partitions = next((one.partitions for one in self.running if not one.is_counted), 0)
        self.member_count = plain["member_count"]
        self.joined, self.left = list(plain["joined"]), list(plain["left"])
        self.past = Past.restore(plain["past"], self._topics)


def _opens(event: Event, at_ms: int, last_ms: int) -> tuple[int | None, int | None]:
    """When the rebalance that an event tells of began and ended, None where it tells of none or of no end."""
    kind = event.kind
    if kind is EventKind.REBALANCE_STARTED:
        return at_ms, None
    if event.group_type is GroupType.CLASSIC and kind in GENERATIONS:
        return _join_done(event, at_ms, last_ms), at_ms
    return (at_ms, at_ms) if kind is EventKind.GROUP_EMPTIED else (None, None)


def _plain(reason: Reason) -> dict[str, Any]:
    """A reason as a rebalance keeps it: fit for a snapshot and a row."""
    return {
        "cause": str(reason.cause),
        "join_reason": str(reason.join_reason),
        "confidence": str(reason.confidence),
        "evidence": list(reason.evidence),
        "alternatives": [str(cause) for cause in reason.alternatives],
        "triggers": list(reason.triggers),
        "metadata_delay_ms": reason.metadata_delay_ms,
    }


def _join_done(event: Event, at_ms: int, last_ms: int) -> int:
    """The end of a classic join phase, as far as the record has it, not before the operation before."""
    joined_ms = event.changes.get("join_done_ms")
    return at_ms if joined_ms is None else int(min(max(joined_ms, last_ms), at_ms))
