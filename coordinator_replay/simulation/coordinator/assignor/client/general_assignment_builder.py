"""The sticky algorithm for members whose subscriptions differ.

Members keep their partitions. Each remaining partition goes to the least loaded subscriber of its topic. Then
partitions move from loaded members to others, as long as such moves improve the balance. Mirrors
``AbstractStickyAssignor.GeneralAssignmentBuilder``.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from coordinator_replay.simulation.coordinator.assignor.client.claims import Claims
from coordinator_replay.simulation.coordinator.assignor.client.constrained_assignment_builder import without_kept
from coordinator_replay.simulation.coordinator.assignor.client.racks import Racks
from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    NO_GENERATION,
    Assignment,
    AssignorError,
    Members,
    Partition,
    Topics,
    partitions_of,
)
from coordinator_replay.simulation.coordinator.java_order import HashOrder, partition_hash, string_order


class GeneralAssignmentBuilder:
    """One run of the sticky algorithm for members that subscribe to different topics."""

    def __init__(self, topics: Topics, racks: Racks, claims: Claims, members: Members) -> None:
        self._topics, self._racks, self._claims, self._members = topics, racks, claims, members
        self._assignment: Assignment = dict(claims.owned.items())
        self._owner = {partition: member for member, owned in self._assignment.items() for partition in owned}
        self._readers: dict[str, list[str]] = {
            topic: [member for member, subscription in members.items() if topic in subscription.topics]
            for topic in topics
        }
        self._readable = {
            member: [topic for topic in subscription.topics if topic in topics]
            for member, subscription in members.items()
        }
        names = sorted(topics, key=lambda topic: (len(self._readers[topic]), string_order(topic)))
        self._sorted_partitions = partitions_of(topics, names)
        self._by_load = _ByLoad(self._assignment)
        self._movements = PartitionMovements()
        self._must_revoke = False
        self._earlier_owners = self._find_earlier_owners()

    def build(self) -> Assignment:
        """Assign all partitions, and return the assignment.

        Raises:
            AssignorError: Kafka's assignor fails with these subscriptions, too.
        """
        kept = self._keep_owned()
        unassigned = self._sorted_partitions
        if kept:
            kept.sort(
                key=lambda partition: (len(self._readers[partition[0]]), string_order(partition[0]), partition[1])
            )
            unassigned = without_kept(self._sorted_partitions, kept)
        self._by_load.add_all(self._assignment)
        try:
            self._balance(unassigned)
        except KeyError as error:
            raise AssignorError(f"{error} takes no part in the balancing and owned a partition that does") from error
        return self._assignment

    def _find_earlier_owners(self) -> dict[Partition, str]:
        """Return the last owner of each partition in the generations before the latest generation."""
        latest: dict[Partition, tuple[int, str]] = {}
        for member, subscription in self._members.items():
            if (
                subscription.generation >= self._claims.latest_generation
                or self._claims.latest_generation == NO_GENERATION
            ):
                continue
            for partition in subscription.owned:
                if partition not in latest or subscription.generation > latest[partition][0]:
                    latest[partition] = (subscription.generation, member)
        return {partition: member for partition, (_, member) in latest.items()}

    def _keep_owned(self) -> list[Partition]:
        kept = []
        for member, owned in self._assignment.items():
            topics = self._members[member].topics
            fitting = [
                partition
                for partition in owned
                if partition[0] in topics and not self._racks.mismatch(member, partition)
            ]
            self._must_revoke = self._must_revoke or len(fitting) < len(owned)
            owned[:] = fitting
            kept += fitting
        return kept

    def _balance(self, unassigned: list[Partition]) -> None:
        was_empty = not self._assignment[self._by_load.last()]
        rest = unassigned
        if self._racks:
            rest = [partition for partition in unassigned if not self._assign_least_loaded(partition, uses_racks=True)]
        for partition in rest:
            self._assign_least_loaded(partition, uses_racks=False)

        movable = {topic for topic, readers in self._readers.items() if len(readers) >= 2}
        movable_partitions = [partition for partition in self._sorted_partitions if partition[0] in movable]
        fixed = self._take_out_fixed_members(movable)
        before = {member: list(partitions) for member, partitions in self._assignment.items()}
        if not self._must_revoke:
            self._reassign([partition for partition in unassigned if partition[0] in movable])
        has_moved = self._reassign(movable_partitions)
        if has_moved and not was_empty and _imbalance(self._assignment) >= _imbalance(before):
            self._assignment = before
        self._assignment.update(fixed)

    def _assign_least_loaded(self, partition: Partition, *, uses_racks: bool) -> bool:
        for member in self._by_load:
            if partition[0] in self._readable[member] and not (uses_racks and self._racks.mismatch(member, partition)):
                self._by_load.remove(member)
                self._assignment[member].append(partition)
                self._owner[partition] = member
                self._by_load.add(member)
                return True
        return False

    def _take_out_fixed_members(self, movable: set[str]) -> Assignment:
        """Remove from the assignment all members whose partitions can't change, and return their partitions.

        Such a member has every partition of its topics, and no other member subscribes to a topic of its partitions.

        Args:
            movable: the topics that two or more members subscribe to.
        """
        fixed: Assignment = {}
        for member, topics in self._readable.items():
            owned = self._assignment[member]
            if len(owned) >= self._possible(topics) and not any(topic in movable for topic, _ in owned):
                self._by_load.remove(member)
                fixed[member] = self._assignment.pop(member)
        return fixed

    def _possible(self, topics: list[str]) -> int:
        return sum(len(self._topics[topic]) for topic in topics)

    def _is_balanced(self) -> bool:
        members = list(self._by_load)
        if len(self._assignment[members[0]]) >= len(self._assignment[members[-1]]) - 1:
            return True
        owners = {partition: member for member, owned in self._assignment.items() for partition in owned}
        for member in members:
            owned = self._assignment[member]
            if len(owned) == self._possible(self._readable[member]):
                continue
            for partition in partitions_of(self._topics, self._readable[member]):
                if partition not in owned and len(owned) + 1 < len(self._assignment[owners[partition]]):
                    return False
        return True

    def _reassign(self, partitions: list[Partition]) -> bool:
        """Move partitions in rounds, until a round moves no partition.

        Return whether any partition moved.
        """
        has_moved = False
        while self._reassign_once(partitions):
            has_moved = True
        return has_moved

    def _reassign_once(self, partitions: list[Partition]) -> bool:
        has_moved = False
        for partition in partitions:
            if self._is_balanced():
                break
            destination = self._destination(partition)
            if destination is not None:
                owner = self._owner[partition]
                self._move(self._movements.partition_to_move(partition, owner, destination), destination)
                has_moved = True
        return has_moved

    def _destination(self, partition: Partition) -> str | None:
        """Return the member to which a partition should move; None if the partition should stay.

        A partition moves only to a member that has at least two partitions fewer than the present owner. This is the
        partition's earlier owner if possible, otherwise the least loaded subscriber of the topic.
        """
        load = len(self._assignment[self._owner[partition]])
        earlier = self._earlier_owners.get(partition)
        if earlier is not None and load > len(self._assignment[earlier]) + 1:
            return earlier
        # If racks matter, Kafka first looks for a nearby reader with less load. It then still moves the partition to
        # the least loaded reader, so the result is the same without that search.
        readers = self._readers[partition[0]]
        if any(load > len(self._assignment[reader]) + 1 for reader in readers):
            return next(member for member in self._by_load if partition[0] in self._readable[member])
        return None

    def _move(self, partition: Partition, destination: str) -> None:
        source = self._owner[partition]
        self._by_load.remove(source)
        self._by_load.remove(destination)
        self._movements.move(partition, source, destination)
        self._assignment[source].remove(partition)
        self._assignment[destination].append(partition)
        self._owner[partition] = destination
        self._by_load.add(destination)
        self._by_load.add(source)


class _ByLoad:
    """Members in the order of their number of partitions, then of their ids.

    Remove a member before its number of partitions changes, and add the member again afterwards.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._entries: list[tuple[int, bytes, str]] = []

    def __iter__(self) -> Iterator[str]:
        return (member for _, _, member in self._entries)

    def last(self) -> str:
        return self._entries[-1][2]

    def add_all(self, members: Iterable[str]) -> None:
        self._entries = sorted(map(self._entry, members))

    def add(self, member: str) -> None:
        insort(self._entries, self._entry(member))

    def remove(self, member: str) -> None:
        entry = self._entry(member)
        place = bisect_left(self._entries, entry)
        if place < len(self._entries) and self._entries[place] == entry:
            del self._entries[place]

    def _entry(self, member: str) -> tuple[int, bytes, str]:
        return len(self._assignment[member]), string_order(member), member


def _imbalance(assignment: Assignment) -> int:
    """Return a measure of imbalance: the difference in the number of partitions, summed over all pairs of members."""
    sizes = sorted(map(len, assignment.values()))
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))


class PartitionMovements:
    """The partitions that have moved so far, each with its first and its last owner.

    The moves are needed because two members must not exchange partitions of a topic. Mirrors
    ``AbstractStickyAssignor.PartitionMovements``.
    """

    __slots__ = ("_moved", "_routes")

    def __init__(self) -> None:
        self._routes: dict[Partition, tuple[str, str]] = {}
        self._moved: dict[tuple[str, str, str], HashOrder[Partition, None]] = {}

    def partition_to_move(self, partition: Partition, source: str, destination: str) -> Partition:
        """Return the partition to move, so that two members never exchange partitions of a topic.

        This is a partition of the same topic that already moved from ``destination`` to ``source``. If there is no such
        partition, it is ``partition`` itself.

        Args:
            partition: the partition that a balanced assignment would move.
            source: the member that would lose the partition.
            destination: the member that would get the partition.
        """
        if partition in self._routes:
            source = self._routes[partition][0]
        reverse = self._moved.get((partition[0], destination, source))
        return next(iter(reverse)) if reverse else partition

    def move(self, partition: Partition, source: str, destination: str) -> None:
        """Note that a partition moves to another member.

        If the partition returns to its first owner, its moves are deleted.

        Args:
            partition: the partition.
            source: the member that loses the partition.
            destination: the member that gets the partition.
        """
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
            # As in Kafka, an empty set is replaced by a new set. A new set has a small table, which decides its order.
            self._moved[key] = HashOrder(partition_hash)
        self._moved[key][partition] = None
