"""A member's target assignment while it is computed, in the order of the hash tables of Kafka's assignors.

The record of the target keeps the order of topics and partitions, and the next computation begins with this order. The
order decides which partitions a member keeps if its quota gets smaller.
"""

from coordinator_replay.engine.model import Assignment
from coordinator_replay.simulation.coordinator.assignor.server.group_spec import uuid_hash
from coordinator_replay.simulation.coordinator.java_order import DEFAULT_CAPACITY, HashOrder, hash_set

Partitions = HashOrder[int, None]


class MemberTarget:
    """The new target assignment of a member, while it is computed. At first it equals the member's last target.

    Attributes:
        target: the last target, not the new one, in the order of Kafka's hash tables. It never changes.
    """

    __slots__ = ("_topics", "target")

    def __init__(self, target: Assignment) -> None:
        self.target = target
        self._topics: HashOrder[str, Partitions] | None = None

    def add(self, topic_id: str, partition: int, capacity: int = DEFAULT_CAPACITY) -> None:
        """Give the member a partition.

        Args:
            topic_id: id of the partition's topic.
            partition: number of the partition.
            capacity: initial capacity of the set for a topic that is new to the member.
        """
        topics = self._changed()
        partitions = topics.get(topic_id)
        if partitions is None:
            partitions = HashOrder(int, capacity)
        topics.put_first(topic_id, partitions)
        partitions[partition] = None

    def remove(self, topic_id: str, partition: int) -> None:
        """Remove a partition.

        If the topic has no partition left, remove the topic.
        """
        topics = self._changed()
        partitions = topics[topic_id]
        del partitions[partition]
        if not partitions:
            del topics[topic_id]

    def drop(self, topic_id: str) -> None:
        """Remove all partitions of a topic."""
        del self._changed()[topic_id]

    def result(self) -> Assignment:
        """Return the new target: the member's partitions by topic.

        Topics and partitions are in the order of Kafka's hash tables.
        """
        if self._topics is None:
            return self.target
        return {topic_id: tuple(partitions) for topic_id, partitions in self._topics.items()}

    def _changed(self) -> HashOrder[str, Partitions]:
        if self._topics is None:
            self._topics = HashOrder(uuid_hash, len(self.target))
            for topic_id, partitions in self.target.items():
                self._topics[topic_id] = hash_set(partitions, int, len(partitions))
        return self._topics
