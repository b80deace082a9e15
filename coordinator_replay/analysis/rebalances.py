"""Rebalances with their start, end, cause and costs: rows of ``rebalances``.

In consumer, share and streams groups, every new group epoch is a rebalance with its own reason, as in the broker's log.
Such a rebalance is over when the group has reached the targets of its epoch or of a later one. If a newer rebalance
overtakes it, both are over at the same time. A classic group has a rebalance for every new generation. The beginning of
a classic rebalance is not on record, so ``started_at`` and ``duration_ms`` are null, and there are two bounds instead:

- The rebalance took at least as long as the sync: the time from the end of the join phase (``currentStateTimestamp``)
  to the generation's record. If records are missing before this record, an earlier record of the generation may be
  among them: a restart of a static member writes the generation again. Then the rebalance may have ended earlier, and
  this bound is unknown.
- The rebalance took at most the time since the group's previous record. A record of a classic group is written when the
  group becomes Stable or Empty, or when a static member is replaced while the group is Stable. So a rebalance begins
  after such a record. The only exception is the record of generation 0, which creates a group while its first member
  joins. An offset commit is no bound: Kafka accepts commits of a generation while its members are joining again
  (``ClassicGroup.validateOffsetCommit`` refuses them only in CompletingRebalance). The join phase also lasts no longer
  than the largest rebalance timeout of the members, if no generation was skipped (``attempts`` is 1); see
  ``join_phase.longest_join_ms`` for the exceptions.

A join or leave counts for the first rebalance that begins with it or after it. The time in which a partition has no
owner counts for the rebalance in which the partition was revoked. The row of a rebalance is final when the next
rebalance has ended as well, because until then its revoked partitions may still have no owner. If the cause is not
certain, the row also waits for HINDSIGHT_MS (an hour): a later rebalance in this time may show more about the cause
(``reasons.hindsight``).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.analysis.members import MemberReplay
from coordinator_replay.analysis.ownership import Handover, OwnershipReplay, join_done
from coordinator_replay.analysis.reasons.arrivals import has_twin, returns
from coordinator_replay.analysis.reasons.explanation import Reason
from coordinator_replay.analysis.reasons.facts import FACTS, fact_rows
from coordinator_replay.analysis.reasons.hindsight import (
    HINDSIGHT_MS,
    Revision,
    is_open,
    returned_by,
    revised,
    revisions,
    twins,
)
from coordinator_replay.analysis.reasons.history import FIELDS as HISTORY
from coordinator_replay.analysis.reasons.history import GroupHistory
from coordinator_replay.analysis.reasons.join_phase import longest_join_ms
from coordinator_replay.analysis.reasons.member_rules import FIRST_GENERATION
from coordinator_replay.analysis.reasons.sentences import sentences
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.table import (
    PROVEN_ALONE,
    reason_of,
    with_unknown_conversion,
    with_unknown_departures,
    with_unseen_beginnings,
)
from coordinator_replay.analysis.reasons.topic_changes import NO_CHANGES, TopicChanges
from coordinator_replay.analysis.rows import RecordTopics, Row, Scope
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupType
from coordinator_replay.engine.plain import Fields
from coordinator_replay.times import elapsed_ms, latest_ms, time_order

TABLE = "rebalances"

# Looked up once, because every event needs them.
JOINED, LEFT = EventKind.MEMBER_JOINED, EventKind.MEMBER_LEFT

ASKS = frozenset({EventKind.MEMBER_JOINED, EventKind.SUBSCRIPTION_CHANGED})
"""Events by which a member asks for topics."""

GENERATIONS = frozenset({EventKind.REBALANCE_COMPLETED, EventKind.GROUP_EMPTIED, EventKind.EPOCH_CHANGED})
"""Events of a classic group that begin a new generation."""

ENDS = frozenset(
    {
        EventKind.GROUP_EMPTIED,
        EventKind.REBALANCE_COMPLETED,
        EventKind.GROUP_CONVERTED,
        EventKind.GROUP_DELETED,
    }
)
"""Events after which no rebalance of the group is in progress."""

WAIT_FOR_EACH_OTHER = frozenset({GroupType.CONSUMER, GroupType.STREAMS})
"""Types of groups in which a member gets a partition only after another has revoked it."""

MOST_AWAITING = 64
"""Largest number of rebalances whose reason waits for facts from later rebalances."""

MOST_APPEND_MS = 5_000
"""Default of ``offsets.commit.timeout.ms``: the longest time that the coordinator waits until its record is stored."""

BEFORE_ALL = -1
"""A log offset below all others."""

MOST_HELD_UP = 64
"""Largest number of open rebalances that one member can block; in a group that is never Stable their number grows
without end."""

BEGINS = frozenset({EventKind.REBALANCE_STARTED, EventKind.GROUP_EMPTIED})
"""Events that begin a new rebalance in a group of any type."""

BEGINS_OR_ENDS = GENERATIONS | ENDS | BEGINS


@dataclass(slots=True)
class OpenRebalance:
    """A rebalance that may still change. Fields that are not described here are columns of ``rebalances``.

    Attributes:
        attempts: number of generations since the last one on record; 1 if no generation failed in between.
        started_ms: start of the rebalance; for a classic rebalance, the latest possible start. This time and all other
            times are None before the group's first record with a time.
        earliest_ms: the earliest possible start; None if the log does not show it.
        completed_at: end of the rebalance, in milliseconds; None while it is in progress, or if the record has no time.
        completed_offset: log offset of the record that completed the rebalance; None while it is in progress.
        members_before: members before the rebalance; None if no record shows the group just before it.
        is_counted: whether the partitions owned at the end of the rebalance were counted.
        held_up_by: id of the last member that revoked partitions after other members had waited for them.
        held_up_ms: how long the rebalance waited for this member.
        held_up_until_ms: time at which this member revoked the partitions.
        unowned_ms_max: longest time for which a partition had no owner after the rebalance revoked it; None if no such
            time is on record.
        log_partition: the log partition of the rebalance's first record.
        is_end_proven: whether no record is missing that may show another end.
        reason_open_until_ms: the time up to which a later rebalance may show more about the reason; 0 if no later
            rebalance can.
        is_unowned_known: False if a partition went to another member within a join phase, whose times are not on
            record.
    """

    rebalance_id: str
    group_type: str
    epoch: int
    attempts: int
    started_ms: int | None
    earliest_ms: int | None
    completed_at: int | None
    completed_offset: int | None
    members_before: int | None
    members_after: int
    is_exact: bool
    members_joined: list[str]
    members_left: list[str]
    reason: Reason
    log_partition: int
    partitions_reassigned: int = 0
    partitions_total: int = 0
    partitions_added: int = 0
    is_counted: bool = False
    held_up_by: str | None = None
    held_up_ms: int | None = None
    held_up_until_ms: int | None = None
    unowned_ms_max: int | None = None
    unowned_ms_total: int | None = None
    is_unowned_known: bool = True
    is_end_proven: bool = True
    reason_open_until_ms: int = 0

    @property
    def is_over(self) -> bool:
        """Return whether every member has its assignment."""
        return self.completed_offset is not None


_SHOWN = (
    *("rebalance_id", "group_type", "epoch", "attempts", "completed_at", "completed_offset"),
    *("members_before", "members_after", "members_joined", "members_left", "held_up_by", "held_up_ms"),
    *("partitions_reassigned", "partitions_added", "partitions_total", "is_exact", "log_partition"),
)
"""Fields of a rebalance that the table shows unchanged."""


def rebalance_id(scope: Scope, partition: int, offset: int) -> str:
    """Return the id of a rebalance. The id is the same in every run over the same log.

    Args:
        scope: the group.
        partition: log partition of the record that began the rebalance.
        offset: log offset of this record.

    >>> rebalance_id(Scope("default", "orders"), 3, 117)
    '8e4bb10c601a9af9491bb57ca31df591'
    """
    place = "\x00".join((scope.cluster, scope.group_id, str(partition), str(offset)))
    return hashlib.sha256(place.encode()).hexdigest()[:32]


@dataclass(slots=True)
class Rebalances:
    """The fold over rebalances.

    Attributes:
        scope: the group's cluster and name.
        topics: names of the topics in the group's records.
        members: the members before the present operation.
        ownership: the owners of partitions.
        topic_changes: when topics changed, as far as known.
        running: rebalances in progress, and finished rebalances whose numbers may still change, oldest first.
        awaiting_reason: finished rebalances of which only the reason may still change, oldest first.
        member_count: number of members when the last rebalance began.
        joined: members that joined since the last rebalance began.
        left: members that left since the last rebalance began.
        is_step_exact: whether the last operation was proven.
        history: facts from earlier operations, for finding the causes of rebalances.
        lost_at: the last log offset at which records were missing.
        open_join_at: log offset of the last rebalance whose new members may have been in the group before.
        unproven_at: log offset of the last unproven operation; None if all operations are proven.
        unproven_ms: time of the last unproven operation.
        last_generation: the last generation of a classic group on record; None if the group's last rebalance is not of
            a classic group.
        last_generation_ms: time of this generation's record; None if the record has no time.
        has_completed: whether a rebalance has ended and its partitions are not counted yet.
    """

    scope: Scope
    topics: RecordTopics
    members: MemberReplay
    ownership: OwnershipReplay
    topic_changes: TopicChanges = field(default_factory=lambda: NO_CHANGES)
    running: list[OpenRebalance] = field(default_factory=list)
    awaiting_reason: list[OpenRebalance] = field(default_factory=list)
    has_completed: bool = False
    member_count: int = 0
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    is_step_exact: bool = True
    lost_at: int = BEFORE_ALL
    open_join_at: int = BEFORE_ALL
    unproven_at: int | None = None
    unproven_ms: int | None = None
    last_generation: int | None = None
    last_generation_ms: int | None = None
    history: GroupHistory = field(init=False)

    def __post_init__(self) -> None:
        """Create the history of facts, which is empty."""
        self.history = GroupHistory(self.topics)

    def begin(self, events: Sequence[Event], at_ms: int | None, last_ms: int | None) -> str | None:
        """Begin and end rebalances, as the events of an operation show.

        Call this before ``members`` and ``ownership`` get the events.

        Args:
            events: the events of one operation.
            at_ms: time of the operation.
            last_ms: the latest time of the group's earlier operations; None if no earlier operation has a time.

        Returns:
            The id of the rebalance that the operation belongs to; None if it belongs to no rebalance.
        """
        belongs_to = next(
            (rebalance.rebalance_id for rebalance in reversed(self.running) if not rebalance.is_over), None
        )
        opened: Situation | None = None
        is_first_exact = self._is_first_exact(events[-1])
        for event in events:
            kind = event.kind
            if kind is JOINED or kind is LEFT:
                (self.joined if kind is JOINED else self.left).append(event.member_id or "")
            elif kind in BEGINS_OR_ENDS:
                if self._is_written_again(event, last_ms):
                    self.member_count, self.joined, self.left = event.member_count, [], []
                elif _begins(event):
                    opened = self._situation(events, event, at_ms, _started_ms(event, at_ms, last_ms))
                    belongs_to = self._open(opened, _earliest(opened, last_ms))
                    if is_first_exact and event.group_type is GroupType.CLASSIC:
                        self._doubt_first(self.running[-1])
                if kind in ENDS:
                    self._complete(at_ms, event)
        self.history.watch(events, at_ms)
        if opened is not None:
            for revision in revisions(opened):
                self._revise(revision)
            asking = {event.member_id for event in events if event.kind in ASKS and event.member_id is not None}
            join_reason = self.running[-1].reason.join_reason
            self.history.begin(opened.started_ms, join_reason, returned_by(opened), asking, twins(opened))
        return belongs_to

    def _is_first_exact(self, last: Event) -> bool:
        """Store whether an operation is proven. Return whether it is the first proven one after missing records.

        Args:
            last: the last event of the operation.
        """
        was_exact, self.is_step_exact = self.is_step_exact, last.is_exact
        if not last.is_exact:
            self.unproven_at, self.unproven_ms = last.offset, last.timestamp_ms
        elif not was_exact:
            # The members at the start of the last rebalance may be incomplete; from here on they are known.
            self.member_count, self.joined, self.left = len(self.members.stays), [], []
        return last.is_exact and not was_exact

    def _is_written_again(self, event: Event, last_ms: int | None) -> bool:
        """Return whether a classic group's first record after missing records repeats the last generation on record.

        The coordinator writes a generation again when a static member comes back. ``currentStateTimestamp`` is then
        still the time at which the group became Stable, at most ``MOST_APPEND_MS`` after the generation's own record. A
        group that was deleted and created again can have the same generation, but became Stable at a later time.

        Args:
            event: the event of a generation.
            last_ms: the latest time of the group's earlier operations; None if no earlier operation has a time.
        """
        if event.is_exact or event.group_type is not GroupType.CLASSIC or event.kind not in GENERATIONS:
            return False
        before, generation = event.changes.get("epoch") or (None, None)
        stable_ms, ended_ms = event.changes.get("join_done_ms"), self.last_generation_ms
        if before is not None or generation is None or generation != self.last_generation or stable_ms is None:
            return False
        latest = latest_ms(last_ms, None if ended_ms is None else ended_ms + MOST_APPEND_MS)
        return latest is not None and stable_ms <= latest

    def end(self, rebalance_id: str | None, at_ms: int | None) -> Iterator[Row]:
        """Add the partitions that changed their owner in an operation to the rebalances that moved them.

        Yield the rebalances that no later record can change.

        Args:
            rebalance_id: the rebalance that the operation belongs to.
            at_ms: time of the operation.
        """
        ownership, running = self.ownership, self.running
        if ownership.handovers:
            self._count(ownership.handovers)
        if ownership.added and running and running[-1].rebalance_id == rebalance_id:
            running[-1].partitions_added += ownership.added
        if self.has_completed:
            # A group that is never Stable has more and more open rebalances, so they are examined only if one ends.
            self.has_completed = False
            self._count_partitions()
        while len(running) > 1 and running[0].is_over and running[1].is_over:
            self.awaiting_reason.append(running.pop(0))
        if self.awaiting_reason:
            yield from self._with_final_reason(at_ms)

    def _with_final_reason(self, at_ms: int | None) -> Iterator[Row]:
        """Yield rebalances whose reason no later rebalance can change."""
        waiting: list[OpenRebalance] = []
        too_many = len(self.awaiting_reason) - MOST_AWAITING
        for place, rebalance in enumerate(self.awaiting_reason):
            if place < too_many or rebalance.reason_open_until_ms <= (at_ms or 0):
                yield self._row(rebalance)
            else:
                waiting.append(rebalance)
        self.awaiting_reason = waiting

    def _revise(self, revision: Revision) -> None:
        """Give an earlier rebalance the reason that is known now."""
        for rebalance in reversed([*self.awaiting_reason, *self.running[:-1]]):
            if revision.member_id in (rebalance.members_joined if revision.has_joined else rebalance.members_left):
                rebalance.reason = revised(rebalance.reason, revision)
                return

    def _count_partitions(self) -> None:
        for rebalance in self.running:
            if not rebalance.is_counted:
                rebalance.partitions_total = self.ownership.partition_count
                rebalance.is_counted = rebalance.is_over

    def _count(self, handovers: Sequence[Handover]) -> None:
        by_id = {rebalance.rebalance_id: rebalance for rebalance in self.running}
        for handover in handovers:
            rebalance = by_id.get(handover.rebalance_id or "")
            if rebalance is not None:
                rebalance.partitions_reassigned += handover.is_moved
                _count_unowned(rebalance, handover.unowned_ms)
            if handover.is_moved and handover.awaited_ms is not None:
                for rebalance in self.running[-MOST_HELD_UP:]:
                    _count_wait(rebalance, handover, handover.awaited_ms)

    def lose_track(self, offset: int) -> None:
        """Mark rebalances as not exact, because records are missing from log offset ``offset`` on.

        The missing records may show the end, the reason or the costs (such as times without an owner) of running
        rebalances. A finished rebalance stays exact if no later record can change it: its reason is final, and every
        partition that it revoked has an owner.
        """
        self.lost_at = offset
        unowned_since = {gap.rebalance_id for gap in self.ownership.gaps.values()}
        for rebalance in (*self.awaiting_reason, *self.running):
            rebalance.is_exact &= (
                rebalance.is_over and not rebalance.reason_open_until_ms and rebalance.rebalance_id not in unowned_since
            )
            rebalance.is_end_proven &= rebalance.is_over

    def open_rows(self) -> Iterator[Row]:
        """Yield rebalances that are in progress, and finished rebalances whose numbers may still change."""
        self._count_partitions()
        for rebalance in (*self.awaiting_reason, *self.running):
            yield self._row(rebalance)

    def _situation(
        self, events: Sequence[Event], opening: Event, at_ms: int | None, started_ms: int | None
    ) -> Situation:
        self.history.count_commits(opening.offset, at_ms)
        return Situation(
            events,
            opening,
            at_ms=at_ms,
            started_ms=started_ms,
            before={member_id: stay.member for member_id, stay in self.members.stays.items()},
            unrevoked_since=self.ownership.unrevoked_since,
            history=self.history,
            topics=self.topics,
            topic_changes=self.topic_changes,
        )

    def _open(self, situation: Situation, earliest_ms: int | None) -> str:
        event, reason = situation.opening, reason_of(situation)
        members_before = self.member_count if self.is_step_exact else None
        if event.group_type is GroupType.CLASSIC and event.epoch == FIRST_GENERATION:
            members_before = 0
        is_over = event.kind is not EventKind.REBALANCE_STARTED
        may_be_back, are_others_open = self._doubts(situation) if event.is_exact else (False, False)
        if may_be_back and reason.cause not in PROVEN_ALONE:
            reason = with_unknown_departures(reason)
        if self._may_lack_a_rebalance():
            # A change of topics may have led to a rebalance that is not on record.
            reason = reason._replace(metadata_delay_ms=None)
        if are_others_open:
            self.open_join_at = event.offset
        rebalance = OpenRebalance(
            rebalance_id(self.scope, event.partition, event.offset),
            str(event.group_type),
            event.epoch,
            event.changes.get("attempts") or 1,
            situation.started_ms,
            earliest_ms,
            situation.at_ms if is_over else None,
            event.offset if is_over else None,
            members_before,
            event.member_count,
            event.is_exact and not are_others_open and not self._may_have_been_back(situation),
            self.joined,
            self.left,
            reason,
            event.partition,
            is_end_proven=event.is_exact or not is_over,
        )
        if is_open(situation):
            # A rebalance without a time becomes final with the group's first record that has a time.
            rebalance.reason_open_until_ms = (situation.at_ms or 0) + HINDSIGHT_MS
        is_classic = event.group_type is GroupType.CLASSIC
        if not is_classic:
            rebalance.unowned_ms_max = rebalance.unowned_ms_total = 0
        self.running.append(rebalance)
        self.last_generation = event.epoch if is_classic else None
        self.last_generation_ms = situation.at_ms if is_classic else None
        self.has_completed |= is_over
        self.member_count = event.member_count
        self.joined, self.left = [], []
        return rebalance.rebalance_id

    def _doubt_first(self, open_rebalance: OpenRebalance) -> None:
        """Mark a classic rebalance as not exact, because the record of a downgrade may be missing before it.

        If members joined or left in the rebalance, change nothing.
        """
        if open_rebalance.members_joined or open_rebalance.members_left:
            return
        open_rebalance.is_exact = False
        if self.history.conversion is None:
            open_rebalance.reason = with_unknown_conversion(open_rebalance.reason)

    def _may_lack_a_rebalance(self) -> bool:
        """Return whether records may be missing since the last rebalance on record."""
        if self.unproven_at is None:
            return False
        return time_order(self.history.rebalanced_ms) <= time_order(self.unproven_ms)

    def _doubts(self, situation: Situation) -> tuple[bool, bool]:
        """Return whether members that joined may have been removed earlier, in missing records.

        Returns:
            Two answers. The first says whether a joined member may be a client that was removed in missing records. The
            second says whether a joined member may be another client than the records suggest. If the first answer is
            true, the second is true, too.
        """
        if self.unproven_at is None:
            return False, False
        back, new = returns(situation)
        away_ms = elapsed_ms(self.unproven_ms, situation.started_ms)
        is_recent = away_ms is None or away_ms <= HINDSIGHT_MS
        may_be_back = any(is_recent or member.instance_id is not None for member, _ in new)
        may_be_back |= any(
            returned.departed.offset <= self.unproven_at for returned in back if is_recent or returned.is_sure
        )
        return may_be_back, may_be_back or (is_recent and not all(returned.is_sure for returned in back))

    def _may_have_been_back(self, situation: Situation) -> bool:
        """Return whether records may be missing that show that removed members were alive or had come back."""
        for event in situation.left:
            sign = self.history.last_seen(event.member_id or "")
            since = BEFORE_ALL if sign is None else sign.offset
            if since <= self.lost_at or (since <= self.open_join_at and has_twin(situation, event.before)):
                return True
        return False

    def _complete(self, at_ms: int | None, by: Event) -> None:
        for rebalance in self.running:
            if not rebalance.is_over:
                rebalance.completed_at, rebalance.completed_offset = at_ms, by.offset
                self.has_completed = True
                rebalance.is_exact = rebalance.is_exact and by.is_exact
                rebalance.is_end_proven = rebalance.is_end_proven and by.is_exact

    def _row(self, open_rebalance: OpenRebalance) -> Row:
        is_classic = open_rebalance.group_type == GroupType.CLASSIC
        reason = with_unseen_beginnings(open_rebalance.reason)
        # If records are missing, a partition may have had no owner. So a total of 0 is not known.
        is_unowned_known = open_rebalance.is_unowned_known and (
            open_rebalance.is_exact or bool(open_rebalance.unowned_ms_total)
        )
        # A static member's restart writes a generation again, so the first remaining record may not be the one that
        # ended it.
        least_ms = (
            elapsed_ms(open_rebalance.started_ms, open_rebalance.completed_at) if open_rebalance.is_end_proven else None
        )
        return TABLE, {name: getattr(open_rebalance, name) for name in _SHOWN} | {
            "started_at": None if is_classic else open_rebalance.started_ms,
            "began_by": open_rebalance.started_ms,
            "is_end_open": open_rebalance.is_over and not open_rebalance.is_end_proven,
            "duration_ms": None if is_classic else least_ms,
            "duration_ms_min": least_ms,
            "duration_ms_max": elapsed_ms(open_rebalance.earliest_ms, open_rebalance.completed_at)
            if open_rebalance.is_end_proven
            else None,
            # Offset commits are not replayed here; a later stage fills in these columns.
            "commit_pause_ms": None,
            "is_pause_at_least": None,
            "join_reason": str(reason.join_reason),
            "cause": str(reason.cause),
            "confidence": str(reason.confidence),
            "evidence": sentences(reason.evidence),
            FACTS: fact_rows(reason.evidence),
            "alternatives": list(map(str, reason.alternatives)),
            "trigger_members": list(reason.triggers),
            "unowned_ms_max": open_rebalance.unowned_ms_max if is_unowned_known else None,
            "unowned_ms_total": open_rebalance.unowned_ms_total if is_unowned_known else None,
            "metadata_delay_ms": reason.metadata_delay_ms,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return running rebalances as plain data."""
        self._count_partitions()
        return {**FIELDS.write(self), "history": HISTORY.write(self.history)}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Continue from ``snapshot``."""
        FIELDS.read(self, plain)
        HISTORY.read(self.history, plain["history"])


FIELDS = Fields(
    Rebalances,
    *("running", "awaiting_reason", "member_count", "joined", "left"),
    *("is_step_exact", "lost_at", "open_join_at", "unproven_at", "unproven_ms"),
    *("last_generation", "last_generation_ms"),
)
"""The fields in a snapshot, besides the history."""


def _begins(event: Event) -> bool:
    """Return whether an event begins a new rebalance."""
    is_generation = event.group_type is GroupType.CLASSIC and event.kind in GENERATIONS
    return is_generation or event.kind in BEGINS


def _started_ms(event: Event, at_ms: int | None, last_ms: int | None) -> int | None:
    """Return when the rebalance of an event began.

    For a classic rebalance, return the latest possible start.

    Args:
        event: the event that shows the rebalance.
        at_ms: time of the event's operation.
        last_ms: the latest time of the group's earlier operations; None if no earlier operation has a time.
    """
    if event.group_type is GroupType.CLASSIC and event.kind in GENERATIONS:
        return join_done(event.changes.get("join_done_ms"), at_ms, last_ms)
    return at_ms


def _earliest(situation: Situation, last_ms: int | None) -> int | None:
    """Return the earliest possible start of a rebalance.

    Return None if the log does not show it.

    Args:
        situation: the rebalance.
        last_ms: the latest time of the group's earlier operations; None if no earlier operation has a time.
    """
    event, started_ms = situation.opening, situation.started_ms
    if event.group_type is not GroupType.CLASSIC:
        return started_ms
    if not event.is_exact or started_ms is None or _has_turned_back(event, last_ms):
        return None
    before, _ = event.changes.get("epoch") or (None, None)
    # The first record of a new group, generation 0, is written while its first member is joining.
    bounds = [last_ms] if last_ms is not None and before != 0 else []
    timeout_ms = longest_join_ms(situation)
    if timeout_ms is not None and event.changes.get("join_done_ms") is not None and event.changes.get("attempts") == 1:
        bounds.append(started_ms - timeout_ms)
    return min(max(bounds), started_ms) if bounds else None


def _has_turned_back(event: Event, last_ms: int | None) -> bool:
    """Return whether one of an event's times is before ``last_ms``, the latest time of the group's earlier operations.

    This happens if the clocks of brokers differ.
    """
    times = [at_ms for at_ms in (event.timestamp_ms, event.changes.get("join_done_ms")) if at_ms is not None]
    return last_ms is not None and bool(times) and min(times) < last_ms


def _count_unowned(open_rebalance: OpenRebalance, unowned_ms: int | None) -> None:
    if unowned_ms is None:
        open_rebalance.is_unowned_known = False
        return
    open_rebalance.unowned_ms_total = (open_rebalance.unowned_ms_total or 0) + unowned_ms
    open_rebalance.unowned_ms_max = max(open_rebalance.unowned_ms_max or 0, unowned_ms)


def _count_wait(open_rebalance: OpenRebalance, handover: Handover, awaited_ms: int) -> None:
    """Store how long a rebalance waited until a member gave up a partition that another member was to get.

    If the rebalance waited for several members, the last one to give up a partition counts.

    Args:
        open_rebalance: the rebalance.
        handover: the handover of the partition from the one member to the other.
        awaited_ms: time at which the target assignment took the partition from its owner.
    """
    if open_rebalance.group_type not in WAIT_FOR_EACH_OTHER:
        return
    if open_rebalance.is_over and time_order(open_rebalance.completed_at) < time_order(handover.released_ms):
        return
    waited_ms = elapsed_ms(latest_ms(awaited_ms, open_rebalance.started_ms), handover.released_ms) or 0
    if waited_ms > 0 and time_order(handover.released_ms) >= time_order(open_rebalance.held_up_until_ms):
        open_rebalance.held_up_by, open_rebalance.held_up_ms, open_rebalance.held_up_until_ms = (
            handover.member_id,
            waited_ms,
            handover.released_ms,
        )
