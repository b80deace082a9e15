"""A classic group between two records: who waits for what, and all that its last record does not hold.

A classic group lives outside the replayed state, as in Kafka: its rebalance goes on in memory, and a record is written
only when it comes to something. What records leave behind is the shard's replay of them, which is what a new leader of
the partition would begin with.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.coordinator import record_helpers
from coordinator_replay.coordinator.classic.classic_group import JavaClassicGroup
from coordinator_replay.coordinator.errors import RequestError
from coordinator_replay.coordinator.operations import Reply
from coordinator_replay.coordinator.record_helpers import NewRecord
from coordinator_replay.engine import ClassicGroup, GroupState, Member
from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE, UNKNOWN_TIMESTAMP
from coordinator_replay.engine.model import Protocol, Subscription
from coordinator_replay.records.blobs import open_assignment, open_subscription

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
    subscription = member.subscription_or_empty
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
