"""The ``range`` assignor: it gives the members ranges of each topic's partitions, in the order of the members' ids.

Mirrors ``assignor.RangeAssignor``. Static members come first, by instance id. The assignor is not sticky, and ignores
racks in Kafka 4.
"""

from coordinator_replay.engine.model import Assignment
from coordinator_replay.simulation.coordinator.assignor.server.group_spec import GroupSpec, uuid_hash
from coordinator_replay.simulation.coordinator.java_order import HashOrder, member_order


def assign_ranges(group: GroupSpec) -> dict[str, Assignment]:
    """Return the assignment: each member gets a range of partitions of every topic that it subscribes to.

    If the group is homogeneous (all members subscribe to the same topics), the topics of the first member are used for
    all members, as in Kafka.
    """
    members = sorted(group.members, key=lambda member_id: member_order(member_id, group.members[member_id].instance_id))
    if not members:
        return {}
    common = group.members[members[0]].topic_ids if group.is_homogeneous else None
    topics_of = {
        member_id: common if common is not None else group.members[member_id].topic_ids for member_id in members
    }
    subscribers: dict[str, int] = {}
    for topic_ids in topics_of.values():
        for topic_id in topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    assignments: dict[str, Assignment] = {}
    dealt = dict.fromkeys(subscribers, 0)
    reached = dict.fromkeys(subscribers, 0)
    for member_id in members:
        size = len(common) if common is not None else group.members[member_id].subscribed
        ranges: HashOrder[str, tuple[int, ...]] = HashOrder(uuid_hash, int(size / 0.75 + 1))
        for topic_id in topics_of[member_id]:
            smallest, larger = divmod(group.topics[topic_id].partitions, subscribers[topic_id])
            start = reached[topic_id]
            end = start + smallest + (dealt[topic_id] < larger)
            dealt[topic_id] += 1
            reached[topic_id] = end
            if start < end:
                ranges[topic_id] = tuple(range(start, end))
        assignments[member_id] = dict(ranges)
    return assignments
