"""A classic group, built from ``GroupMetadata`` records (kind 2).

Mirrors Kafka's class ``classic.ClassicGroup`` (class ``GroupMetadata`` in older brokers) as far as the log shows the
group. The log has only the outcome of each rebalance. Each value replaces the whole group. A group without members is
then Empty, a group with members Stable. No record shows PreparingRebalance, CompletingRebalance or Dead.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.engine.model import (
    Assignment,
    Current,
    GroupState,
    GroupType,
    Member,
    Protocol,
    Record,
    Subscription,
    Target,
    partitions_by_topic,
)
from coordinator_replay.engine.operation import Header

CONSUMER_PROTOCOL_TYPE = "consumer"
UNKNOWN_TIMESTAMP = -1


@dataclass(eq=False)
class ClassicGroup:
    """One classic group.

    Attributes:
        state_timestamp_ms: when the group entered its state; None if the record has no time.
        protocol_type: protocol type of the group; None until the first member gives one.
        protocol: the chosen protocol; None if no protocol is chosen yet.
        members: members by id. ``subscription.protocols`` has only the chosen protocol, because Kafka writes no other.
        is_simple: whether the group has committed offsets but never had a ``GroupMetadata`` record.
        missing: number of missing log offsets before the group's last record (``Record.missing_before``).
    """

    group_type = GroupType.CLASSIC
    assignment_epoch = None
    group_id: str
    is_simple: bool = False
    state: GroupState = GroupState.EMPTY
    state_timestamp_ms: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    generation: int = 0
    missing: int = 0
    members: MutableMapping[str, Member] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """Return the generation, a classic group's epoch."""
        return self.generation

    def header(self, state: GroupState) -> Header:
        """Return the group's present fields as a ``Header``, which has no members.

        Args:
            state: the group's state.
        """
        return Header(
            GroupType.CLASSIC,
            state,
            self.generation,
            None,
            len(self.members),
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            is_simple=self.is_simple,
        )


def load(group_id: str, record: Record) -> tuple[ClassicGroup, list[tuple[str, dict[str, Any]]]]:
    """Return the group in the value of a ``GroupMetadata`` record (kind 2), and the rules that the value breaks.

    Returns:
        The group, and for each broken rule its name and a detail.
    """
    value: Mapping[str, Any] = record.value or {}
    damage: list[tuple[str, dict[str, Any]]] = []
    group = ClassicGroup(group_id)
    group.generation = value.get("generation", 0)
    group.protocol_type = value.get("protocolType") or None
    group.protocol = value.get("protocol")
    group.leader = value.get("leader")
    group.missing = record.missing_before
    entered = value.get("currentStateTimestamp", UNKNOWN_TIMESTAMP)
    group.state_timestamp_ms = entered if entered != UNKNOWN_TIMESTAMP else None
    holders: dict[str, str] = {}
    members: Sequence[Mapping[str, Any]] = value.get("members") or ()
    for entry in members:
        member = _read_member(entry, group, record.missing_before)
        if member.member_id in group.members:
            damage.append(("member_id_repeats", {"member_id": member.member_id}))
        instance_id = member.instance_id
        if instance_id is not None:
            holder = holders.get(instance_id)
            if holder is not None and holder != member.member_id:
                damage.append(
                    ("instance_id_repeats", {"instance_id": instance_id, "member_ids": [holder, member.member_id]})
                )
            holders[instance_id] = member.member_id
        group.members[member.member_id] = member
    if group.members:
        group.state = GroupState.STABLE
        if group.leader is not None and group.leader not in group.members:
            damage.append(("leader_is_not_a_member", {"leader": group.leader}))
    return group, damage


def _read_member(entry: Mapping[str, Any], group: ClassicGroup, missing: int) -> Member:
    fields = entry.get("subscriptionFields")
    assignment = entry.get("assignmentFields")
    subscription = Subscription(
        entry.get("groupInstanceId"),
        fields.get("rackId") if fields is not None else None,
        entry.get("clientId"),
        entry.get("clientHost"),
        tuple(fields["topics"]) if fields is not None else None,
        None,
        None,
        entry.get("rebalanceTimeout"),
        entry.get("sessionTimeout", 0),
        True,
        (Protocol(group.protocol, entry.get("subscription") or "", fields),) if group.protocol is not None else (),
    )
    blob = entry.get("assignment") or ""
    assigned: Assignment | None = None
    if assignment is not None:
        assigned = partitions_by_topic(assignment.get("assignedPartitions"), "topic")
    elif not blob:
        assigned = {}
    current = Current(group.generation, group.generation, None, assigned, assignment_bytes=blob, missing=missing)
    target = Target(assigned, missing=missing) if assigned is not None else None
    return Member(entry["memberId"], subscription, current, target)
