"""What a consumer group has apart from its records: orders and counts that follow them, and deadlines.

Mirrors the parts of ``modern.consumer.ConsumerGroup`` and ``modern.ModernGroup`` that the engine has no use for. All
but the deadline follows from the records, one by one as they are replayed, so that a reload finds the same.
"""

from coordinator_replay.coordinator.assignor.server.group_spec import in_tables
from coordinator_replay.coordinator.java_order import TimelineOrder
from coordinator_replay.engine.model import Assignment, Record
from coordinator_replay.java_strings import string_hash

NEVER = 0
"""A deadline that has always passed."""


class ConsumerState:
    """Soft state of one consumer group.

    Attributes:
        members: ids of the members in the order of Kafka's table.
        static_members: member id by instance id.
        names: how many members subscribe to a topic by name.
        matches: how many resolved expressions a topic matches.
        expressions: how many members subscribe to an expression.
        classic_members: members that speak the classic protocol.
        refresh_at_ms: from when on the metadata hash must be computed again.
        refresh_epoch: group epoch that the deadline belongs to.
        targets: target assignment of each member, in the order of Kafka's tables.
        extension: what a protocol that is plugged in keeps for the group; no record holds it.
        has_partition_metadata: the group has a record of topic metadata, as brokers before 4.1 wrote it.
    """

    __slots__ = (
        "_is_homogeneous",
        "_resolved",
        "_subscriptions",
        "classic_members",
        "expressions",
        "extension",
        "has_partition_metadata",
        "matches",
        "members",
        "names",
        "refresh_at_ms",
        "refresh_epoch",
        "static_members",
        "targets",
    )

    def __init__(self) -> None:
        self.members: TimelineOrder[str, None] = TimelineOrder(string_hash)
        self.static_members: dict[str, str] = {}
        self.names: dict[str, int] = {}
        self.matches: dict[str, int] = {}
        self.expressions: dict[str, int] = {}
        self.classic_members: set[str] = set()
        self.targets: dict[str, Assignment] = {}
        self.extension: object | None = None
        self.refresh_at_ms = NEVER
        self.refresh_epoch = 0
        self.has_partition_metadata = False
        self._is_homogeneous: bool | None = True
        self._subscriptions: dict[str, tuple[tuple[str, ...], str | None, str | None]] = {}
        self._resolved: dict[str, tuple[str, ...]] = {}

    def take(self, record: Record) -> None:
        """Follow a record of the group that the engine has just replayed."""
        match record.kind:
            case "ConsumerGroupMemberMetadata":
                self._take_member(record)
                self._is_homogeneous = None
            case "ConsumerGroupCurrentMemberAssignment":
                if record.value is not None:
                    self.members[record.key["memberId"]] = None
                self._is_homogeneous = None
            case "ConsumerGroupTargetAssignmentMember":
                self._take_target(record)
            case "ConsumerGroupRegularExpression":
                self.is_homogeneous()
                self._take_expression(record)
            case "ConsumerGroupPartitionMetadata":
                self.has_partition_metadata = record.value is not None

    def metadata_has_expired(self, now_ms: int, group_epoch: int) -> bool:
        """Whether the metadata hash must be computed again."""
        return now_ms >= self.refresh_at_ms or group_epoch < self.refresh_epoch

    def forget_soft_state(self) -> None:
        """Keep only what follows from records."""
        self.request_refresh()
        self.extension = None

    def request_refresh(self) -> None:
        """Have the metadata hash computed again with the next heartbeat."""
        self.refresh_at_ms, self.refresh_epoch = NEVER, 0

    def subscribed_topics(self) -> frozenset[str]:
        """Topics that anybody subscribes to, by name or by a resolved expression; they need not exist."""
        return frozenset((*self.names, *self.matches))

    def is_homogeneous(self) -> bool:
        """Whether all members subscribe alike, as of the last record of a member.

        As in Kafka, a record of an expression does not change the verdict.
        """
        if self._is_homogeneous is None:
            self._is_homogeneous = is_homogeneous(self.names, self.matches, self.expressions, len(self.members))
        return self._is_homogeneous

    def _take_member(self, record: Record) -> None:
        member_id = record.key["memberId"]
        value = record.value
        names, expression, instance_id = self._subscriptions.pop(member_id, ((), None, None))
        for name in names:
            change(self.names, name, -1)
        if expression is not None:
            change(self.expressions, expression, -1)
        self.classic_members.discard(member_id)
        if value is None:
            self.members.pop(member_id, None)
            if instance_id is not None and self.static_members.get(instance_id) == member_id:
                del self.static_members[instance_id]
            return
        self.members[member_id] = None
        names, expression = tuple(value["subscribedTopicNames"]), value.get("subscribedTopicRegex") or None
        for name in names:
            change(self.names, name, 1)
        if expression is not None:
            change(self.expressions, expression, 1)
        if value.get("instanceId") is not None:
            self.static_members[value["instanceId"]] = member_id
        if value.get("classicMemberMetadata") is not None:
            self.classic_members.add(member_id)
        self._subscriptions[member_id] = names, expression, value.get("instanceId")

    def _take_target(self, record: Record) -> None:
        member_id = record.key["memberId"]
        if record.value is None:
            self.targets.pop(member_id, None)
        else:
            topics = record.value["topicPartitions"]
            self.targets[member_id] = in_tables({topic["topicId"]: tuple(topic["partitions"]) for topic in topics})

    def _take_expression(self, record: Record) -> None:
        expression = record.key["regularExpression"]
        for topic in self._resolved.pop(expression, ()):
            change(self.matches, topic, -1)
        if record.value is not None:
            topics = self._resolved[expression] = tuple(record.value["topics"])
            for topic in topics:
                change(self.matches, topic, 1)


def change(counts: dict[str, int], name: str, by: int) -> None:
    """Count a name up or down; a count of 0 is dropped."""
    count = counts.get(name, 0) + by
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)


def is_homogeneous(
    names: dict[str, int], matches: dict[str, int], expressions: dict[str, int], member_count: int
) -> bool:
    """Whether members subscribe alike (``ConsumerGroup.subscriptionType``).

    Args:
        names: how many members subscribe to a topic by name.
        matches: how many resolved expressions a topic matches.
        expressions: how many members subscribe to an expression.
        member_count: how many members there are.
    """
    if not expressions:
        return all(names.get(topic, 0) == member_count for topic in (*names, *matches))
    if next(iter(expressions.values())) != member_count:
        return False
    return not names and all(count == 1 for count in matches.values())
