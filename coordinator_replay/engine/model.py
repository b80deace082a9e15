"""Data that the four state machines share: log records, and members with their assignments.

A member has three immutable parts: the subscription, the current assignment and the target assignment. In consumer,
share and streams groups, each part has a kind of record of its own (5, 10, 19; 8, 14, 22; 7, 13, 21). In a classic
group, the parts of all members come from the one ``GroupMetadata`` record of the group (kind 2). Because the parts are
immutable, an event can keep a member as it was, without a copy.

The parts are named tuples and not frozen dataclasses, because each record builds several parts. Building a dataclass of
15 fields takes seven times as long (measured: 3.0 against 0.4 microseconds).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

Assignment = Mapping[str, tuple[int, ...]]
"""Partition numbers by topic. Each topic has at least one number, and its numbers are sorted.

The key is a topic id in consumer and share groups, a topic name in classic groups, a subtopology id in streams groups.
"""

NOTHING: Assignment = {}
LEFT_EPOCH = -1
AWAY_EPOCH = -2
NO_PRODUCER = -1


class GroupType(StrEnum):
    """The four kinds of groups, as tables name them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupState(StrEnum):
    """States of groups in the spelling of Kafka's describe."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    STABLE = "Stable"
    DEAD = "Dead"
    UNKNOWN = "Unknown"


class MemberState(StrEnum):
    """State of a member on the way to its target.

    Classic members have no such state.
    """

    STABLE = "STABLE"
    UNREVOKED_PARTITIONS = "UNREVOKED_PARTITIONS"
    UNRELEASED_PARTITIONS = "UNRELEASED_PARTITIONS"
    UNREVOKED_TASKS = "UNREVOKED_TASKS"
    UNRELEASED_TASKS = "UNRELEASED_TASKS"
    UNKNOWN = "UNKNOWN"


class Record(NamedTuple):
    """One decoded record of a group, in Kafka's JSON form.

    Attributes:
        kind: Kafka's name of the record, e.g. ``ConsumerGroupMemberMetadata``.
        key: fields of the record's key.
        value: the value's fields, None for a tombstone. Embedded protocol blobs are decoded next to their bytes
            (``subscriptionFields``, ``assignmentFields``, ``metadataFields``).
        partition: the log partition.
        offset: the log offset.
        timestamp_ms: the record's own timestamp; None if the timestamp is absent or outside the calendar.
        missing_before: number of all missing offsets of the log partition below this record. If the number rises
            between two records of a group, records of the group may be missing between them.
        value_version: the version of the value; None if unknown.
        producer_id: the batch's producer id, -1 for none.
        is_readable: False if the record has a value that can't be read.
    """

    kind: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None
    partition: int
    offset: int
    timestamp_ms: int | None
    missing_before: int = 0
    value_version: int | None = None
    producer_id: int = NO_PRODUCER
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Marker:
    """A control record: the end of a producer's transaction in one log partition.

    Attributes:
        committed: whether the transaction was committed; False if it was aborted.
    """

    producer_id: int
    committed: bool
    partition: int
    offset: int
    timestamp_ms: int | None


class Protocol(NamedTuple):
    """A protocol that a classic member supports: its name, the member's blob for it, and the fields of the blob."""

    name: str
    metadata: str
    fields: Mapping[str, Any] | None = None


UNKNOWN_TIMEOUT = -1
"""Stands for a timeout that the member's request did not give."""


class Subscription(NamedTuple):
    """The subscription of a member, with its client and its timeouts.

    Attributes:
        topics: topics to which the member subscribes by name; None if they can't be known.
        regex: the regular expression to which the member subscribes; None if it uses none.
        rebalance_timeout_ms: the timeout in the record; UNKNOWN_TIMEOUT if the member's request gave none. None in
            version 0 of a classic group's value, which has no such field. See ``loaded_rebalance_ms`` and
            ``least_rebalance_ms``.
        protocols: protocols of a member on the classic protocol, in its order of preference. Records of a classic group
            have only the chosen protocol.
        uses_classic_protocol: whether the member uses the classic protocol, in a classic or in a consumer group.
        draft: fields that only the draft of KIP-848 had, unchanged; None if the record has no such field.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int | None = -1
    session_timeout_ms: int | None = None
    uses_classic_protocol: bool = False
    protocols: tuple[Protocol, ...] = ()
    process_id: str | None = None
    topology_epoch: int | None = None
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    draft: Mapping[str, Any] | None = None

    @property
    def loaded_rebalance_ms(self) -> int:
        """Return the rebalance timeout that a coordinator uses after loading the record.

        If the record has no rebalance timeout, or −1, return the session timeout.
        """
        if self.rebalance_timeout_ms is None or self.rebalance_timeout_ms == UNKNOWN_TIMEOUT:
            return self.session_timeout_ms or 0
        return self.rebalance_timeout_ms

    @property
    def least_rebalance_ms(self) -> int:
        """Return the lowest rebalance timeout that the coordinator may have used for the member.

        If the record has no timeout, or −1, return 0: the coordinator that wrote −1 used 0.
        """
        return max(self.rebalance_timeout_ms or 0, 0)


NO_SUBSCRIPTION = Subscription()


class Current(NamedTuple):
    """Current assignment of a member.

    Attributes:
        epoch: member epoch; the generation in a classic group.
        state: None in a classic group.
        assigned: partitions that the member may consume (active tasks in a streams group); None if a classic assignment
            can't be read.
        pending: partitions that the member still owns and must give up.
        assigned_epochs: epoch at which each partition in ``assigned`` was assigned, in the same order; empty if the
            record has no epochs.
        standby: standby tasks of a streams group. Only streams groups fill the fields of standby and warm-up tasks.
        assignment_bytes: the assignment of a classic member as its leader wrote it, in base64.
        missing: ``missing_before`` of the assignment's record.
    """

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState | None = MemberState.STABLE
    assigned: Assignment | None = NOTHING
    pending: Assignment = NOTHING
    assigned_epochs: Assignment = NOTHING
    pending_epochs: Assignment = NOTHING
    standby: Assignment = NOTHING
    warmup: Assignment = NOTHING
    standby_pending: Assignment = NOTHING
    warmup_pending: Assignment = NOTHING
    assignment_bytes: str = ""
    draft: Mapping[str, Any] | None = None
    missing: int = 0

    @property
    def has_bytes(self) -> bool:
        """Return whether a classic member's assignment has any bytes.

        An empty assignment has bytes too: its version.
        """
        return bool(self.assignment_bytes or self.assigned)

    def owned(self) -> Assignment:
        """Return the partitions that the member owns.

        As in the broker's describe, these are assigned and pending partitions.
        """
        if not self.pending:
            return self.assigned or NOTHING
        return merged(self.assigned or NOTHING, self.pending)

    def is_same_as(self, other: "Current | None") -> bool:
        """Return whether two current assignments are equal.

        The previous epoch, the epochs of single partitions and ``missing`` are not compared.
        """
        return other is not None and _NOW(self) == _NOW(other)


_PAST = {"previous_epoch", "assigned_epochs", "pending_epochs", "missing"}
_NOW = attrgetter(*(name for name in Current._fields if name not in _PAST))

JOINING = Current()
"""Stands for the current assignment of a member if the log has no record of this assignment."""


class Target(NamedTuple):
    """Target assignment of a member.

    Attributes:
        assigned: the partitions; in a streams group, the active tasks. Only streams groups have standby and warm-up
            tasks.
        missing: ``missing_before`` of the target's record.
    """

    assigned: Assignment
    standby: Assignment = NOTHING
    warmup: Assignment = NOTHING
    draft: Mapping[str, Any] | None = None
    missing: int = 0

    def is_same_as(self, other: "Target | None") -> bool:
        """Return whether two target assignments have the same partitions."""
        return other is not None and self[:4] == other[:4]


class Member(NamedTuple):
    """A member as its records describe it.

    The subscription, the current assignment and the target assignment are None until a record has them.
    """

    member_id: str
    subscription: Subscription | None = None
    current: Current | None = None
    target: Target | None = None

    @property
    def instance_id(self) -> str | None:
        """Return the instance id of a static member; None for a dynamic member."""
        return self.subscription_or_empty.instance_id

    @property
    def subscription_or_empty(self) -> Subscription:
        """Return the member's subscription.

        If no record has one, return an empty subscription.
        """
        return self.subscription or NO_SUBSCRIPTION


@dataclass(frozen=True, slots=True)
class Regex:
    """Topics to which a regular expression was resolved.

    The version of the cluster's metadata and a time say when the expression was resolved.
    """

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A subscribed topic in a ConsumerGroupPartitionMetadata record (kind 4). Brokers wrote it before Kafka 4.1."""

    topic_id: str
    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of a streams group.

    Attributes:
        epoch: the topology epoch.
        source_topics: the topics that a subtopology reads, by subtopology. Each task reads one partition number of
            these topics.
    """

    epoch: int
    source_topics: Mapping[str, tuple[str, ...]]


def partitions_by_topic(entries: Iterable[Mapping[str, Any]] | None, key: str = "topicId") -> Assignment:
    """Read ``[{topicId, partitions}]`` as an assignment.

    If a topic is named twice, its partitions are merged.

    >>> partitions_by_topic([{"topicId": "a", "partitions": [2, 0]}, {"topicId": "b", "partitions": []}])
    {'a': (0, 2)}
    """
    if not entries:
        return NOTHING
    assignment: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        topic, partitions = entry[key], entry["partitions"]
        if not partitions:
            continue
        if topic in assignment:
            partitions = {*assignment[topic], *partitions}
        assignment[topic] = tuple(sorted(partitions))
    return assignment


def epochs_by_topic(entries: Iterable[Mapping[str, Any]] | None, key: str = "topicId") -> Assignment:
    """Return for each topic the ``assignmentEpochs`` of its partitions, in the order of the partition numbers.

    ``partitions_by_topic`` returns the partitions in the same order. Leave out a topic whose number of epochs differs
    from its number of partitions. If a topic is named twice, only the first entry is used.

    >>> epochs_by_topic([{"topicId": "a", "partitions": [2, 0], "assignmentEpochs": [7, 5]}])
    {'a': (5, 7)}
    """
    if not entries:
        return NOTHING
    by_topic: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        epochs = entry.get("assignmentEpochs")
        partitions = entry["partitions"]
        if not epochs or len(epochs) != len(partitions) or entry[key] in by_topic:
            continue
        if sorted(partitions) != partitions:
            epochs = [epoch for _, epoch in sorted(zip(partitions, epochs, strict=True))]
        by_topic[entry[key]] = tuple(epochs)
    return by_topic


def merged(assignment: Assignment, other: Assignment) -> Assignment:
    """Return an assignment with the partitions of both assignments.

    >>> merged({"a": (1,)}, {"a": (0,), "b": (3,)})
    {'a': (0, 1), 'b': (3,)}
    """
    both = dict(assignment)
    for topic, partitions in other.items():
        both[topic] = tuple(sorted({*both[topic], *partitions})) if topic in both else partitions
    return both


def without(assignment: Assignment, other: Assignment) -> Assignment:
    """Return the partitions of the first assignment that are not in the second.

    >>> without({"a": (0, 1, 2), "b": (3,)}, {"a": (1,), "b": (3,)})
    {'a': (0, 2)}
    """
    # Most records of a member leave its partitions as they are.
    if assignment == other:
        return {}
    rest: dict[str, tuple[int, ...]] = {}
    for topic, partitions in assignment.items():
        removed = other.get(topic)
        if removed is None:
            rest[topic] = partitions
        elif removed != partitions:
            numbers = set(removed)
            left = tuple(partition for partition in partitions if partition not in numbers)
            if left:
                rest[topic] = left
    return rest


def draft_fields(value: Mapping[str, Any], names: frozenset[str]) -> Mapping[str, Any] | None:
    """Return the fields that only the draft of KIP-848 had.

    Return None if the value has none of these fields.
    """
    if names.isdisjoint(value):
        return None
    return {name: value[name] for name in sorted(names) if name in value}
