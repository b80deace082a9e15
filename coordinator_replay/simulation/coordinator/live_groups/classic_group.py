"""A classic group in the memory of its coordinator, where rebalances happen between two records.

Mirrors ``classic.ClassicGroup``: its states and transitions, its members with all their protocols and votes, and the
requests that wait for an answer. The order of Kafka's hash tables is reproduced, because it decides which member
becomes the leader, who wins a tied vote, and how members are ordered in records and answers.

As in Kafka, most steps of a rebalance write no record. So this group can be ahead of the group that the engine replays
from the records. A new leader of the log partition begins with the replayed group (``LiveClassicGroup.loaded``).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from coordinator_replay.engine.model import Current, GroupState, Member, Subscription
from coordinator_replay.records.blobs import BlobError, subscribed_topics
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.errors import IllegalStateError, RequestError
from coordinator_replay.simulation.coordinator.java_order import HashOrder, hash_map
from coordinator_replay.simulation.coordinator.operations import Reply
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord

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


class LiveClassicGroup(ClassicGroup):
    """A classic group in its present state.

    Attributes:
        members: members by id, in the order of Kafka's hash map; ``subscription.protocols`` has all protocols that a
            member supports.
        votes: number of members that support each protocol.
        static_members: member id by instance id.
        previous_state: the state before the present one. It is Empty in the first rebalance of a group.
        waiting_joins: JoinGroup requests not answered yet, by member id.
        waiting_syncs: SyncGroup requests not answered yet, by member id.
        pending_members: ids given out with MEMBER_ID_REQUIRED that have not joined yet.
        pending_syncs: members of the generation that have not sent SyncGroup yet.
        new_members: members whose first join is not answered yet.
        has_new_member: whether a member joined since the coordinator last began to wait for
            ``group.initial.rebalance.delay.ms``.
        topics: topics that members of the generation subscribe to; None if unknown.
    """

    def __init__(self, group_id: str, now_ms: int | None = None) -> None:
        super().__init__(group_id, state_timestamp_ms=now_ms)
        self.members = hash_map()
        self.votes: dict[str, int] = {}
        self.static_members: dict[str, str] = {}
        self.previous_state = GroupState.DEAD
        self.waiting_joins: dict[str, Reply] = {}
        self.waiting_syncs: dict[str, Reply] = {}
        self.pending_members: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.new_members: set[str] = set()
        self.has_new_member = False
        self.topics: frozenset[str] | None = None

    @classmethod
    def loaded(cls, replayed: ClassicGroup) -> "LiveClassicGroup":
        """Return the group as it is in the coordinator's memory after the load of its records."""
        group = cls(replayed.group_id)
        for name in ("generation", "leader", "protocol", "protocol_type", "state", "state_timestamp_ms"):
            setattr(group, name, getattr(replayed, name))
        for member in replayed.members.values():
            subscription = member.subscription_or_empty
            loaded = subscription._replace(rebalance_timeout_ms=subscription.loaded_rebalance_ms)
            group._put(member._replace(subscription=loaded))
        group.topics = group.computed_topics()
        return group

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return how long a rebalance may take.

        This is the largest rebalance timeout of the members, and at least 0.
        """
        return max((member.subscription_or_empty.least_rebalance_ms for member in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        """Return whether every member has joined and waits for the end of the join phase.

        Return False while a member id is pending: a new client got it, but has not joined with it yet.
        """
        return len(self.waiting_joins) == len(self.members) and not self.pending_members

    def waits(self, member_id: str) -> bool:
        """Return whether a member is known to be alive, because its JoinGroup or SyncGroup waits for a response.

        The first JoinGroup of a new member does not count.
        """
        return member_id not in self.new_members and (
            member_id in self.waiting_joins or member_id in self.waiting_syncs
        )

    def can_rebalance(self) -> bool:
        """Return whether a rebalance may begin in the group's present state."""
        return self.state in LEGAL_PREDECESSORS[GroupState.PREPARING_REBALANCE]

    def transition_to(self, state: GroupState, at_ms: int) -> None:
        """Enter a state.

        Raises:
            IllegalStateError: the state can't follow the present state; nothing changes.
        """
        allowed = LEGAL_PREDECESSORS.get(state, frozenset())
        if self.state not in allowed:
            raise IllegalStateError(
                f"group {self.group_id!r} can't go from {self.state} to {state}; "
                f"that state follows {', '.join(sorted(allowed)) or 'no state of a classic group'}"
            )
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = at_ms

    def validate(self, member_id: str, instance_id: str | None) -> None:
        """Check the ids of a member.

        Raises:
            RequestError: the member is unknown, or another member has its instance id.
        """
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise RequestError("UNKNOWN_MEMBER_ID")
            if holder != member_id:
                raise RequestError("FENCED_INSTANCE_ID")
        if member_id not in self.members:
            raise RequestError("UNKNOWN_MEMBER_ID")

    def add(self, member: Member, *, protocol_type: str) -> None:
        """Add a member.

        The first member leads the group, and its protocol type becomes the group's.

        Raises:
            IllegalStateError: the member has another protocol type, is in the group already, or supports none of the
                protocols that all other members support. Nothing changes.
        """
        subscription = member.subscription_or_empty
        protocols = [protocol.name for protocol in subscription.protocols]
        if member.member_id in self.members:
            raise IllegalStateError(f"member {member.member_id!r} is already in group {self.group_id!r}")
        if subscription.instance_id in self.static_members:
            raise IllegalStateError(f"instance id {subscription.instance_id!r} is taken in group {self.group_id!r}")
        if not self.supports(protocol_type, protocols):
            raise IllegalStateError(
                f"member {member.member_id!r} offers {protocol_type!r} {protocols}; "
                f"group {self.group_id!r} needs {self.protocol_type!r} {sorted(self.candidate_protocols())}"
            )
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self._put(member)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a member id that was given to a new client that has not joined yet.

        Waiting requests of the member are never answered.

        If the member was the leader, the first of the other members becomes the leader.
        """
        self.waiting_joins.pop(member_id, None)
        self.waiting_syncs.pop(member_id, None)
        self.new_members.discard(member_id)
        self.pending_members.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static_member(self, instance_id: str, old_member_id: str, new_member_id: str) -> None:
        """Give a static member a new member id.

        The member keeps everything else, also the leadership.
        """
        self.members[new_member_id] = self.members.pop(old_member_id)._replace(member_id=new_member_id)
        if self.leader == old_member_id:
            self.leader = new_member_id
        self.static_members[instance_id] = new_member_id

    def update_member(self, member_id: str, subscription: Subscription) -> None:
        """Replace a member's subscription, and update the number of members that support each protocol."""
        member = self.members[member_id]
        self._count(member, -1)
        self.members[member_id] = updated = member._replace(subscription=subscription)
        self._count(updated, 1)

    def elect_leader(self, joined: Collection[str]) -> bool:
        """Elect a new leader if the leader has not joined (``maybeElectNewJoinedLeader``).

        Return whether the group now has a leader that has joined. Return False and change nothing if the group has no
        leader, or if no member has joined.
        """
        if self.leader is None:
            return False
        if self.leader in joined and self.leader in self.members:
            return True
        elected = next((member_id for member_id in self.members if member_id in joined), None)
        if elected is None:
            return False
        self.leader = elected
        return True

    def candidate_protocols(self) -> frozenset[str]:
        """Return the protocols that every member supports."""
        return frozenset(name for name, votes in self.votes.items() if votes == len(self.members))

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a member of this type with these protocols can join (``supportsProtocols``)."""
        offered = set(protocols)
        if self.state == GroupState.EMPTY:
            return bool(protocol_type) and bool(offered)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self.votes.get(name, 0) == count for name in offered)

    def select_protocol(self) -> str:
        """Return the protocol with most votes.

        Each member votes for the first protocol of its list that all members support.

        A tie is broken by the iteration order of a ``HashMap`` of the names.

        Raises:
            RequestError: UNKNOWN_SERVER_ERROR, the members have no protocol in common.
        """
        candidates = self.candidate_protocols()
        ballots: HashOrder[str, int] = hash_map()
        for member in self.members.values():
            supported = (protocol.name for protocol in member.subscription_or_empty.protocols)
            vote = next((name for name in supported if name in candidates), None)
            if vote is None:
                # Members without a common protocol were refused when they joined, unless a protocol was named twice.
                raise RequestError("UNKNOWN_SERVER_ERROR", "Member does not support any of the candidate protocols")
            ballots[vote] = ballots.get(vote, 0) + 1
        return max(ballots, key=lambda name: ballots[name])

    def next_generation(self, at_ms: int) -> None:
        """End the join phase.

        Raise the generation, then wait for the assignment or become Empty (``initNextGeneration``). As in Kafka, the
        generation stays raised even if an error follows.

        Raises:
            IllegalStateError: no join phase is in progress.
            RequestError: the members have no protocol in common, or a subscription is damaged in a way that Kafka does
                not expect.
        """
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        if self.protocol is None:
            self.leader = None
        self.topics = self.computed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, at_ms)
        self.pending_syncs.clear()

    def set_assignments(self, assignments: Mapping[str, str]) -> None:
        """Give members their assignments.

        A member that is not in ``assignments`` gets an empty assignment.
        """
        for member_id, member in self.members.items():
            blob = assignments.get(member_id, "")
            self.members[member_id] = member._replace(
                current=Current(self.generation, state=None, assigned=None, assignment_bytes=blob)
            )

    def computed_topics(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to (``computeSubscribedTopics``).

        Return None if the topics are unknown. They are unknown if the protocol type is not ``consumer``, if no protocol
        is chosen yet, or if a subscription can't be read.

        Raises:
            RequestError: UNKNOWN_SERVER_ERROR, a subscription is damaged in a way that Kafka does not expect.
        """
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or (self.members and self.protocol is None):
            return None
        try:
            blobs = [self.metadata(member) for member in self.members.values()]
            return frozenset().union(*map(subscribed_topics, blobs))
        except BlobError as problem:
            if problem.is_expected:
                return None
            raise RequestError("UNKNOWN_SERVER_ERROR", f"subscription: {problem}") from None

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic.

        If the topics of the group's members are unknown, return whether the protocol type is ``consumer``.
        """
        if self.topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.topics

    def metadata(self, member: Member) -> str:
        """Return a member's metadata for the chosen protocol, in base64.

        Raises:
            RequestError: UNKNOWN_SERVER_ERROR, the member does not support the chosen protocol, or none is chosen.
        """
        for protocol in member.subscription_or_empty.protocols:
            if protocol.name == self.protocol:
                return protocol.metadata
        raise RequestError("UNKNOWN_SERVER_ERROR", f"Member does not support protocol {self.protocol}")

    def listed_members(self) -> list[dict[str, Any]]:
        """Return members with their metadata, as the leader gets them with its JoinGroup response."""
        return [
            {"memberId": member_id, "groupInstanceId": member.instance_id, "metadata": self.metadata(member)}
            for member_id, member in self.members.items()
        ]

    def record(self, assignments: Mapping[str, str] | None = None) -> NewRecord:
        """Return the record of the group's present state.

        Args:
            assignments: the assignments to write, by member id; None for the present assignments of the members.
        """
        is_consumer = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        members = [
            record_helpers.classic_member(
                member, self.metadata(member), _assignment(member, assignments), is_consumer=is_consumer
            )
            for member in self.members.values()
        ]
        return record_helpers.classic_group(self, members)

    def _put(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(member, 1)

    def _count(self, member: Member, by: int) -> None:
        for protocol in member.subscription_or_empty.protocols:
            votes = self.votes.get(protocol.name, 0) + by
            if votes:
                self.votes[protocol.name] = votes
            else:
                del self.votes[protocol.name]


def _assignment(member: Member, assignments: Mapping[str, str] | None) -> str:
    if assignments is not None:
        return assignments.get(member.member_id, "")
    return member.current.assignment_bytes if member.current is not None else ""
