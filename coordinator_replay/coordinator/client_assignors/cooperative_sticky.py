"""``cooperative-sticky``: ``sticky``, but nobody gets a partition before its owner gave it up.

``org.apache.kafka.clients.consumer.CooperativeStickyAssignor`` (KIP-429). What a member owned comes from the owned
partitions of its subscription. A partition that moves is left out of the assignment; it comes in the rebalance that
its old owner starts once it has given the partition up.
"""

from coordinator_replay.coordinator.client_assignors.sticky import assign_and_tell_moves
from coordinator_replay.coordinator.client_assignors.subscription import Assignment, Members, Partition, Topics


def assign(topics: Topics, members: Members) -> Assignment:
    """Give partitions to subscribers of their topics, without those that another member must give up first.

    Raises:
        AssignorError: Kafka's assignor throws on these claims.
    """
    assignment, moves = assign_and_tell_moves(topics, members)
    if moves is None:
        moves = _moves(assignment, members)
    for partition, member in moves.items():
        if partition in assignment[member]:
            assignment[member].remove(partition)
    return assignment


def _moves(assignment: Assignment, members: Members) -> dict[Partition, str]:
    """Partitions that one member claims to own and another one is to get."""
    added = {
        partition: member
        for member, partitions in assignment.items()
        for partition in partitions
        if partition not in members[member].owned
    }
    given_up = {
        partition for member, told in members.items() for partition in told.owned if partition not in assignment[member]
    }
    return {partition: member for partition, member in added.items() if partition in given_up}
