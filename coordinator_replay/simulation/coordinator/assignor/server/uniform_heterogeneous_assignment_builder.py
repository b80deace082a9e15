"""``uniform`` for members that subscribe to different topics.

Mirrors ``UniformHeterogeneousAssignmentBuilder``. A member's load is the number of all its partitions. Members keep
partitions of topics that they still subscribe to. A free partition goes to the least loaded subscriber of its topic.
Then partitions move from subscribers with a high load to subscribers with a low load, topic by topic. This ends when
the loads of any two subscribers of a topic differ by at most one, or after a fixed number of rounds.
"""

from coordinator_replay.engine.model import Assignment
from coordinator_replay.simulation.coordinator.assignor.server.group_spec import (
    GroupSpec,
    PartitionAssignorError,
    uuid_order,
)
from coordinator_replay.simulation.coordinator.assignor.server.member_target import MemberTarget

MAX_ROUNDS = 16
NOBODY = -1


def assign_different(group: GroupSpec) -> dict[str, Assignment]:
    """Return an assignment that balances every topic over its subscribers, as far as the subscriptions allow.

    Raises:
        PartitionAssignorError: a target names a partition that does not exist.
    """
    builder = _AssignmentBuilder(group)
    if not builder.subscribers:
        return {}
    builder.keep()
    builder.deal()
    builder.balance()
    return builder.result()


class _AssignmentBuilder:
    """An assignment that is being made.

    Members are numbered in the order of Kafka's hash table.
    """

    def __init__(self, group: GroupSpec) -> None:
        self.group = group
        self.member_ids = list(group.members)
        self.targets = [MemberTarget(member.target) for member in group.members.values()]
        self.sizes = [0] * len(self.member_ids)
        self.subscribers: dict[str, list[int]] = {}
        for index, member in enumerate(group.members.values()):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {topic_id: [NOBODY] * group.topics[topic_id].partitions for topic_id in self.subscribers}

    def keep(self) -> None:
        """Let every member keep its partitions of topics that it subscribes to.

        Raises:
            PartitionAssignorError: a target names a partition that does not exist. The leader of a classic group may
                have assigned such a partition before the group's conversion.
        """
        for index, member in enumerate(self.group.members.values()):
            subscribed = frozenset(member.topic_ids)
            for topic_id, partitions in member.target.items():
                if topic_id not in subscribed:
                    self.targets[index].drop(topic_id)
                    continue
                owners = self.owners[topic_id]
                if max(partitions) >= len(owners):
                    raise PartitionAssignorError(f"{topic_id} has fewer partitions than the target assignment")
                self.sizes[index] += len(partitions)
                for partition in partitions:
                    owners[partition] = index

    def deal(self) -> None:
        """Give each free partition to the least loaded subscriber of its topic.

        Topics with many partitions per subscriber come first.
        """
        free = {
            topic_id: [partition for partition, owner in enumerate(owners) if owner == NOBODY]
            for topic_id, owners in self.owners.items()
        }
        for topic_id in self._in_order([topic_id for topic_id, partitions in free.items() if partitions]):
            balancer = MemberAssignmentBalancer(self.sizes, self.subscribers[topic_id])
            for partition in free[topic_id]:
                self._assign(topic_id, partition, balancer.next_lightest())

    def balance(self) -> None:
        """Move partitions until a whole round over the topics changes nothing.

        Stop after ``MAX_ROUNDS`` rounds in any case.
        """
        topics = self._in_order([topic_id for topic_id, members in self.subscribers.items() if len(members) > 1])
        last_changed = None
        for _ in range(MAX_ROUNDS):
            for index, topic_id in enumerate(topics):
                if index == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed is None:
                    last_changed = index

    def result(self) -> dict[str, Assignment]:
        """Return partitions of each member by topic id."""
        return {member_id: target.result() for member_id, target in zip(self.member_ids, self.targets, strict=True)}

    def _balance_topic(self, topic_id: str) -> int:
        """Move partitions of a topic from its heaviest to its lightest subscribers.

        Return the number of moves.
        """
        balancer = MemberAssignmentBalancer(self.sizes, self.subscribers[topic_id])
        if balancer.spread <= 1:
            return 0
        by_owner: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic_id]):
            by_owner.setdefault(owner, []).append(partition)
        moved = 0
        while not balancer.is_balanced:
            giver = balancer.next_heaviest()
            while giver is not None and not by_owner.get(giver):
                balancer.exclude_heaviest()
                giver = balancer.next_heaviest()
            if giver is None:
                break
            partition = by_owner[giver].pop()
            taker = balancer.next_lightest()
            if balancer.is_balanced:
                break
            self._assign(topic_id, partition, taker)
            moved += 1
        return moved

    def _assign(self, topic_id: str, partition: int, taker: int) -> None:
        owners = self.owners[topic_id]
        if owners[partition] != NOBODY:
            self.sizes[owners[partition]] -= 1
            self.targets[owners[partition]].remove(topic_id, partition)
        fair_share = -(-len(owners) // len(self.subscribers[topic_id]))
        self.targets[taker].add(topic_id, partition, int(fair_share / 0.75 + 1))
        owners[partition] = taker
        self.sizes[taker] += 1

    def _in_order(self, topics: list[str]) -> list[str]:
        def place(topic_id: str) -> tuple[float, int, tuple[int, int]]:
            count = len(self.subscribers[topic_id])
            return -self.group.topics[topic_id].partitions / count, count, uuid_order(topic_id)

        return sorted(topics, key=place)


class MemberAssignmentBalancer:
    """Subscribers of a topic, sorted by load: the number of all partitions that a member has.

    ``next_lightest`` returns the subscribers with the lowest load in turns, ``next_heaviest`` those with the highest.
    The list is sorted only once, although partitions move. Mirrors Kafka's class of the same name.

    Attributes:
        spread: difference between the highest and the lowest load at the beginning.
    """

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        """Sort the members.

        Args:
            sizes: number of partitions of each member; the caller changes this list as partitions move.
            members: the topic's subscribers, at least one.
        """
        self._sizes = sizes
        self._members = sorted(members, key=lambda member: (sizes[member], member))
        count = len(self._members)
        lightest, heaviest = sizes[self._members[0]], sizes[self._members[-1]]
        self.spread = heaviest - lightest
        self._light_end = 0
        self._light_level = lightest - 1
        self._next_light = 0
        self._heavy_start = count
        self._heavy_end = count
        self._heavy_level = heaviest + 1
        self._next_heavy = count - 1

    @property
    def is_balanced(self) -> bool:
        """Return whether the numbers of partitions of any two subscribers of the topic differ by at most one."""
        return self._heavy_level - self._light_level <= 1

    def next_lightest(self) -> int:
        """Return the next of the members with the fewest partitions."""
        members, sizes = self._members, self._sizes
        if self._next_light >= self._light_end:
            self._light_level += 1
            while self._light_end < len(members) and sizes[members[self._light_end]] == self._light_level:
                self._light_end += 1
            self._next_light = 0
        member = members[self._next_light]
        self._next_light += 1
        return member

    def next_heaviest(self) -> int | None:
        """Return the next member that should give up a partition; None if no member is left."""
        members, sizes = self._members, self._sizes
        if self._next_heavy < self._heavy_start:
            if self._heavy_end <= self._heavy_start and self._heavy_start > 0:
                self._heavy_level = sizes[members[self._heavy_start - 1]]
            else:
                self._heavy_level -= 1
            while self._heavy_start > 0 and sizes[members[self._heavy_start - 1]] == self._heavy_level:
                self._heavy_start -= 1
            self._next_heavy = self._heavy_end - 1
        if self._next_heavy < 0:
            return None
        member = members[self._next_heavy]
        self._next_heavy -= 1
        return member

    def exclude_heaviest(self) -> None:
        """Drop the member that ``next_heaviest`` returned last, because this member has nothing to give up.

        ``next_heaviest`` does not return the member again.
        """
        members, at = self._members, self._next_heavy + 1
        members[at], members[self._heavy_end - 1] = members[self._heavy_end - 1], members[at]
        self._heavy_end -= 1
