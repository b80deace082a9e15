"""The engine's classic group with what Kafka leaves to the order of its hash tables.

That order decides: the leader after the old one went, the winner of a tied vote, the order of members in records and
answers. Mirrors ``classic.ClassicGroup`` where the engine's machine is more general than the coordinator's.
"""

from collections.abc import Iterable, Mapping

from coordinator_replay.coordinator.consumer_protocol import ConsumerProtocolError, subscribed_topics
from coordinator_replay.coordinator.errors import RequestError
from coordinator_replay.coordinator.java_order import HashOrder, hash_map
from coordinator_replay.engine import ClassicGroup, GroupState, Member
from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE
from coordinator_replay.engine.model import Current


class JavaClassicGroup(ClassicGroup):
    """The engine's classic group, with what Kafka leaves to the order of its hash tables."""

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
        """Tell whether a member of this type with these protocols can join (``supportsProtocols``)."""
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
        except ConsumerProtocolError:
            return

    def subscribed_topics(self) -> frozenset[str] | None:
        """Topics that members read; None where that can't be known."""
        return self.known_topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether the topic is read; a consumer group whose topics can't be known may read any."""
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
