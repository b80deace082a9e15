"""Members of consumer groups: how a request finds its member, and the records of members.

Mirrors the checks of ``GroupMetadataManager.consumerGroupHeartbeat`` that come before the member's record
``ConsumerGroupMemberMetadata`` is written. A member of the classic protocol gets the same checks, except the checks of
epochs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from coordinator_replay.engine.consumer_group import MEMBER_STATES, ConsumerGroup
from coordinator_replay.engine.model import (
    AWAY_EPOCH,
    JOINING,
    NOTHING,
    Current,
    Member,
    MemberState,
    Subscription,
)
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.consumer.current_assignment_builder import Owned, owns_only, with_epochs
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.live_groups.consumer_group import ConsumerState
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import Shard

STATE_NUMBERS: Mapping[MemberState, int] = {state: number for number, state in MEMBER_STATES.items()}
KINDS_OF_A_MEMBER = (
    "ConsumerGroupCurrentMemberAssignment",
    "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupMemberMetadata",
)
"""The records of each member, in the order in which their tombstones are written."""
NEW_SUBSCRIPTION = Subscription(client_id="", client_host="", topics=())
"""The subscription of a new member before its first request is applied."""


@dataclass(slots=True)
class GroupUpdate:
    """The consumer group of an operation, and the records that the operation is going to write.

    Attributes:
        group: the group as its records show it; a new group if the operation creates the group.
        state: the part of the group's state that is not in ``group``.
        records: the records to write so far, in order.
        is_new: whether the operation creates the group.
        named_topics: the topics that the request lists, in the request's order.
    """

    shard: Shard
    group_id: str
    group: ConsumerGroup
    state: ConsumerState
    records: list[NewRecord] = field(default_factory=list)
    is_new: bool = False
    named_topics: Sequence[str] = ()

    def classic_members(self) -> list[Member]:
        """Return members that use the classic protocol."""
        return [member for member in self.group.members.values() if member.subscription_or_empty.uses_classic_protocol]

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member with an instance id; None if there is no such member."""
        if instance_id is None:
            return None
        member_id = self.state.static_members.get(instance_id)
        return self.group.members.get(member_id) if member_id is not None else None


def existing_group(shard: Shard, group_id: str, *, only_reads: bool = False) -> GroupUpdate:
    """Return a consumer group that must exist.

    Args:
        shard: the coordinator's state.
        group_id: the group.
        only_reads: whether the request only reads the group.

    Raises:
        RequestError: GROUP_ID_NOT_FOUND.
    """
    group = shard.committed_group(group_id) if only_reads else shard.group(group_id)
    if group is None:
        raise RequestError("GROUP_ID_NOT_FOUND", f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise RequestError("GROUP_ID_NOT_FOUND", f"Group {group_id} is not a consumer group.")
    return GroupUpdate(shard, group_id, group, shard.consumer_states[group_id])


def new_group(shard: Shard, group_id: str) -> GroupUpdate:
    """Return a consumer group that the operation creates."""
    return GroupUpdate(shard, group_id, ConsumerGroup(group_id), ConsumerState(), is_new=True)


def check_size(update: GroupUpdate, member_id: str) -> None:
    """Refuse a new member of a full group.

    Raises:
        RequestError: GROUP_MAX_SIZE_REACHED.
    """
    limit = update.shard.config.number("group.consumer.max.size")
    if len(update.group.members) >= limit and member_id not in update.group.members:
        raise RequestError(
            "GROUP_MAX_SIZE_REACHED", f"The consumer group has reached its maximum capacity of {limit} members."
        )


def dynamic_member(update: GroupUpdate, member_id: str, *, is_joining: bool) -> Member:
    """Return the member with an id.

    If there is none and the member is joining, return a new member.

    Raises:
        RequestError: UNKNOWN_MEMBER_ID.
    """
    member = update.group.members.get(member_id)
    if member is not None:
        return member
    if not is_joining:
        raise unknown_member(update.group_id, member_id)
    update.shard.note(f"Member {member_id} joins the consumer group.")
    return Member(member_id, NEW_SUBSCRIPTION, JOINING)


def existing_member(update: GroupUpdate, member_id: str, instance_id: str | None) -> Member:
    """Return the member that a request names by its ids.

    Raises:
        RequestError: the member is unknown, or its instance id belongs to another member.
    """
    if instance_id is None:
        return dynamic_member(update, member_id, is_joining=False)
    return owning_static_member(update.static_member(instance_id), member_id, instance_id)


def static_member(
    update: GroupUpdate, member_id: str, instance_id: str, *, is_joining: bool, uses_classic_protocol: bool
) -> Member:
    """Return the member with an instance id.

    If a member is joining, the result is a new member that replaces the old member with this instance id.

    Raises:
        RequestError: UNRELEASED_INSTANCE_ID if the old member is still in the group. UNKNOWN_MEMBER_ID if the member is
            not joining and its instance id is unknown. FENCED_INSTANCE_ID if the instance id belongs to another member.
    """
    static_member = update.static_member(instance_id)
    if not is_joining:
        return owning_static_member(static_member, member_id, instance_id)
    if static_member is None:
        return dynamic_member(update, member_id, is_joining=True)
    subscription = static_member.subscription_or_empty
    is_away = current_of(static_member).epoch == AWAY_EPOCH
    if not uses_classic_protocol and not subscription.uses_classic_protocol and not is_away:
        raise RequestError(
            "UNRELEASED_INSTANCE_ID",
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {static_member.member_id} member.",
        )
    return replace_member(update, static_member, member_id)


def owning_static_member(owner: Member | None, member_id: str, instance_id: str) -> Member:
    """Return the owner of an instance id, after checking that the request names the owner's member id.

    Raises:
        RequestError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if owner is None:
        raise RequestError("UNKNOWN_MEMBER_ID", f"Instance id {instance_id} is unknown.")
    if owner.member_id != member_id:
        raise RequestError(
            "FENCED_INSTANCE_ID",
            f"Static member {member_id} with instance id {instance_id} was fenced by member {owner.member_id}.",
        )
    return owner


def check_epoch(member: Member, epoch: int, owned: Owned) -> None:
    """Check the epoch that a request names.

    The member's epoch and epoch 0 are accepted. The previous member epoch is accepted if the request lists the owned
    partitions, and if each of these partitions is in the member's current assignment.

    Raises:
        RequestError: FENCED_MEMBER_EPOCH.
    """
    current = current_of(member)
    if epoch in (0, current.epoch):
        return
    if epoch > current.epoch:
        size = "greater"
    elif epoch != current.previous_epoch or not owns_only(owned, current.assigned or NOTHING):
        size = "smaller"
    else:
        return
    raise RequestError(
        "FENCED_MEMBER_EPOCH",
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin.",
    )


def replace_member(update: GroupUpdate, old: Member, member_id: str) -> Member:
    """Return a static member with a new member id and epoch 0.

    Add tombstones for the old member id, and records for the new member id, to the group's records.
    """
    group_id = update.group_id
    new = Member(member_id, old.subscription, current_of(old)._replace(epoch=0, previous_epoch=0), old.target)
    update.shard.note(
        f"Static member with instance id {old.instance_id} re-joins the consumer group. "
        f"Created a new member {member_id} to replace the existing member {old.member_id}."
    )
    target = update.state.targets.get(old.member_id, NOTHING)
    update.records += removal_records(group_id, old.member_id)
    update.records += (
        record_helpers.member_metadata(group_id, member_id, member_value(new.subscription_or_empty)),
        record_helpers.target(group_id, member_id, target),
        record_helpers.current_assignment(group_id, member_id, current_value(current_of(new), old=current_of(old))),
    )
    return new


def removal_records(group_id: str, member_id: str) -> list[NewRecord]:
    """Return the three tombstones of a member."""
    return [record_helpers.tombstone(kind, groupId=group_id, memberId=member_id) for kind in KINDS_OF_A_MEMBER]


def consumer_group_tombstones(
    shard: Shard, group: ConsumerGroup, renamed: Mapping[str, str] | None = None
) -> list[NewRecord]:
    """Return tombstones of all records of a consumer group and its members, except its offsets.

    Args:
        shard: the coordinator's state.
        group: the group to remove.
        renamed: new member ids, by the old member ids. The tombstones have the new member ids.
    """
    group_id, other_ids = group.group_id, renamed or {}
    members = [other_ids.get(member_id, member_id) for member_id in shard.consumer_states[group_id].members]
    tombstone = partial(record_helpers.tombstone, groupId=group_id)
    current, target, metadata = ([tombstone(kind, memberId=member) for member in members] for kind in KINDS_OF_A_MEMBER)
    return [
        *current,
        *target,
        tombstone("ConsumerGroupTargetAssignmentMetadata"),
        *metadata,
        *(tombstone("ConsumerGroupRegularExpression", regularExpression=expression) for expression in group.regexes),
        tombstone("ConsumerGroupPartitionMetadata"),
        tombstone("ConsumerGroupMetadata"),
    ]


def unknown_member(group_id: str, member_id: str) -> RequestError:
    """Return the error UNKNOWN_MEMBER_ID."""
    return RequestError("UNKNOWN_MEMBER_ID", f"Member {member_id} is not a member of group {group_id}.")


def current_of(member: Member) -> Current:
    """Return a member's current assignment.

    If no record has a current assignment, return an empty one.
    """
    return member.current if member.current is not None else JOINING


def member_value(subscription: Subscription) -> dict[str, Any]:
    """Return the value of a member metadata record."""
    classic = None
    if subscription.uses_classic_protocol:
        classic = {
            "sessionTimeoutMs": subscription.session_timeout_ms,
            "supportedProtocols": [
                {"name": protocol.name, "metadata": protocol.metadata} for protocol in subscription.protocols
            ],
        }
    return {
        "instanceId": subscription.instance_id,
        "rackId": subscription.rack_id,
        "clientId": subscription.client_id or "",
        "clientHost": subscription.client_host or "",
        "subscribedTopicNames": sorted(subscription.topics or ()),
        "subscribedTopicRegex": subscription.regex or "",
        "rebalanceTimeoutMs": subscription.rebalance_timeout_ms,
        "serverAssignor": subscription.assignor,
        "classicMemberMetadata": classic,
    }


def current_value(current: Current, old: Current | None = None) -> dict[str, Any]:
    """Return the value of a current assignment record.

    Args:
        current: the member's current assignment.
        old: the member's assignment before ``current``; None to use ``current``. Its member epoch is written for each
            partition that has no epoch of its own.
    """
    epoch = (old or current).epoch
    return {
        "memberEpoch": current.epoch,
        "previousMemberEpoch": current.previous_epoch,
        "state": STATE_NUMBERS[current.state or MemberState.STABLE],
        "assignedPartitions": with_epochs(current.assigned or NOTHING, current.assigned_epochs, epoch),
        "partitionsPendingRevocation": with_epochs(current.pending, current.pending_epochs, epoch),
    }
