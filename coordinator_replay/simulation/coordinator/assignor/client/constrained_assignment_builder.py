"""The sticky algorithm for members that all subscribe to the same topics.

Each member gets the number of partitions divided by the number of members (the quota), and some get one more. Members
keep their partitions up to the quota, in the order of partition number, then topic. The members get the other
partitions in turns. Mirrors ``AbstractStickyAssignor.ConstrainedAssignmentBuilder``.
"""

from coordinator_replay.simulation.coordinator.assignor.client.claims import Claims
from coordinator_replay.simulation.coordinator.assignor.client.racks import Racks
from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    Assignment,
    AssignorError,
    Partition,
    Topics,
    partitions_of,
)
from coordinator_replay.simulation.coordinator.java_order import string_order


def assign_equal(topics: Topics, racks: Racks, claims: Claims) -> tuple[Assignment, dict[Partition, str]]:
    """Return the assignment, and the new owner of each partition that moves between members.

    All members must subscribe to the same topics.

    Raises:
        AssignorError: a member says that it owns a partition that does not exist, and Kafka's assignor would fail.
    """
    builder = _ConstrainedAssignmentBuilder(topics, racks, claims)
    builder.keep_owned()
    builder.below.sort(key=string_order)
    builder.candidates.sort(key=string_order)
    unassigned = racks.rarest_first(builder.unassigned())
    if racks:
        unassigned = builder.deal_nearby(unassigned)
    builder.deal(unassigned)
    builder.verify()
    return builder.assignment, builder.moves


class _ConstrainedAssignmentBuilder:
    """An assignment that is being made.

    The quota is the number of partitions divided by the number of members, rounded down.

    Attributes:
        assignment: partitions by member.
        below: members with fewer partitions than the quota.
        candidates: members that have reached the quota, and that may get one more partition.
        moves: the new owner of each partition that moves between members.
    """

    def __init__(self, topics: Topics, racks: Racks, claims: Claims) -> None:
        total = sum(len(partitions) for partitions in topics.values())
        self.assignment: Assignment = {member: [] for member in claims.owned}
        self.below: list[str] = []
        self.candidates: list[str] = []
        self.moves: dict[Partition, str] = {}
        self._quota, self._extra_members = divmod(total, len(claims.owned))
        self._most = self._quota + (self._extra_members > 0)
        self._members_over_quota = 0
        self._topics, self._racks, self._claims = topics, racks, claims
        self._last_owners: dict[Partition, str] = {}

    def keep_owned(self) -> None:
        """Let each member keep its partitions up to the quota. Some members keep one partition more than the quota.

        The quota is the number of partitions divided by the number of members, rounded down.
        """
        for member, claimed in self._claims.owned.items():
            owned = self._keepable(member, claimed)
            if len(owned) < self._quota:
                self.assignment[member] = owned
                self.below.append(member)
                continue
            keep = self._quota
            if len(owned) >= self._most and self._has_room_over_quota():
                keep = self._most
                self._count_over_quota()
            elif self._has_room_over_quota():
                self.candidates.append(member)
            self.assignment[member] = owned[:keep]
            self._last_owners.update(dict.fromkeys(owned[keep:], member))

    def unassigned(self) -> list[Partition]:
        """Return the partitions that no member kept, in the order of topic and partition number.

        If a member says that it owns a partition that does not exist, all later partitions in this order are returned,
        even those that members kept. Kafka does the same.
        """
        every = partitions_of(self._topics, sorted(self._topics, key=string_order))
        kept = [partition for partitions in self.assignment.values() for partition in partitions]
        kept.sort(key=lambda partition: (string_order(partition[0]), partition[1]))
        return without_kept(every, kept)

    def deal_nearby(self, unassigned: list[Partition]) -> list[Partition]:
        """Give each partition to a member whose rack has a replica of the partition.

        Return the partitions that no member got.
        """
        left = []
        turn = 0
        for partition in unassigned:
            place = self._racks.next_nearby(partition, self.below, turn)
            if place is not None:
                member = self.below[place]
                turn = self._after_nearby(member, place)
            else:
                nearby = self._nearby_candidate(partition)
                if nearby is None:
                    left.append(partition)
                    continue
                member = nearby
            self._give(partition, member)
        return left

    def deal(self, unassigned: list[Partition]) -> None:
        """Give the unassigned partitions to the members in turns.

        First, the members with fewer partitions than the quota get partitions. When all members have reached the quota,
        each of ``candidates`` gets one more partition.
        """
        turn = 0
        for partition in unassigned:
            if turn >= len(self.below):
                turn = 0
            if self.below:
                member, is_below = self.below[turn], True
            elif self.candidates:
                member, is_below = self.candidates.pop(0), False
            else:
                raise AssignorError("no member is left to take a partition: claims name partitions that do not exist")
            has = self._give(partition, member)
            if has == self._quota and is_below:
                del self.below[turn]
                self.candidates.append(member)
            else:
                turn += is_below
                if has == self._most:
                    self._members_over_quota += 1

    def verify(self) -> None:
        """Check that each member has at least as many partitions as the quota says.

        Raises:
            AssignorError: a member has fewer partitions.
        """
        if any(len(self.assignment[member]) != self._quota for member in self.below) or (
            self.below and self._members_over_quota != self._extra_members
        ):
            raise AssignorError("a member stays below its quota: claims name partitions that do not exist")

    def _keepable(self, member: str, claimed: list[Partition]) -> list[Partition]:
        fitting = []
        for partition in claimed:
            if self._racks.mismatch(member, partition):
                self._last_owners[partition] = member
            elif partition not in self._claims.contested:
                fitting.append(partition)
        return sorted(fitting, key=lambda partition: (partition[1], string_order(partition[0])))

    def _has_room_over_quota(self) -> bool:
        return self._members_over_quota < self._extra_members

    def _count_over_quota(self) -> None:
        self._members_over_quota += 1
        if self._members_over_quota == self._extra_members:
            self.candidates.clear()

    def _after_nearby(self, member: str, place: int) -> int:
        """Count one more partition for a member, and return the index at which the search for the next member begins.

        Args:
            member: a member with fewer partitions than the quota (a member of ``below``).
            place: the index of this member in ``below``.
        """
        has = len(self.assignment[member]) + 1
        if has >= self._quota:
            self.below.remove(member)
            if has < self._most and self._has_room_over_quota():
                self.candidates.append(member)
        else:
            place += 1
        return place % len(self.below) if self.below else 0

    def _nearby_candidate(self, partition: Partition) -> str | None:
        place = self._racks.next_nearby(partition, self.candidates, 0)
        if place is None:
            return None
        member = self.candidates[place]
        if len(self.assignment[member]) + 1 == self._most:
            del self.candidates[place]
            self._count_over_quota()
        return member

    def _give(self, partition: Partition, member: str) -> int:
        self.assignment[member].append(partition)
        if self._last_owners.get(partition, member) != member or partition in self._claims.contested:
            self.moves[partition] = member
        return len(self.assignment[member])


def without_kept(every: list[Partition], kept: list[Partition]) -> list[Partition]:
    """Return the partitions of a sorted list that another sorted list lacks.

    As in Kafka, if ``kept`` has a partition that ``every`` lacks, all later partitions of ``every`` are returned.
    """
    left = []
    following = iter(kept)
    expected = next(following, None)
    for partition in every:
        if partition == expected:
            expected = next(following, None)
        else:
            left.append(partition)
    return left
