"""A classic group, from kind 2, and as an object that can be driven by hand.

Mirrors ``classic.ClassicGroup`` (``GroupMetadata`` in older brokers). On disk is only what became of a rebalance: a
value replaces the whole group, which is then Empty without members and Stable with them. PreparingRebalance,
CompletingRebalance and Dead are never written; they and the votes of members matter to those who drive the group
themselves, with the operations the broker's own object has. A refused operation raises and changes nothing.
"""

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
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
from coordinator_replay.errors import UsageError

CONSUMER_PROTOCOL_TYPE = "consumer"
UNKNOWN_TIMESTAMP = -1

LEGAL_PREDECESSORS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(
        {
            GroupState.EMPTY,
            GroupState.PREPARING_REBALANCE,
            GroupState.COMPLETING_REBALANCE,
            GroupState.STABLE,
            GroupState.DEAD,
        }
    ),
}

REASONS: Mapping[GroupState, str] = {
    GroupState.EMPTY: "the join phase ended with nobody",
    GroupState.PREPARING_REBALANCE: "a member joins, leaves, fails or asks for it",
    GroupState.COMPLETING_REBALANCE: "the join phase ended, a protocol is chosen",
    GroupState.STABLE: "the leader's assignment is appended",
    GroupState.DEAD: "the group is removed",
}
"""Why a group enters a state."""

TRANSITIONS: Mapping[tuple[GroupState, GroupState], str] = {
    (before, after): REASONS[after]
    for after, predecessors in LEGAL_PREDECESSORS.items()
    for before in sorted(predecessors)
}

WRITTEN_TRANSITIONS: Mapping[tuple[GroupState, GroupState], str] = {
    (GroupState.EMPTY, GroupState.STABLE): "a generation was synced",
    (GroupState.STABLE, GroupState.EMPTY): "a join phase ended with nobody",
}
"""What can be seen of them between two records."""


class IllegalTransitionError(UsageError):
    """A transition that the present state of a classic group does not lead to."""


class MemberRefusedError(UsageError):
    """A classic group can't take or find the member it was given."""


@dataclass(eq=False)
class ClassicGroup:
    """One classic group.

    Attributes:
        state_timestamp_ms: when the group entered its state, None where the log does not say.
        protocol_type: None until the first member gives one.
        protocol: the chosen protocol, None while there is none.
        members: members by id; ``subscription.protocols`` are the protocols a member supports.
        votes: how many members support each protocol.
        static_members: member id by instance id.
        is_simple: the group holds offsets and never had a record of its own.
        missing: ``missing_before`` of the record the group was loaded from.
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
    votes: dict[str, int] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """The generation: what other groups call their epoch."""
        return self.generation

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance may take: the longest any member asked for, 0 without members."""
        return max((_subscription(member).rebalance_timeout_ms for member in self.members.values()), default=0)

    def header(self, state: GroupState) -> Header:
        """The group as it is, without its members."""
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

    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return self.state in LEGAL_PREDECESSORS[GroupState.PREPARING_REBALANCE]

    def transition_to(self, state: GroupState, at_ms: int) -> None:
        """Enter a state.

        Raises:
            IllegalTransitionError: the present state does not lead there; nothing changes.
        """
        allowed = LEGAL_PREDECESSORS.get(state, frozenset())
        if self.state not in allowed:
            raise IllegalTransitionError(
                f"group {self.group_id!r} can't go from {self.state} to {state}; "
                f"that state follows {', '.join(sorted(allowed)) or 'no state of a classic group'}"
            )
        self.state = state
        self.state_timestamp_ms = at_ms

    def add(self, member: Member, *, protocol_type: str, group_id: str | None = None) -> None:
        """Take a member in; the first one gives the group its protocol type and leads it.

        Raises:
            MemberRefusedError: it is of another group or protocol type, is there already, or supports no protocol that
                all others support; nothing changes.
        """
        subscription = _subscription(member)
        protocols = [protocol.name for protocol in subscription.protocols]
        if group_id is not None and group_id != self.group_id:
            raise MemberRefusedError(f"member {member.member_id!r} is of group {group_id!r}, not {self.group_id!r}")
        if member.member_id in self.members:
            raise MemberRefusedError(f"member {member.member_id!r} is already in group {self.group_id!r}")
        if subscription.instance_id in self.static_members:
            raise MemberRefusedError(f"instance id {subscription.instance_id!r} is taken in group {self.group_id!r}")
        if not self.supports(protocol_type, protocols):
            raise MemberRefusedError(
                f"member {member.member_id!r} offers {protocol_type!r} {protocols}; "
                f"group {self.group_id!r} needs {self.protocol_type!r} {sorted(self.candidate_protocols())}"
            )
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id
        if subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> Member | None:
        """Let a member go and give its votes back; another one leads if it was the leader.

        The broker takes the first member in the order of a hash map, here it is the one that is longest in.
        """
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static_member(self, instance_id: str, old_member_id: str, new_member_id: str) -> Member:
        """Give a static member a new member id; it keeps everything else, leadership too.

        Raises:
            MemberRefusedError: the old id is not the one that holds the instance id; nothing changes.
        """
        old = self.members.get(old_member_id)
        if old is None or self.static_members.get(instance_id) != old_member_id:
            raise MemberRefusedError(
                f"member {old_member_id!r} does not hold instance id {instance_id!r} of {self.group_id!r}"
            )
        if new_member_id != old_member_id and new_member_id in self.members:
            raise MemberRefusedError(f"member {new_member_id!r} is already in group {self.group_id!r}")
        new = old._replace(member_id=new_member_id)
        self.members = {
            (new_member_id if key == old_member_id else key): (new if key == old_member_id else member)
            for key, member in self.members.items()
        }
        self.static_members[instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        return new

    def update_member(self, member_id: str, subscription: Subscription) -> None:
        """Replace a member's subscription, and its votes.

        Raises:
            MemberRefusedError: there is no such member; nothing changes.
        """
        member = self.members.get(member_id)
        if member is None:
            raise MemberRefusedError(f"no member {member_id!r} in group {self.group_id!r}")
        self._count(member, -1)
        self.members[member_id] = updated = member._replace(subscription=subscription)
        self._count(updated, 1)

    def elect_leader(self, joined: Collection[str]) -> bool:
        """Make sure that a member that joined leads; False where none did."""
        if self.leader in joined and self.leader in self.members:
            return True
        elected = next((member_id for member_id in self.members if member_id in joined), None)
        if elected is None:
            return False
        self.leader = elected
        return True

    def candidate_protocols(self) -> frozenset[str]:
        """Protocols that every member supports."""
        return frozenset(name for name, votes in self.votes.items() if votes == len(self.members))

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member of this type with these protocols can join."""
        offered = set(protocols)
        if not self.members:
            return bool(protocol_type) and bool(offered)
        return protocol_type == self.protocol_type and not offered.isdisjoint(self.candidate_protocols())

    def select_protocol(self) -> str:
        """The protocol most members vote for: each for the first of its own list that all support.

        The broker breaks ties by the order of a hash map, here the first name wins.

        Raises:
            MemberRefusedError: there are no members, or none that has a protocol in common with the others.
        """
        candidates = self.candidate_protocols()
        if not candidates:
            raise MemberRefusedError(f"group {self.group_id!r} has no protocol that its members have in common")
        ballots: dict[str, int] = {}
        for member in self.members.values():
            vote = self.vote(member, candidates)
            if vote is not None:
                ballots[vote] = ballots.get(vote, 0) + 1
        return min(ballots, key=lambda name: (-ballots[name], name))

    @staticmethod
    def vote(member: Member, candidates: Collection[str]) -> str | None:
        """The first of a member's protocols that is a candidate."""
        return next(
            (protocol.name for protocol in _subscription(member).protocols if protocol.name in candidates), None
        )

    def next_generation(self, at_ms: int) -> None:
        """End the join phase: one generation on, waiting for the assignment, or Empty.

        Raises:
            IllegalTransitionError: no join phase is going on; nothing changes.
        """
        state = GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY
        protocol = self.select_protocol() if self.members else None
        self.transition_to(state, at_ms)
        self.generation += 1
        self.protocol = protocol
        if protocol is None:
            self.leader = None

    def assign(self, assignments: Mapping[str, Assignment], at_ms: int) -> None:
        """Take the leader's assignment: members not named get nothing, the group is Stable.

        Raises:
            IllegalTransitionError: the group does not wait for an assignment; nothing changes.
        """
        self.transition_to(GroupState.STABLE, at_ms)
        for member_id, member in self.members.items():
            assigned = dict(assignments.get(member_id, {}))
            self.members[member_id] = member._replace(current=Current(self.generation, state=None, assigned=assigned))

    def subscribed_topics(self) -> frozenset[str] | None:
        """Topics that members read; None where that can't be known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            names = topics_under(_subscription(member), self.protocol)
            if names is None:
                return None
            topics.update(names)
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topic is known to be read; unknown subscriptions spare no topic."""
        topics = self.subscribed_topics()
        return topics is not None and topic in topics

    def _count(self, member: Member, by: int) -> None:
        for protocol in _subscription(member).protocols:
            votes = self.votes.get(protocol.name, 0) + by
            if votes:
                self.votes[protocol.name] = votes
            else:
                del self.votes[protocol.name]


def topics_under(subscription: Subscription, protocol: str | None) -> tuple[str, ...] | None:
    """Topics in a member's blob under a protocol, None where the blob can't be read."""
    for supported in subscription.protocols:
        if supported.name == protocol:
            return tuple(supported.fields["topics"]) if supported.fields is not None else None
    return subscription.topics


def load(group_id: str, record: Record) -> tuple[ClassicGroup, list[tuple[str, dict[str, Any]]]]:
    """The group in a kind-2 value, and what is damaged about it.

    Returns:
        The group, and pairs of the broken rule's name and its detail.
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
    members: Sequence[Mapping[str, Any]] = value.get("members") or ()
    for entry in members:
        member = _read_member(entry, group, record.missing_before)
        if member.member_id in group.members:
            damage.append(("member_id_repeats", {"member_id": member.member_id}))
        instance_id = member.instance_id
        if instance_id is not None:
            holder = group.static_members.get(instance_id)
            if holder is not None and holder != member.member_id:
                damage.append(
                    ("instance_id_repeats", {"instance_id": instance_id, "member_ids": [holder, member.member_id]})
                )
            group.static_members[instance_id] = member.member_id
        group.members[member.member_id] = member
    if group.protocol is not None and group.members:
        group.votes = {group.protocol: len(group.members)}
    if group.members:
        group.state = GroupState.STABLE
        if group.leader is not None and group.leader not in group.members:
            damage.append(("leader_is_not_a_member", {"leader": group.leader}))
    return group, damage


def _read_member(entry: Mapping[str, Any], group: ClassicGroup, missing: int) -> Member:
    fields = entry.get("subscriptionFields")
    assignment = entry.get("assignmentFields")
    session_timeout = entry.get("sessionTimeout", 0)
    rebalance_timeout = entry.get("rebalanceTimeout", -1)
    subscription = Subscription(
        entry.get("groupInstanceId"),
        fields.get("rackId") if fields is not None else None,
        entry.get("clientId"),
        entry.get("clientHost"),
        tuple(fields["topics"]) if fields is not None else None,
        None,
        None,
        rebalance_timeout if rebalance_timeout != -1 else session_timeout,
        session_timeout,
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


def _subscription(member: Member) -> Subscription:
    return member.subscription or Subscription()
