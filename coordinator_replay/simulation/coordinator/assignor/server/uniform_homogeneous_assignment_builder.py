"""``uniform`` for members that subscribe to the same topics.

Mirrors ``UniformHomogeneousAssignmentBuilder``. The quota of a member is the number of partitions divided by the number
of members, rounded down. If r partitions remain after this division, r members have a quota that is higher by one:
first the members that already have more partitions than the quota, then the last of the other members.

Each member keeps its partitions up to its quota. Members with fewer partitions than their quota get the other
partitions.
"""

from coordinator_replay.engine.model import Assignment
from coordinator_replay.simulation.coordinator.assignor.server.group_spec import (
    GroupSpec,
    PartitionAssignorError,
    uuid_hash,
)
from coordinator_replay.simulation.coordinator.assignor.server.member_target import MemberTarget
from coordinator_replay.simulation.coordinator.java_order import hash_set


def assign_equal(group: GroupSpec) -> dict[str, Assignment]:
    """Return an assignment that balances the partitions of the first member's topics over all members.

    Raises:
        PartitionAssignorError: a partition can't be assigned.
    """
    first = next(iter(group.members.values()))
    topics = hash_set(first.topic_ids, uuid_hash, first.subscribed)
    if not topics:
        return {}
    free = [
        (topic_id, partition)
        for topic_id in topics
        for partition in range(group.topics[topic_id].partitions)
        if (topic_id, partition) not in group.assigned
    ]
    total = sum(group.topics[topic_id].partitions for topic_id in topics)
    targets, unfilled = _keep(group, frozenset(topics), total, free)
    _deal(free, targets, unfilled)
    return {member_id: target.result() for member_id, target in targets.items()}


def _keep(
    group: GroupSpec, topics: frozenset[str], total: int, free: list[tuple[str, int]]
) -> tuple[dict[str, MemberTarget], list[tuple[str, int]]]:
    """Let members keep partitions up to their quotas. Append the other partitions to ``free``.

    Returns:
        The partitions that each member keeps, by member id. Also pairs of a member id and how many more partitions the
        member can take; members that can take none are left out.
    """
    count = len(group.members)
    smallest, larger = divmod(total, count)
    targets: dict[str, MemberTarget] = {}
    unfilled: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(group.members.items()):
        has_extra = larger > 0
        target = targets[member_id] = MemberTarget(member.target)
        quota = _keep_some(target, topics, smallest + has_extra, free)
        if quota > 0 and has_extra and count - index > larger:
            # Another member can get the extra partition, because enough members follow.
            quota, has_extra = quota - 1, False
        if quota > 0:
            unfilled.append((member_id, quota))
        larger -= has_extra
    return targets, unfilled


def _keep_some(target: MemberTarget, topics: frozenset[str], quota: int, free: list[tuple[str, int]]) -> int:
    """Let a member keep partitions up to its quota, and append its other partitions to ``free``.

    Return the part of the quota that is not used.
    """
    for topic_id, partitions in target.target.items():
        if topic_id not in topics:
            target.drop(topic_id)
            continue
        for partition in partitions[quota:]:
            target.remove(topic_id, partition)
            free.append((topic_id, partition))
        quota -= min(quota, len(partitions))
    return quota


def _deal(free: list[tuple[str, int]], targets: dict[str, MemberTarget], unfilled: list[tuple[str, int]]) -> None:
    at = 0
    for member_id, room in unfilled:
        target = targets[member_id]
        for topic_id, partition in free[at : at + room]:
            target.add(topic_id, partition)
        at += room
    if at < len(free):
        raise PartitionAssignorError("Partitions were left unassigned")
