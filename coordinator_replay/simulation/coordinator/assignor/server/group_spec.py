"""Input of an assignor on the broker: members with their subscriptions and targets, and the topics.

Mirrors ``GroupSpec`` and ``SubscribedTopicDescriber``. If the order of a Kafka hash table decides an assignment, the
table of ``java_order`` is used here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from coordinator_replay.engine.model import Assignment
from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.simulation.coordinator.java_order import DEFAULT_CAPACITY, HashOrder, hash_set
from coordinator_replay.simulation.coordinator.messages import uuid_bytes
from coordinator_replay.simulation.coordinator.topics import Topic


class PartitionAssignorError(CoordinatorReplayError):
    """An error of an assignor that can't assign the partitions of a group (``PartitionAssignorException``)."""


class MemberSpec(NamedTuple):
    """A member as assignors see it.

    Attributes:
        instance_id: the member's instance id, if the member is static.
        topic_ids: existing topics that the member subscribes to.
        subscribed: number of topics that the member subscribes to, unknown topics included.
        target: the member's present target assignment, in the order of Kafka's hash tables (``in_tables``).
    """

    instance_id: str | None
    topic_ids: tuple[str, ...]
    subscribed: int
    target: Assignment


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as assignors see it.

    Attributes:
        members: members by id, in the order of Kafka's hash table.
        is_homogeneous: whether all members subscribe to the same topics, as far as the coordinator knows.
        topics: topics of the cluster by id.
        assigned: the partitions in the targets of all members, as pairs of topic id and partition number.
    """

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    topics: Mapping[str, Topic]
    assigned: Collection[tuple[str, int]]


@lru_cache(maxsize=1 << 14)
def uuid_hash(topic_id: str) -> int:
    """Return ``Uuid.hashCode``: both halves folded to 32 bits."""
    data = uuid_bytes(topic_id)
    folded = int.from_bytes(data[:8], "big") ^ int.from_bytes(data[8:], "big")
    return (folded >> 32) ^ (folded & 0xFFFFFFFF)


def uuid_order(topic_id: str) -> tuple[int, int]:
    """Return a sort key with the order of ``Uuid.compareTo``: two signed numbers."""
    data = uuid_bytes(topic_id)
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big", signed=True)


def in_tables(target: Assignment) -> Assignment:
    """Return a target assignment in the order in which Kafka's hash tables iterate over it.

    Kafka reads the record into a ``HashMap`` of ``HashSet``s.

    Args:
        target: topics and partitions in the order of the record.
    """
    if len(target) < 2:
        return {topic_id: _partition_set(partitions) for topic_id, partitions in target.items()}
    table: HashOrder[str, tuple[int, ...]] = HashOrder(uuid_hash)
    for topic_id, partitions in target.items():
        table[topic_id] = _partition_set(partitions)
    return dict(table)


def _partition_set(partitions: Sequence[int]) -> tuple[int, ...]:
    if all(partition < max(len(partitions), DEFAULT_CAPACITY) for partition in partitions):
        # Each number has a bin of its own, and bins come in ascending order.
        return tuple(sorted(partitions))
    return tuple(hash_set(partitions, int, len(partitions)))
