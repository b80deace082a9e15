"""The assignor ``roundrobin``: it deals all partitions, one after the other, to the members in a circle.

Mirrors ``org.apache.kafka.clients.consumer.RoundRobinAssignor``.
"""

from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    Assignment,
    Members,
    Topics,
    members_in_order,
    partitions_of,
    subscribed,
)
from coordinator_replay.simulation.coordinator.java_order import string_order


def assign(topics: Topics, members: Members) -> Assignment:
    """Give the partitions to the members in turns. A member gets only partitions of topics that it subscribes to."""
    assignment: Assignment = {member_id: [] for member_id in members}
    circle = members_in_order(members, members)
    names = sorted(subscribed(topics, members), key=string_order)
    turn = 0
    for topic, number in partitions_of(topics, names):
        while topic not in members[circle[turn % len(circle)]].topics:
            turn += 1
        assignment[circle[turn % len(circle)]].append((topic, number))
        turn += 1
    return assignment
