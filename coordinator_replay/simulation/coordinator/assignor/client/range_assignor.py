"""The assignor ``range``: it divides each topic separately, into ranges of consecutive partitions.

If racks matter, members whose rack has a replica come first. Mirrors
``org.apache.kafka.clients.consumer.RangeAssignor`` (racks since KIP-881).
"""

from collections.abc import Callable, Collection

from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    Assignment,
    Members,
    Partition,
    Topics,
    members_in_order,
    racks_matter,
    subscribed,
)
from coordinator_replay.simulation.coordinator.java_order import string_order


def assign(topics: Topics, members: Members) -> Assignment:
    """Give every partition to a subscriber of its topic.

    If racks matter, partitions first go to subscribers in the rack of a replica. In this case, topics with the same
    subscribers and the same number of partitions are assigned together: one member gets partition N of all these
    topics.
    """
    assignment: Assignment = {member_id: [] for member_id in members}
    runs = [_TopicRun(topic, racks, members) for topic, racks in subscribed(topics, members).items()]
    uses_racks = any(run.uses_racks for run in runs)
    if uses_racks:
        _assign_by_rack(runs, assignment)
    for run in runs:
        run.assign_ranges(lambda _member, _number: True, assignment)
    if uses_racks:
        for partitions in assignment.values():
            partitions.sort(key=lambda partition: (string_order(partition[0]), partition[1]))
    return assignment


class _TopicRun:
    """One topic while its partitions are assigned to members."""

    def __init__(self, topic: str, racks: tuple[frozenset[str], ...], members: Members) -> None:
        self.topic = topic
        self.racks = racks
        order = members_in_order((member for member in members if topic in members[member].topics), members)
        self.consumers = {member: members[member].rack_id or None for member in order}
        self.unassigned: list[int] = list(range(len(racks)))
        self.uses_racks = racks_matter(frozenset(rack for rack in self.consumers.values() if rack), [racks])
        self._has_consumer_racks = any(self.consumers.values())
        self._assigned_count = dict.fromkeys(order, 0)
        self._base, self._extra = divmod(len(racks), len(order))

    @property
    def partition_count_with_racks(self) -> int:
        """Return the partition count of the topic, or 0 if no subscriber has a rack."""
        return len(self.racks) if self._has_consumer_racks else 0

    def room(self, member: str) -> int:
        """Return how many more partitions the member may get."""
        return max(0, self._base + (self._extra > 0) - self._assigned_count[member])

    def fits(self, member: str, number: int) -> bool:
        """Return whether the member's rack has a replica of the partition, or the member has no rack."""
        rack = self.consumers[member]
        return rack is None or rack in self.racks[number]

    def assign_ranges(self, may_take: Callable[[str, int], bool], assignment: Assignment) -> None:
        """Assign the remaining partitions of the topic, one member after the other.

        Args:
            may_take: function that tells whether a member may get the partition with this number.
            assignment: the assignment to extend.
        """
        for member in self.consumers:
            room = self.room(member)
            taken = [number for number in self.unassigned if may_take(member, number)][:room]
            if taken:
                self.give(member, taken, assignment)

    def give(self, member: str, numbers: Collection[int], assignment: Assignment) -> None:
        """Give partitions of the topic to a member, and note that they are assigned."""
        partitions: list[Partition] = [(self.topic, number) for number in numbers]
        assignment[member].extend(partitions)
        self._assigned_count[member] += len(partitions)
        if self._assigned_count[member] > self._base:
            self._extra -= 1
        self.unassigned = [number for number in self.unassigned if number not in numbers]


def _assign_by_rack(runs: list[_TopicRun], assignment: Assignment) -> None:
    together: dict[tuple[frozenset[tuple[str, str | None]], int], list[_TopicRun]] = {}
    for run in runs:
        key = (frozenset(run.consumers.items()), run.partition_count_with_racks)
        together.setdefault(key, []).append(run)
    for (_, count), alike in together.items():
        if len(alike) > 1:
            _assign_together(alike, count, assignment)
        elif alike[0].uses_racks:
            alike[0].assign_ranges(alike[0].fits, assignment)


def _assign_together(runs: list[_TopicRun], count: int, assignment: Assignment) -> None:
    """Assign several topics together: partitions with the same number go to the same member.

    A member that has a rack gets partitions only if its rack has a replica of each of them. Partitions that no member
    can get remain unassigned.

    Args:
        runs: the topics.
        count: the partition count, which is the same for all topics.
        assignment: the assignment to extend.
    """
    waiting = list(runs[0].consumers)
    for number in range(count):
        fitting = (member for member in waiting if all(run.fits(member, number) and run.room(member) for run in runs))
        member = next(fitting, None)
        if member is None:
            continue
        for run in runs:
            run.give(member, [number], assignment)
        if not any(run.room(member) for run in runs):
            waiting.remove(member)
