"""One operation of the coordinator: the records that it wrote for one group.

A handled request or an expired timer appends all its records at once, with one timestamp, in an order fixed by the
coordinator's code. So records of one group belong to one operation while the timestamp stays the same and the order
continues. A record of an earlier phase (``PHASE``) begins the next operation, even in the same millisecond. Batches
don't separate operations, because the broker gathers several operations in one batch. (Source:
``GroupMetadataManager``, the orders of heartbeat, leave, static replacement, conversion and deletion.)

There is one exception to the order. When a static member returns, the coordinator first writes copies of its records,
the last copy at member epoch 0. Then it writes the ordinary records of the same operation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.engine.model import (
    GroupState,
    GroupType,
    Member,
    Record,
    Regex,
    Target,
    TopicMetadata,
    Topology,
)

REMOVES, SUBSCRIBES, BUMPS, TARGETS, INSTALLS, RECONCILES, CLASSIC = range(1, 8)

_MODERN_PHASES: Mapping[str, int] = {
    "MemberMetadata": SUBSCRIBES,
    "Metadata": BUMPS,
    "TargetAssignmentMember": TARGETS,
    "TargetAssignmentMetadata": INSTALLS,
    "CurrentMemberAssignment": RECONCILES,
}
"""The phase (see ``PHASE``) of a record with a value, for consumer, share and streams groups.

The key is the part of the kind's name after the group's type.
"""

PHASE: Mapping[tuple[str, bool], int] = {
    ("GroupMetadata", True): 0,
    ("GroupMetadata", False): CLASSIC,
    ("ConsumerGroupPartitionMetadata", False): SUBSCRIBES,
    ("ConsumerGroupRegularExpression", False): SUBSCRIBES,
    ("StreamsGroupTopology", False): SUBSCRIBES,
    **{
        (f"{group}{kind}", is_tombstone): REMOVES if is_tombstone else phase
        for group in ("ConsumerGroup", "ShareGroup", "StreamsGroup")
        for kind, phase in _MODERN_PHASES.items()
        for is_tombstone in (True, False)
    },
}
"""The phase of a record, its place in the order, by record kind and whether the record is a tombstone. Other kinds may
come anywhere."""

ONCE = frozenset({BUMPS, INSTALLS, CLASSIC})
"""Phases in which an operation has at most one record."""


Previous = Topology | Regex | tuple[TopicMetadata, ...] | Mapping[str, Any] | None
"""A field of a group before an operation changed it, see ``Operation.changes``."""


@dataclass(slots=True)
class Header:
    """The fields of a group before an operation, without its members.

    Attributes:
        epoch: the group epoch; the generation of a classic group.
        assignment_epoch: the target assignment epoch; None for a classic group.
        epoch_missing: number of missing log offsets before the record with ``epoch`` (``Record.missing_before``); None
            if no such record was seen.
        assignment_missing: the same number for the record with ``assignment_epoch``.
        protocol: the chosen protocol of a classic group, or the assignor of a consumer group.
    """

    group_type: GroupType
    state: GroupState
    epoch: int
    assignment_epoch: int | None
    member_count: int
    epoch_missing: int | None = None
    assignment_missing: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    metadata_hash: int = 0
    is_simple: bool = False


@dataclass(slots=True)
class Touch:
    """A member before the operation, and the log offsets of the operation's last records about the member.

    Attributes:
        before: None if the member is new.
        last_at: log offset of the last record of any kind.
        target_before: the member's target before the operation, even if the member is new.
        subscription_at: log offset of the last record of the member's subscription; None if there is none.
        current_at: the same for the member's current assignment.
        target_at: the same for the member's target assignment.
    """

    before: Member | None
    last_at: int
    target_before: Target | None = None
    subscription_at: int | None = None
    current_at: int | None = None
    target_at: int | None = None


@dataclass(slots=True)
class Operation:
    """The records of one operation on one group.

    The object gathers records until the next operation begins.

    Attributes:
        phase: the phase of the operation's last record: a number that grows in the order of records (see ``PHASE``).
        is_exact: False if records may be missing before or inside the operation. Also False if the records contradict
            each other, and missing records can explain this (see ``rules``).
        missing: ``missing_before`` of the operation's last record.
        before: the group before the operation; None if the group did not exist.
        members: the members that the operation touched.
        at: by field of the group itself, such as ``epoch`` or ``removed``, the log offset of the last record about it.
        changes: by field of the group itself, the value before the operation.
        damage: rules that a single record broke, each as a tuple of its name, a detail and the record's log offset.
        wrote_subscription: whether the operation wrote or removed a member's subscription, or created a member.
        wrote_target: whether the operation wrote or removed a member's target assignment.
    """

    partition: int
    timestamp_ms: int | None
    first_offset: int
    last_offset: int
    phase: int
    is_exact: bool
    missing: int
    before: Header | None
    members: dict[str, Touch] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    changes: dict[str, Previous] = field(default_factory=dict)
    damage: list[tuple[str, dict[str, Any], int]] = field(default_factory=list)
    wrote_subscription: bool = False
    wrote_target: bool = False

    def ends_before(self, record: Record, phase: int | None) -> bool:
        """Return whether a record begins the next operation, so that this operation ends before the record.

        Args:
            record: the group's next record.
            phase: the record's phase (see ``PHASE``); None if a record of this kind may come at any place in an
                operation.
        """
        if record.timestamp_ms != self.timestamp_ms or record.partition != self.partition:
            return True
        if phase is None or phase > self.phase:
            return False
        if phase < self.phase:
            return True
        if phase == RECONCILES:
            touch = self.members.get(record.key["memberId"])
            return touch is not None and touch.current_at is not None
        return phase in ONCE

    def take(self, record: Record, phase: int | None) -> None:
        """Add a record to the operation.

        Args:
            record: the record.
            phase: the record's phase (see ``PHASE``); None if a record of this kind may come at any place in an
                operation.
        """
        self.last_offset = record.offset
        if record.missing_before > self.missing:
            self.is_exact = False
            self.missing = record.missing_before
        if phase is None:
            return
        if phase == RECONCILES and record.value is not None and record.value.get("memberEpoch") == 0:
            self.phase = SUBSCRIBES
        else:
            self.phase = phase

    def touch(self, member_id: str, before: Member | None) -> Touch:
        """Note that the operation has a record about a member. Return the operation's data about this member.

        Args:
            member_id: the member.
            before: the member just before this record. Only the operation's first record about the member uses this.
        """
        touch = self.members.get(member_id)
        if touch is None:
            touch = self.members[member_id] = Touch(before, self.last_offset)
        else:
            touch.last_at = self.last_offset
        return touch
