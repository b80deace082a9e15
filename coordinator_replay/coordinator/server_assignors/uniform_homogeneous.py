"""``uniform`` for members that subscribe to the same topics.

Mirrors ``UniformHomogeneousAssignmentBuilder``: every member keeps what it has up to its quota, what is over goes to
those with room. The quota is the smallest fair share; as many members as partitions are left over get one more, the
first ones that have use for it.
"""

from coordinator_replay.coordinator.server_assignors.group_spec import (
    AssignorError,
    GroupSpec,
    partition_set,
    topic_map,
    topic_set,
)
from coordinator_replay.engine.model import Assignment

Draft = dict[str, list[int]]


def assign_equal(group: GroupSpec) -> dict[str, Assignment]:
    """Balance the partitions of the first member's topics over all members.

    Raises:
        AssignorError: partitions are left over.
    """
    first = next(iter(group.members.values()))
    topics = topic_set(first.topic_ids, first.subscribed)
    if not topics:
        return {}
    free = [
        (topic_id, partition)
        for topic_id in topics
        for partition in range(group.topics[topic_id].partitions)
        if (topic_id, partition) not in group.assigned
    ]
    total = sum(group.topics[topic_id].partitions for topic_id in topics)
    drafts, unfilled = _keep(group, frozenset(topics), total, free)
    _deal(free, drafts, unfilled)
    return {member_id: _in_order(draft, group.members[member_id].target) for member_id, draft in drafts.items()}


def _in_order(draft: Draft, target: Assignment) -> Assignment:
    """Partitions in the order of the sets they are in: it decides which of them go when the next quota is smaller."""
    return {
        topic_id: tuple(partition_set(partitions, len(target.get(topic_id, ()))))
        for topic_id, partitions in draft.items()
        if partitions
    }


def _keep(
    group: GroupSpec, topics: frozenset[str], total: int, free: list[tuple[str, int]]
) -> tuple[dict[str, Draft], list[tuple[str, int]]]:
    """What each member keeps, and who has room for how many more; what is over is appended to ``free``."""
    count = len(group.members)
    smallest, larger = divmod(total, count)
    drafts: dict[str, Draft] = {}
    unfilled: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(group.members.items()):
        has_extra = larger > 0
        draft, quota = _kept(member.target, topics, smallest + has_extra, free)
        if quota > 0 and has_extra and count - index > larger:
            # Another one can have the extra partition: enough members are still to come.
            quota, has_extra = quota - 1, False
        if quota > 0:
            unfilled.append((member_id, quota))
        larger -= has_extra
        drafts[member_id] = draft
    return drafts, unfilled


def _kept(target: Assignment, topics: frozenset[str], quota: int, free: list[tuple[str, int]]) -> tuple[Draft, int]:
    """What a member keeps of its target, and what is left of its quota."""
    draft: Draft = {}
    for topic_id in topic_map(target):
        if topic_id not in topics:
            continue
        partitions = target[topic_id]
        if len(partitions) <= quota:
            draft[topic_id] = partition_set(partitions)
            quota -= len(partitions)
            continue
        ordered = partition_set(partitions)
        draft[topic_id] = ordered[:quota]
        free.extend((topic_id, partition) for partition in ordered[quota:])
        quota = 0
    return draft, quota


def _deal(free: list[tuple[str, int]], drafts: dict[str, Draft], unfilled: list[tuple[str, int]]) -> None:
    at = 0
    for member_id, room in unfilled:
        draft = drafts[member_id]
        for topic_id, partition in free[at : at + room]:
            draft.setdefault(topic_id, []).append(partition)
        at += room
    if at < len(free):
        raise AssignorError("Partitions were left unassigned")
