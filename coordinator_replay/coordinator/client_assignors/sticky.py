"""``sticky``: as even as can be, and of those assignments one that moves few partitions.

``org.apache.kafka.clients.consumer.StickyAssignor``, whose algorithm is in ``AbstractStickyAssignor``: one for members
that all subscribe to the same topics, another one for all else. What a member owned comes from its user data.
"""

from coordinator_replay.coordinator.client_assignors.claims import settle_claims
from coordinator_replay.coordinator.client_assignors.racks import Racks
from coordinator_replay.coordinator.client_assignors.sticky_equal import assign_equal
from coordinator_replay.coordinator.client_assignors.sticky_general import GeneralAssignment
from coordinator_replay.coordinator.client_assignors.subscription import (
    Assignment,
    Members,
    Partition,
    Topics,
    subscribed,
)


def assign(topics: Topics, members: Members) -> Assignment:
    """Give every partition to a subscriber of its topic.

    Raises:
        AssignorError: Kafka's assignor throws on these claims.
    """
    return assign_and_tell_moves(topics, members)[0]


def assign_and_tell_moves(topics: Topics, members: Members) -> tuple[Assignment, dict[Partition, str] | None]:
    """The assignment, and the partitions that change hands with their new owners.

    The moves are None where the algorithm does not keep them, which is when subscriptions differ.

    Raises:
        AssignorError: Kafka's assignor throws on these claims.
    """
    if not members:
        return {}, {}
    known = subscribed(topics, members)
    racks = Racks(known, members)
    claims = settle_claims(known, members)
    if claims.subscriptions_are_equal:
        return assign_equal(known, racks, claims)
    return GeneralAssignment(known, racks, claims, members).build(), None
