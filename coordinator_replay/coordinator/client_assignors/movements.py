"""Which partitions moved from whom to whom while the general sticky algorithm balances.

Partitions of one topic shall not move between two members in both directions; instead of the second one, the first
one goes back. ``AbstractStickyAssignor.PartitionMovements``.
"""

from coordinator_replay.coordinator.client_assignors.subscription import Partition
from coordinator_replay.coordinator.java_order import HashOrder, partition_hash


class Movements:
    """Moves so far; a partition that moved on counts from where it started."""

    __slots__ = ("_moved", "_routes")

    def __init__(self) -> None:
        self._routes: dict[Partition, tuple[str, str]] = {}
        self._moved: dict[tuple[str, str, str], HashOrder[Partition, None]] = {}

    def partition_to_move(self, partition: Partition, source: str, destination: str) -> Partition:
        """The partition to move in place of this one: one that came the other way, if there is one."""
        if partition in self._routes:
            source = self._routes[partition][0]
        reverse = self._moved.get((partition[0], destination, source))
        return next(iter(reverse)) if reverse else partition

    def move(self, partition: Partition, source: str, destination: str) -> None:
        """Note a move; one back to where the partition started takes the note away."""
        route = self._routes.pop(partition, None)
        if route is not None:
            came_along = self._moved[partition[0], *route]
            del came_along[partition]
            source = route[0]
            if source == destination:
                return
        self._routes[partition] = (source, destination)
        key = (partition[0], source, destination)
        if not self._moved.get(key):
            # An empty set is thrown away and made anew, so it starts with the smallest table again.
            self._moved[key] = HashOrder(partition_hash)
        self._moved[key][partition] = None
