"""A consumer group of KIP-848, built from records of the kinds 3, 4, 5, 6, 7, 8 and 16.

Mirrors ``modern.consumer.ConsumerGroup``. No record has the state of the group. The state follows from epochs and
members: it is the first state of ``STATES`` whose condition is true. The state of a member is in its
``ConsumerGroupCurrentMemberAssignment`` record (kind 8), as a number of ``MEMBER_STATES``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.engine.model import (
    NOTHING,
    Current,
    GroupType,
    MemberState,
    Protocol,
    Record,
    Regex,
    Subscription,
    TopicMetadata,
    draft_fields,
    epochs_by_topic,
    partitions_by_topic,
)
from coordinator_replay.engine.modern_group import (
    ASSIGNING,
    EMPTY,
    RECONCILING,
    STABLE,
    ReconcilingGroup,
    StateRule,
)
from coordinator_replay.engine.operation import Operation

STATES: Sequence[StateRule] = (EMPTY, ASSIGNING, RECONCILING, STABLE)

MEMBER_STATES: Mapping[int, MemberState] = {
    0: MemberState.STABLE,
    1: MemberState.UNREVOKED_PARTITIONS,
    2: MemberState.UNRELEASED_PARTITIONS,
}

DRAFT_MEMBER_FIELDS = frozenset({"groupEpoch", "assignors"})
DRAFT_CURRENT_FIELDS = frozenset({"error", "metadataVersion", "metadataBytes"})


def _member_state(value: Mapping[str, Any]) -> MemberState:
    """Return the member state in the value of a ``ConsumerGroupCurrentMemberAssignment`` record (kind 8).

    Kafka 3.7, the preview, wrote no state. For such a value, derive the state from its lists of partitions.
    """
    if "state" in value:
        return MEMBER_STATES.get(value["state"], MemberState.UNKNOWN)
    if value.get("partitionsPendingRevocation"):
        return MemberState.UNREVOKED_PARTITIONS
    return MemberState.UNRELEASED_PARTITIONS if value.get("partitionsPendingAssignment") else MemberState.STABLE


@dataclass(eq=False)
class ConsumerGroup(ReconcilingGroup):
    """The replayed state of one consumer group.

    Attributes:
        regexes: by regular expression, the topics to which the expression was resolved.
        topic_metadata: the topics in the last ``ConsumerGroupPartitionMetadata`` record (kind 4); None if there is no
            such record, or if it is a tombstone.
        assignors: for each assignor, the number of members that ask for it.
    """

    states = STATES
    group_type = GroupType.CONSUMER
    protocol_type = "consumer"
    regexes: dict[str, Regex] = field(default_factory=dict)
    topic_metadata: tuple[TopicMetadata, ...] | None = None
    assignors: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for member in self.members.values():
            self._vote(None, member.subscription)

    @property
    def assignor(self) -> str | None:
        """Return the assignor that most members ask for.

        Return None if no member asks for an assignor: the broker then uses its default.

        The broker breaks a tie by the order of a hash map. Here the alphabetically first name wins, so that the answer
        is always the same.
        """
        if not self.assignors:
            return None
        return min(self.assignors, key=lambda name: (-self.assignors[name], name))

    def replay_partition_metadata(self, record: Record, operation: Operation) -> None:
        """Replay a ``ConsumerGroupPartitionMetadata`` record (kind 4): topics with ids and partition counts.

        Kafka wrote this kind of record up to 4.0.
        """
        old = self.topic_metadata
        if record.value is None:
            self.topic_metadata = None
        else:
            self.topic_metadata = tuple(
                TopicMetadata(topic["topicId"], topic.get("topicName", ""), topic["numPartitions"])
                for topic in record.value.get("topics", ())
            )
        if old != self.topic_metadata:
            operation.changes.setdefault("topic_metadata", old)
            operation.at["topic_metadata"] = record.offset

    def replay_member(self, record: Record, operation: Operation) -> None:
        """Replay a ``ConsumerGroupMemberMetadata`` record (kind 5), or its tombstone.

        The record has a member's subscription, and the assignor that the member asks for.
        """
        before = self.members.get(record.key["memberId"])
        super().replay_member(record, operation)
        after = self.members.get(record.key["memberId"])
        self._vote(*(None if member is None else member.subscription for member in (before, after)))

    def read_subscription(self, value: Mapping[str, Any]) -> Subscription:
        """Return the subscription in the value of a ``ConsumerGroupMemberMetadata`` record (kind 5).

        If ``classicMemberMetadata`` is absent, the broker was too old to know that field, so the member uses the new
        protocol.
        """
        classic = value.get("classicMemberMetadata")
        protocols: tuple[Protocol, ...] = ()
        if classic is not None:
            protocols = tuple(
                Protocol(protocol["name"], protocol.get("metadata", ""), protocol.get("metadataFields"))
                for protocol in classic.get("supportedProtocols", ())
            )
        return Subscription(
            value.get("instanceId"),
            value.get("rackId"),
            value.get("clientId"),
            value.get("clientHost"),
            tuple(value.get("subscribedTopicNames") or ()),
            value.get("subscribedTopicRegex") or None,
            value.get("serverAssignor"),
            value.get("rebalanceTimeoutMs", -1),
            classic.get("sessionTimeoutMs") if classic is not None else None,
            classic is not None,
            protocols,
            draft=draft_fields(value, DRAFT_MEMBER_FIELDS),
        )

    def read_current(self, value: Mapping[str, Any], missing: int) -> Current:
        """Return the current assignment in the value of a ``ConsumerGroupCurrentMemberAssignment`` record (kind 8)."""
        assigned = value.get("assignedPartitions")
        if assigned is None:
            assigned = value.get("topicPartitions", ())
        pending = value.get("partitionsPendingRevocation") or ()
        epoch = value.get("memberEpoch", 0)
        return Current(
            epoch,
            value.get("previousMemberEpoch", epoch),
            _member_state(value),
            partitions_by_topic(assigned),
            partitions_by_topic(pending) if pending else NOTHING,
            epochs_by_topic(assigned),
            epochs_by_topic(pending) if pending else NOTHING,
            NOTHING,
            NOTHING,
            NOTHING,
            NOTHING,
            draft=draft_fields(value, DRAFT_CURRENT_FIELDS),
            missing=missing,
        )

    def replay_regex(self, record: Record, operation: Operation) -> None:
        """Replay a ``ConsumerGroupRegularExpression`` record (kind 16), or its tombstone.

        The record has the topics to which a subscribed regular expression was resolved.
        """
        expression = record.key["regularExpression"]
        old = self.regexes.get(expression)
        if record.value is None:
            if self.regexes.pop(expression, None) is None:
                return
        else:
            self.regexes[expression] = Regex(
                tuple(record.value.get("topics", ())),
                record.value.get("version", 0),
                record.value.get("timestamp", 0),
            )
        operation.changes.setdefault(f"regex {expression}", old)
        operation.at[f"regex {expression}"] = record.offset

    def _vote(self, old: Subscription | None, new: Subscription | None) -> None:
        before = old.assignor if old is not None else None
        after = new.assignor if new is not None else None
        if before == after:
            return
        if before is not None:
            self.assignors[before] -= 1
            if not self.assignors[before]:
                del self.assignors[before]
        if after is not None:
            self.assignors[after] = self.assignors.get(after, 0) + 1
