"""``sticky`` and ``cooperative-sticky``: balanced assignments that move few partitions.

``sticky`` is ``org.apache.kafka.clients.consumer.StickyAssignor``. It has two algorithms (``AbstractStickyAssignor``):
one for members that all subscribe to the same topics, another for different subscriptions. A member names its former
partitions in its user data.

``cooperative-sticky`` is ``org.apache.kafka.clients.consumer.CooperativeStickyAssignor`` (KIP-429). A member names its
former partitions in ``ownedPartitions`` of its subscription. A partition moves in two rebalances. In the first, the
partition is assigned to nobody, and the old owner revokes the partition. In the second, the new owner gets the
partition.
"""

from coordinator_replay.simulation.coordinator.assignor.client.claims import resolve_claims
from coordinator_replay.simulation.coordinator.assignor.client.constrained_assignment_builder import assign_equal
from coordinator_replay.simulation.coordinator.assignor.client.general_assignment_builder import (
    GeneralAssignmentBuilder,
)
from coordinator_replay.simulation.coordinator.assignor.client.racks import Racks
from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    Assignment,
    Members,
    Partition,
    Topics,
    subscribed,
)


def assign(topics: Topics, members: Members) -> Assignment:
    """Give every partition to a subscriber of its topic.

    Raises:
        AssignorError: Kafka's assignor fails because of the partitions that members say they own.
    """
    return assign_with_moves(topics, members)[0]


def assign_with_moves(topics: Topics, members: Members) -> tuple[Assignment, dict[Partition, str] | None]:
    """Return the assignment, and the new owner of each partition that moves between members.

    The second value is None if the members subscribe to different topics.

    Raises:
        AssignorError: Kafka's assignor fails because of the partitions that members say they own.
    """
    if not members:
        return {}, {}
    subscribed_topics = subscribed(topics, members)
    racks = Racks(subscribed_topics, members)
    claims = resolve_claims(subscribed_topics, members)
    if claims.subscriptions_are_equal:
        return assign_equal(subscribed_topics, racks, claims)
    return GeneralAssignmentBuilder(subscribed_topics, racks, claims, members).build(), None


def assign_cooperatively(topics: Topics, members: Members) -> Assignment:
    """Give each partition to a subscriber of its topic. Leave out partitions that another member must give up first.

    Raises:
        AssignorError: Kafka's assignor fails because of the partitions that members say they own.
    """
    assignment, moves = assign_with_moves(topics, members)
    if moves is None:
        moves = _moves(assignment, members)
    for partition, member in moves.items():
        if partition in assignment[member]:
            assignment[member].remove(partition)
    return assignment


def _moves(assignment: Assignment, members: Members) -> dict[Partition, str]:
    """Return the new owner of each partition that one member says it owns and another member gets."""
    added = {
        partition: member
        for member, partitions in assignment.items()
        for partition in partitions
        if partition not in members[member].owned
    }
    revoked = {
        partition
        for member, subscription in members.items()
        for partition in subscription.owned
        if partition not in assignment[member]
    }
    return {partition: member for partition, member in added.items() if partition in revoked}
