"""A classic group between two records: who waits for what, and all that its last record does not hold.

A classic group lives outside the replayed state, as in Kafka: its rebalance goes on in memory, and a record is written
only when it comes to something. What records leave behind is the shard's replay of them, which is what a new leader of
the partition would begin with.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator_replay.coordinator import record_helpers
from coordinator_replay.coordinator.errors import RequestError
from coordinator_replay.coordinator.java_order import HashOrder, hash_map
from coordinator_replay.coordinator.operations import Reply
from coordinator_replay.coordinator.record_helpers import NewRecord
from coordinator_replay.engine import ClassicGroup, GroupState, Member
from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE, UNKNOWN_TIMESTAMP
from coordinator_replay.engine.model import Current, Protocol, Subscription
from coordinator_replay.records.blobs import (
    BlobError,
    open_assignment,
    open_subscription,
    subscribed_topics,
)


class JavaClassicGroup(ClassicGroup):
    """The engine's classic group, with what Kafka leaves to the order of its hash tables.

    That order decides: the leader after the old one left, the winner of a tied vote, the order of members in records
    and answers. Mirrors ``classic.ClassicGroup`` where the engine's group is more general than the coordinator's.
    """

    __slots__ = ("known_topics",)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members = hash_map()
        self.known_topics: frozenset[str] | None = None
        """Topics of the generation; later changes of members do not change them."""

    @classmethod
    def loaded(cls, replayed: ClassicGroup) -> "JavaClassicGroup":
        """The group as the coordinator has it after loading its records."""
        group = cls(replayed.group_id)
        for name in ("generation", "leader", "protocol", "protocol_type", "state", "state_timestamp_ms"):
            setattr(group, name, getattr(replayed, name))
        for member_id, member in replayed.members.items():
            group.members[member_id] = member
        group.votes = dict(replayed.votes)
        group.static_members = dict(replayed.static_members)
        group.refresh_topics()
        return group

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member of this type with these protocols can join (``supportsProtocols``)."""
        offered = set(protocols)
        if self.state == GroupState.EMPTY:
            return bool(protocol_type) and bool(offered)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self.votes.get(name, 0) == count for name in offered)

    def select_protocol(self) -> str:
        """The protocol most members vote for; of several, the first in the order of a ``HashMap`` of names."""
        candidates = self.candidate_protocols()
        ballots: HashOrder[str, int] = hash_map()
        for member in self.members.values():
            vote = self.vote(member, candidates)
            if vote is None:
                # Members without a common protocol were refused when they joined, unless a protocol was named twice.
                raise RequestError("UNKNOWN_SERVER_ERROR", "Member does not support any of the candidate protocols")
            ballots[vote] = ballots.get(vote, 0) + 1
        return max(ballots, key=lambda name: ballots[name])

    def replace_static_member(self, instance_id: str, old_member_id: str, new_member_id: str) -> Member:
        """Give a static member a new member id; it keeps everything else, leadership too."""
        new = self.members.pop(old_member_id)._replace(member_id=new_member_id)
        self.members[new_member_id] = new
        if self.leader == old_member_id:
            self.leader = new_member_id
        self.static_members[instance_id] = new_member_id
        return new

    def next_generation(self, at_ms: int) -> None:
        """End the join phase: one generation on, waiting for the assignment, or Empty."""
        super().next_generation(at_ms)
        self.refresh_topics()

    def refresh_topics(self) -> None:
        """Read the topics out of the members' subscriptions (``computeSubscribedTopics``)."""
        self.known_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or (self.members and self.protocol is None):
            return
        try:
            blobs = [self.metadata(member) for member in self.members.values()]
            self.known_topics = frozenset().union(*map(subscribed_topics, blobs))
        except BlobError:
            return

    def subscribed_topics(self) -> frozenset[str] | None:
        """Topics that members read; None where that can't be known."""
        return self.known_topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topic is read; a consumer group whose topics can't be known may read any."""
        if self.known_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.known_topics

    def metadata(self, member: Member) -> str:
        """A member's blob under the chosen protocol.

        Raises:
            RequestError: UNKNOWN_SERVER_ERROR, it does not support that protocol, or none is chosen.
        """
        for protocol in member.subscription.protocols if member.subscription is not None else ():
            if protocol.name == self.protocol:
                return protocol.metadata
        raise RequestError("UNKNOWN_SERVER_ERROR", f"Member does not support protocol {self.protocol}")

    def set_assignments(self, assignments: Mapping[str, str]) -> None:
        """Give members their assignments; those not named get an empty one."""
        for member_id, member in self.members.items():
            blob = assignments.get(member_id, "")
            self.members[member_id] = member._replace(
                current=Current(self.generation, state=None, assigned=None, assignment_bytes=blob)
            )


NO_LEADER = ""


class LiveClassicGroup:
    """One classic group as it stands now.

    Attributes:
        group: state, generation, members with all their protocols.
        previous_state: the state before the present one; a first rebalance comes from Empty.
        waiting_joins: JoinGroup requests not answered yet, by member id.
        waiting_syncs: SyncGroup requests not answered yet, by member id.
        pending_members: ids given out with MEMBER_ID_REQUIRED that have not joined yet.
        pending_syncs: members of the generation that have not sent SyncGroup yet.
        new_members: members whose first join is not answered yet.
        has_new_member: somebody joined since the first rebalance's delay began.
    """

    __slots__ = (
        "group",
        "has_new_member",
        "new_members",
        "pending_members",
        "pending_syncs",
        "previous_state",
        "waiting_joins",
        "waiting_syncs",
    )

    def __init__(self, group: JavaClassicGroup) -> None:
        self.group = group
        self.previous_state = GroupState.DEAD
        self.waiting_joins: dict[str, Reply] = {}
        self.waiting_syncs: dict[str, Reply] = {}
        self.pending_members: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.new_members: set[str] = set()
        self.has_new_member = False

    @classmethod
    def created(cls, group_id: str, now_ms: int) -> "LiveClassicGroup":
        """A group that begins now."""
        group = JavaClassicGroup(group_id)
        group.state_timestamp_ms = now_ms
        return cls(group)

    @classmethod
    def loaded(cls, replayed: ClassicGroup) -> "LiveClassicGroup":
        """A group that only its records know."""
        return cls(JavaClassicGroup.loaded(replayed))

    @property
    def state(self) -> GroupState:
        """The group's state."""
        return self.group.state

    @property
    def all_have_joined(self) -> bool:
        """Every member waits for the join phase to end, and nobody was given an id and did not join."""
        return len(self.waiting_joins) == len(self.group.members) and not self.pending_members

    def member(self, member_id: str) -> Member:
        """A member that is known to be there."""
        return self.group.members[member_id]

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Change the state."""
        before = self.group.state
        self.group.transition_to(state, now_ms)
        self.previous_state = before

    def next_generation(self, now_ms: int) -> None:
        """End the join phase."""
        before = self.group.state
        self.group.next_generation(now_ms)
        self.previous_state = before
        self.pending_syncs.clear()

    def remove(self, member_id: str) -> None:
        """Let a member go, also one that was only given an id; whatever it waits for is never answered."""
        self.group.remove(member_id)
        self.waiting_joins.pop(member_id, None)
        self.waiting_syncs.pop(member_id, None)
        self.new_members.discard(member_id)
        self.pending_members.discard(member_id)
        self.pending_syncs.discard(member_id)

    def elect_joined_leader(self) -> bool:
        """Make sure that a member that waits leads; False where there is none (``maybeElectNewJoinedLeader``)."""
        return self.group.leader is not None and self.group.elect_leader(self.waiting_joins.keys())

    def waits(self, member_id: str) -> bool:
        """Whether a member shows by a parked request that it is alive; a new one's first join does not count."""
        return member_id not in self.new_members and (
            member_id in self.waiting_joins or member_id in self.waiting_syncs
        )

    def validate(self, member_id: str, instance_id: str | None) -> None:
        """Check that a member is who it says.

        Raises:
            RequestError: it is unknown, or another member holds its instance id.
        """
        if instance_id is not None:
            holder = self.group.static_members.get(instance_id)
            if holder is None:
                raise RequestError("UNKNOWN_MEMBER_ID")
            if holder != member_id:
                raise RequestError("FENCED_INSTANCE_ID")
        if member_id not in self.group.members:
            raise RequestError("UNKNOWN_MEMBER_ID")

    def listed_members(self) -> list[dict[str, Any]]:
        """Members with their metadata, as a leader gets them."""
        return [
            {
                "memberId": member_id,
                "groupInstanceId": member.instance_id,
                "metadata": self.group.metadata(member),
            }
            for member_id, member in self.group.members.items()
        ]

    def record(self, assignments: Mapping[str, str] | None = None) -> NewRecord:
        """The record of the group as it stands.

        Args:
            assignments: assignments by member id, in place of what members have.
        """
        group = self.group
        is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
        return record_helpers.classic_group(
            group.group_id,
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            state_timestamp_ms=_or_unknown(group.state_timestamp_ms),
            members=[
                _member_value(member, group.metadata(member), _assignment(member, assignments), is_consumer)
                for member in group.members.values()
            ],
        )

    def empty_record(self) -> NewRecord:
        """The record of a group that was just created, whatever became of it since."""
        return record_helpers.classic_group(
            self.group.group_id,
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            state_timestamp_ms=_or_unknown(self.group.state_timestamp_ms),
            members=(),
        )


def subscription_of(
    body: Mapping[str, Any], client_id: str | None, client_host: str | None, instance_id: str | None
) -> Subscription:
    """What a JoinGroup request says of its member."""
    return Subscription(
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=body["rebalanceTimeoutMs"],
        session_timeout_ms=body["sessionTimeoutMs"],
        uses_classic_protocol=True,
        protocols=protocols_of(body["protocols"]),
    )


def protocols_of(entries: Sequence[Mapping[str, Any]]) -> tuple[Protocol, ...]:
    """The protocols of a JoinGroup request, in the member's order."""
    return tuple(Protocol(entry["name"], entry["metadata"]) for entry in entries)


def _or_unknown(timestamp_ms: int | None) -> int:
    return UNKNOWN_TIMESTAMP if timestamp_ms is None else timestamp_ms


def _assignment(member: Member, assignments: Mapping[str, str] | None) -> str:
    if assignments is not None:
        return assignments.get(member.member_id, "")
    return member.current.assignment_bytes if member.current is not None else ""


def _member_value(member: Member, metadata: str, assignment: str, is_consumer: bool) -> dict[str, Any]:
    subscription = member.subscription or Subscription()
    return {
        "memberId": member.member_id,
        "groupInstanceId": subscription.instance_id,
        "clientId": subscription.client_id,
        "clientHost": subscription.client_host,
        "rebalanceTimeout": subscription.rebalance_timeout_ms,
        "sessionTimeout": subscription.session_timeout_ms,
        "subscription": metadata,
        "assignment": assignment,
        "subscriptionFields": open_subscription(metadata) if is_consumer else None,
        "assignmentFields": open_assignment(assignment) if is_consumer else None,
    }
