"""Racks for the sticky assignors.

A member is near a partition if the member's rack has a replica of the partition. Mirrors
``AbstractStickyAssignor.RackInfo`` (KIP-881).
"""

from collections.abc import Sequence

from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    Members,
    Partition,
    Topics,
    racks_matter,
)


class Racks:
    """Racks of members and partitions.

    Both mappings are empty if racks do not matter.

    Attributes:
        of_members: the rack of each member that has one, by member id.
        of_partitions: the racks of each partition's replicas.
    """

    __slots__ = ("_nearby_members", "of_members", "of_partitions")

    def __init__(self, topics: Topics, members: Members) -> None:
        consumer_racks = {
            member: subscription.rack_id for member, subscription in members.items() if subscription.rack_id
        }
        matter = racks_matter(frozenset(consumer_racks.values()), topics.values())
        partitions = (
            {(topic, number): racks for topic, every in topics.items() for number, racks in enumerate(every)}
            if consumer_racks
            else {}
        )
        members_in: dict[str, int] = {}
        for rack in consumer_racks.values():
            members_in[rack] = members_in.get(rack, 0) + 1
        self.of_members: dict[str, str] = consumer_racks if matter else {}
        self.of_partitions: dict[Partition, frozenset[str]] = partitions if matter else {}
        # Kafka counts and sorts by racks as soon as any member has a rack, even if racks do not matter otherwise.
        self._nearby_members = {
            partition: sum(members_in.get(rack, 0) for rack in racks) for partition, racks in partitions.items()
        }

    def __bool__(self) -> bool:
        """Return whether the assignor considers racks for these members and partitions."""
        return bool(self.of_members)

    def mismatch(self, member: str, partition: Partition) -> bool:
        """Return whether the member has a rack that has no replica of the partition."""
        rack = self.of_members.get(member)
        return rack is not None and rack not in self.of_partitions.get(partition, frozenset())

    def rarest_first(self, partitions: list[Partition]) -> list[Partition]:
        """Return partitions sorted by the number of members whose rack has a replica of the partition.

        The partition with the smallest number comes first. Partitions with equal numbers keep their order.
        """
        return sorted(partitions, key=lambda partition: self._nearby_members.get(partition, 0))

    def next_nearby(self, partition: Partition, members: Sequence[str], first: int) -> int | None:
        """Return the index of the next member whose rack has a replica of the partition; None without such a member.

        The search begins at index ``first``, and continues at index 0 after the last member.
        """
        racks = self.of_partitions.get(partition, frozenset())
        for step in range(len(members)):
            place = (first + step) % len(members)
            if self.of_members.get(members[place]) in racks:
                return place
        return None
