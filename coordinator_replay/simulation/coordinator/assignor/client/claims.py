"""Claims of members to partitions, resolved as in ``AbstractStickyAssignor.allSubscriptionsEqual``.

A member claims the partitions that it names as its own in its subscription. Before the sticky assignors assign
partitions, they resolve the claims: they decide which member may keep each partition.
"""

from dataclasses import dataclass, field

from coordinator_replay.simulation.coordinator.assignor.client.subscription import (
    NO_GENERATION,
    Members,
    Partition,
    Topics,
)
from coordinator_replay.simulation.coordinator.java_order import HashOrder, hash_map


@dataclass(slots=True)
class Claims:
    """The partitions that each member may keep. A member claims the partitions that it says it owns.

    Attributes:
        owned: the partitions that each member may keep, in the order of a HashMap of member ids. Partitions of unknown
            topics are left out.
        contested: partitions that two members claim with the same generation; no member keeps them.
        latest_generation: the highest generation in the members' subscriptions.
        subscriptions_are_equal: whether all members subscribe to the same topics. As in Kafka, some members that
            subscribe to no topic are ignored.
    """

    owned: HashOrder[str, list[Partition]] = field(default_factory=hash_map)
    contested: set[Partition] = field(default_factory=set)
    latest_generation: int = NO_GENERATION
    subscriptions_are_equal: bool = True


def resolve_claims(topics: Topics, members: Members) -> Claims:
    """Return the partitions that each member may keep. A member claims the partitions that it says it owns.

    If two members claim a partition, the claim with the higher generation wins. If the generations are equal, no member
    keeps the partition.
    """
    claims = Claims()
    owner: dict[Partition, str] = {}
    common: set[str] = set()
    for member_id, member in members.items():
        if not common:
            common.update(member.topics)
        elif len(member.topics) != len(common) or not common.issuperset(member.topics):
            claims.subscriptions_are_equal = False
        claims.latest_generation = max(claims.latest_generation, member.generation)
        claims.owned[member_id] = []
        for partition in member.owned:
            if partition[0] in topics:
                _claim(partition, member_id, members, owner, claims)
    return claims


def _claim(partition: Partition, member_id: str, members: Members, owner: dict[Partition, str], claims: Claims) -> None:
    rival = owner.get(partition)
    if rival is None:
        claims.owned[member_id].append(partition)
        owner[partition] = member_id
        return
    generation, other = members[member_id].generation, members[rival].generation
    if generation < other:
        return
    if partition in claims.owned[rival]:
        claims.owned[rival].remove(partition)
    owner[partition] = member_id
    if generation == other:
        claims.contested.add(partition)
    else:
        claims.owned[member_id].append(partition)
