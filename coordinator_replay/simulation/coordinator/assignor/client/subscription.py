"""Subscriptions that consumers of the classic protocol send to their leader, and the topics that the leader knows.

The types have only those parts of Kafka's ``ConsumerPartitionAssignor.Subscription`` and ``Cluster`` that assignors
read.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.simulation.coordinator.java_order import member_order

Partition = tuple[str, int]
"""Topic name and partition number."""

Assignment = dict[str, list[Partition]]
"""Partitions by member id, in the order in which the assignor gave them out."""

Topics = Mapping[str, tuple[frozenset[str], ...]]
"""The racks of every partition's replicas, by topic name. A replica without a rack adds nothing."""

NO_GENERATION = -1


class AssignorError(CoordinatorReplayError):
    """An error for an input on which Kafka's own assignor throws.

    The consumer that leads the group would fail to rebalance.
    """


class ClientSubscription(NamedTuple):
    """One member's subscription.

    Attributes:
        topics: names of the topics that the member subscribes to, in the client's order.
        owned: partitions that the member says it owns, from ``ownedPartitions`` of the subscription. The assignor
            ``sticky`` reads them from the user data of the subscription.
        generation: the generation in which the member owned these partitions; -1 if the subscription has none.
        rack_id: ``client.rack``; None or an empty text for none.
        instance_id: ``group.instance.id`` of a static member.
    """

    topics: tuple[str, ...]
    owned: tuple[Partition, ...] = ()
    generation: int = NO_GENERATION
    rack_id: str | None = None
    instance_id: str | None = None


Members = Mapping[str, ClientSubscription]
"""Subscriptions by member id, in the order of the leader's table."""


def subscribed(topics: Topics, members: Members) -> Topics:
    """Return the topics that have partitions and at least one subscriber.

    Assignors get no other topics.
    """
    wanted = {topic for member in members.values() for topic in member.topics}
    return {topic: partitions for topic, partitions in topics.items() if topic in wanted and partitions}


def members_in_order(ids: Iterable[str], members: Members) -> list[str]:
    """Return members in the order in which ``range`` and ``roundrobin`` take them.

    Static members come first, by instance id; then the others by member id.
    """
    return sorted(ids, key=lambda member_id: member_order(member_id, members[member_id].instance_id))


def partitions_of(topics: Topics, names: Iterable[str]) -> list[Partition]:
    """Return all partitions of these topics, topic by topic."""
    return [(name, number) for name in names for number in range(len(topics[name]))]


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Return partition numbers, grouped by topic, in the given order."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return by_topic


def racks_matter(consumer_racks: frozenset[str], topics: Iterable[tuple[frozenset[str], ...]]) -> bool:
    """Return whether an assignment depends on racks (``AbstractPartitionAssignor.useRackAwareAssignment``).

    Racks matter if two conditions hold:

    - The rack of at least one consumer has a replica of a partition.
    - At least one partition lacks a replica in a rack that has replicas of other partitions.

    Args:
        consumer_racks: the racks of the consumers.
        topics: for each topic, the racks of each partition's replicas.
    """
    replica_racks = [racks for partitions in topics for racks in partitions]
    everywhere = frozenset().union(*replica_racks)
    return not consumer_racks.isdisjoint(everywhere) and any(racks != everywhere for racks in replica_racks)
