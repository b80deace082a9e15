"""The part of a consumer group's state that is not in the engine's ``ConsumerGroup``.

Mirrors parts of ``modern.consumer.ConsumerGroup`` and ``modern.ModernGroup``. If the log partition gets a new leader,
``refresh_at_ms`` and ``extension`` are lost. All other attributes follow from the group's records.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import Assignment, Record, Regex, Subscription
from coordinator_replay.java_strings import string_hash
from coordinator_replay.simulation.coordinator.assignor.server.group_spec import in_tables
from coordinator_replay.simulation.coordinator.java_order import TimelineOrder

NEVER = 0
"""A deadline that has always passed."""


class Subscriptions(Counter[tuple[tuple[str, ...], str | None]]):
    """Numbers of members that have the same subscription: the same topic names and the same regular expression.

    An object never changes: a change makes a new object.
    """

    def replaced(self, before: Subscription | None, after: Subscription | None) -> "Subscriptions":
        """Return the counts after a member's subscription has changed from ``before`` to ``after``.

        ``before`` is None for a new member, ``after`` is None for a member that left.
        """
        others = Subscriptions(self)
        if before is not None:
            key = before.topics or (), before.regex
            others[key] -= 1
            if others[key] <= 0:
                del others[key]
        if after is not None:
            others[after.topics or (), after.regex] += 1
        return others

    @cached_property
    def expressions(self) -> Counter[str]:
        """Return the number of members that subscribe to each expression."""
        users: Counter[str] = Counter()
        for (_, expression), count in self.items():
            if expression is not None:
                users[expression] += count
        return users

    def topics(self, regexes: Mapping[str, Regex]) -> set[str]:
        """Return the topics that any member subscribes to, by name or by a resolved expression.

        The topics need not exist.
        """
        used = [regexes[expression].topics for expression in self.expressions if expression in regexes]
        return {name for names in (*(names for names, _ in self), *used) for name in names}

    def are_homogeneous(self, regexes: Mapping[str, Regex]) -> bool:
        """Return whether all members subscribe to the same topics, as in Kafka (``ConsumerGroup.subscriptionType``).

        All members must have the same topic names and the same expression. There is a second condition:

        - If the members have no expression, their topic names must include the topics of all expressions in
          ``regexes``.
        - If the members have an expression, they must have no topic names. No topic may belong to two expressions in
          ``regexes``.

        Args:
            regexes: the resolved expressions of the group. As in Kafka, they include unused expressions.
        """
        if len(self) != 1:
            return not self
        ((names, expression),) = self
        resolved = [topic for regex in regexes.values() for topic in regex.topics]
        if expression is None:
            return set(resolved) <= set(names)
        return not names and len(resolved) == len(set(resolved))


@dataclass(slots=True, eq=False)
class ConsumerState:
    """The part of a consumer group's state that is not in the engine's ``ConsumerGroup``.

    Attributes:
        members: ids of the members in the order of Kafka's hash table.
        static_members: member id by instance id.
        subscriptions: the subscriptions of the members.
        is_homogeneous: whether all members subscribe to the same topics, as far as the coordinator knows.
        refresh_at_ms: time from which on the metadata hash must be computed again.
        refresh_epoch: group epoch for which ``refresh_at_ms`` was set.
        targets: target assignment of each member, in the order of Kafka's hash tables.
        extension: data about assignors that run in clients, which only the draft of KIP-848 has. None if the draft is
            not used.
        has_partition_metadata: whether the group has a record ConsumerGroupPartitionMetadata. Brokers before 4.1 wrote
            such records.
    """

    members: TimelineOrder[str, None] = field(default_factory=lambda: TimelineOrder(string_hash))
    static_members: dict[str, str] = field(default_factory=dict)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    is_homogeneous: bool = True
    refresh_at_ms: int = NEVER
    refresh_epoch: int = 0
    targets: dict[str, Assignment] = field(default_factory=dict)
    extension: object | None = None
    has_partition_metadata: bool = False
    _by_member: dict[str, Subscription] = field(default_factory=dict)

    def take(self, record: Record, group: ConsumerGroup) -> None:
        """Update the state after the engine has replayed a record of the group."""
        match record.kind:
            case "ConsumerGroupMemberMetadata":
                self._take_member(record.key["memberId"], group)
                self.is_homogeneous = self.subscriptions.are_homogeneous(group.regexes)
            case "ConsumerGroupCurrentMemberAssignment":
                if record.value is not None:
                    # The member is in the table already, but as in Kafka, a put may enlarge the table.
                    self.members[record.key["memberId"]] = None
                self.is_homogeneous = self.subscriptions.are_homogeneous(group.regexes)
            case "ConsumerGroupTargetAssignmentMember":
                self._take_target(record)
            case "ConsumerGroupPartitionMetadata":
                self.has_partition_metadata = record.value is not None

    def metadata_has_expired(self, now_ms: int, group_epoch: int) -> bool:
        """Return whether the metadata hash must be computed again."""
        return now_ms >= self.refresh_at_ms or group_epoch < self.refresh_epoch

    def forget_soft_state(self) -> None:
        """Drop all state that does not follow from records. A new leader of the log partition would not have it."""
        self.request_refresh()
        self.extension = None

    def request_refresh(self) -> None:
        """Let the next heartbeat compute the metadata hash again."""
        self.refresh_at_ms, self.refresh_epoch = NEVER, 0

    def _take_member(self, member_id: str, group: ConsumerGroup) -> None:
        member = group.members.get(member_id)
        before, after = self._by_member.pop(member_id, None), None if member is None else member.subscription
        self.subscriptions = self.subscriptions.replaced(before, after)
        if after is not None:
            self.members[member_id] = None
            self._by_member[member_id] = after
            if after.instance_id is not None:
                self.static_members[after.instance_id] = member_id
            return
        self.members.pop(member_id, None)
        instance_id = before.instance_id if before is not None else None
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _take_target(self, record: Record) -> None:
        member_id = record.key["memberId"]
        if record.value is None:
            self.targets.pop(member_id, None)
        else:
            topics = record.value["topicPartitions"]
            self.targets[member_id] = in_tables({topic["topicId"]: tuple(topic["partitions"]) for topic in topics})
