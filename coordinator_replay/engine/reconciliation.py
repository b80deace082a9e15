"""Reconciliation of consumer, share and streams groups: epochs, members, and the members' target assignments.

Mirrors ``ModernGroup`` and the part of ``GroupMetadataManager.replay`` that is the same for the three types. The broker
refuses to load some logs. It refuses a tombstone of a member that still has an epoch, and a tombstone of a group that
still has members. Compacted and partial copies have such records, so this module continues and marks the operation as
not exact.

In the broker's memory, a new group has group epoch 1 and assignment epoch 1. So the first epoch in a record is usually
2.
"""

from dataclasses import dataclass, field

from coordinator_replay.engine.model import (
    JOINING,
    LEFT_EPOCH,
    NOTHING,
    Assignment,
    Current,
    Member,
    MemberState,
    Record,
    Subscription,
    Target,
    without,
)
from coordinator_replay.engine.operation import Operation

INITIAL_EPOCH = 1
STABLE = MemberState.STABLE
NO_ASSIGNMENT_EPOCH = -1


@dataclass(slots=True, eq=False)
class Reconciliation:
    """Epochs, members and targets of one group, updated by each record.

    Attributes:
        birth_missing: ``missing_before`` of the group's first record; None if the group's beginning is not in the log.
        epoch_missing: ``missing_before`` of the record with the group epoch; None if no such record was seen.
        assignment_missing: ``missing_before`` of the record with the target assignment epoch; None if no such record
            was seen.
        early_targets: target assignments of members that have no other record.
        unreconciled: members that have not reached their target assignment.
        incomplete: members whose subscription or current assignment has not been seen.
        owners: owner by topic and partition, after the last operation.
        target_owners: owner by topic and partition in the target assignments.
        is_rebalancing: whether some members have not reached the target assignment of the group epoch yet. None if they
            may have reached it in records that are missing.
    """

    birth_missing: int | None = None
    epoch: int = INITIAL_EPOCH
    epoch_missing: int | None = None
    assignment_epoch: int = INITIAL_EPOCH
    assignment_missing: int | None = None
    assignment_timestamp_ms: int = 0
    metadata_hash: int = 0
    is_rebalancing: bool | None = False
    members: dict[str, Member] = field(default_factory=dict)
    early_targets: dict[str, Target] = field(default_factory=dict)
    owners: dict[tuple[str, int], str] = field(default_factory=dict)
    target_owners: dict[tuple[str, int], str] = field(default_factory=dict)
    unreconciled: set[str] = field(default_factory=set, init=False)
    incomplete: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        for member in self.members.values():
            self.put(member)

    def target_of(self, member_id: str) -> Target | None:
        """Return a member's target assignment; None if it has none.

        A member may have a target assignment although no other record of the member was seen.
        """
        member = self.members.get(member_id)
        return self.early_targets.get(member_id) if member is None else member.target

    def target_partitions(self, member_id: str) -> Assignment:
        """Return the partitions of a member's target assignment.

        If the member has no target assignment, return an empty assignment.
        """
        target = self.target_of(member_id)
        return target.assigned if target is not None else NOTHING

    def has_targets(self) -> bool:
        """Return whether there is any target assignment."""
        return bool(self.early_targets) or any(member.target is not None for member in self.members.values())

    def bump_epoch(self, record: Record, operation: Operation, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch and the metadata hash from a ``…GroupMetadata`` record (kind 3, 11 or 17)."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.epoch_missing = record.missing_before
        operation.at["epoch"] = record.offset

    def install(self, record: Record, operation: Operation) -> None:
        """Set the target assignment epoch from a ``…TargetAssignmentMetadata`` record (kind 6, 12 or 20).

        A tombstone sets the epoch to -1.
        """
        value = record.value
        if value is None:
            if self.has_targets():
                operation.is_exact = False
            self.assignment_epoch, self.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0
        else:
            self.assignment_epoch = value.get("assignmentEpoch", NO_ASSIGNMENT_EPOCH)
            self.assignment_timestamp_ms = value.get("assignmentTimestamp", 0)
        self.assignment_missing = record.missing_before
        operation.at["assignment_epoch"] = record.offset
        self.find_unreconciled()

    def find_unreconciled(self) -> None:
        """Set ``unreconciled`` to the members that have not reached their target assignment."""
        self.unreconciled = {member_id for member_id, member in self.members.items() if not self.is_reconciled(member)}

    def is_reconciled(self, member: Member) -> bool:
        """Return whether a member has reached its target assignment.

        Such a member has the state STABLE, and its epoch is the target assignment epoch.
        """
        current = member.current or JOINING
        return current.state is STABLE and current.epoch == self.assignment_epoch

    def has_converged(self) -> bool:
        """Return whether the group has members and all of them reached the target of the group epoch."""
        return bool(self.members) and not self.unreconciled and self.assignment_epoch >= self.epoch

    def subscribe(self, record: Record, operation: Operation, subscription: Subscription) -> None:
        """Set a member's subscription.

        Create the member if it is unknown. Keep the assignment of a known member.
        """
        member_id = record.key["memberId"]
        before = self.members.get(member_id)
        operation.wrote_subscription = True
        operation.touch(member_id, before).subscription_at = record.offset
        if before is None:
            member = Member(member_id, subscription, None, self.early_targets.pop(member_id, None))
        else:
            member = Member(member_id, subscription, before.current, before.target)
        self.put(member)

    def assign(self, record: Record, operation: Operation, current: Current) -> None:
        """Set a member's current assignment.

        If the member is unknown, create it without a subscription.
        """
        member_id = record.key["memberId"]
        before = self.members.get(member_id)
        operation.touch(member_id, before).current_at = record.offset
        if before is None:
            operation.wrote_subscription = True
            member = Member(member_id, None, current, self.early_targets.pop(member_id, None))
        else:
            member = Member(member_id, before.subscription, current, before.target)
        self.put(member)

    def update_target(self, record: Record, operation: Operation, target: Target | None) -> None:
        """Set or remove a member's target assignment, even if no other record of the member was seen.

        Args:
            record: the record with the target assignment, or its tombstone.
            operation: the operation of the record.
            target: the target assignment; None to remove it.
        """
        member_id = record.key["memberId"]
        before = self.members.get(member_id)
        old = self.target_of(member_id)
        if target is None and old is None:
            return
        operation.wrote_target = True
        touch = operation.touch(member_id, before)
        if touch.target_at is None:
            touch.target_before = old
        touch.target_at = record.offset
        if before is not None:
            self.members[member_id] = Member(member_id, before.subscription, before.current, target)
        elif target is not None:
            self.early_targets[member_id] = target
        else:
            del self.early_targets[member_id]

    def remove_assignment(self, record: Record, operation: Operation) -> None:
        """Replay the tombstone of a current assignment.

        The member stays, without partitions, until it is removed.
        """
        member_id = record.key["memberId"]
        before = self.members.get(member_id)
        if before is None:
            return
        operation.touch(member_id, before).current_at = record.offset
        state = (before.current or JOINING).state
        departed = Current(LEFT_EPOCH, LEFT_EPOCH, state, NOTHING, missing=record.missing_before)
        self.put(Member(member_id, before.subscription, departed, before.target))

    def remove(self, record: Record, operation: Operation) -> None:
        """Replay the tombstone of a member's subscription, which removes the member."""
        member_id = record.key["memberId"]
        before = self.members.get(member_id)
        if before is None:
            return
        operation.wrote_subscription = True
        operation.touch(member_id, before).subscription_at = record.offset
        if (before.current or JOINING).epoch != LEFT_EPOCH or before.target is not None:
            operation.is_exact = False
        del self.members[member_id]
        if before.target is not None:
            self.early_targets[member_id] = before.target
        self.unreconciled.discard(member_id)
        self.incomplete.discard(member_id)

    def put(self, member: Member) -> None:
        """Store a member, and update ``unreconciled`` and ``incomplete`` for this member."""
        self.members[member.member_id] = member
        if self.is_reconciled(member):
            self.unreconciled.discard(member.member_id)
        else:
            self.unreconciled.add(member.member_id)
        if member.subscription is None or member.current is None:
            self.incomplete.add(member.member_id)
        else:
            self.incomplete.discard(member.member_id)

    def remove_group(self, record: Record, operation: Operation) -> None:
        """Replay the tombstone of the group.

        The operation removes the remaining members too.
        """
        if self.members or self.early_targets or self.assignment_epoch != NO_ASSIGNMENT_EPOCH:
            operation.is_exact = False
        for member_id, member in self.members.items():
            operation.touch(member_id, member)
        operation.at["removed"] = record.offset


def assign_partitions(
    owners: dict[tuple[str, int], str],
    changes: list[tuple[str, Assignment, Assignment]],
) -> list[tuple[str, int, str, str]]:
    """Move partitions between owners.

    First take away the partitions that members have lost, then assign the partitions that members have got.

    Args:
        owners: owner by topic and partition; changed in place.
        changes: tuples of three: member id, the member's partitions before, and its partitions after.

    Returns:
        The partitions that a member got while another member owned them: topic, partition, other member, new owner.
    """
    contested = []
    for member_id, old, new in changes:
        if not old:
            continue
        for topic, partitions in without(old, new).items():
            for partition in partitions:
                if owners.get((topic, partition)) == member_id:
                    del owners[topic, partition]
    for member_id, old, new in changes:
        for topic, partitions in without(new, old).items() if old else new.items():
            for partition in partitions:
                key = (topic, partition)
                holder = owners.get(key)
                if holder is not None and holder != member_id:
                    contested.append((topic, partition, holder, member_id))
                owners[key] = member_id
    return contested
