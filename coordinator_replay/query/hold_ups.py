"""Members that blocked a KIP-848 rebalance. Other members waited until the blocking member revoked partitions."""

from dataclasses import dataclass

from coordinator_replay.query.tables import Tables

# A member that takes over a partition waited for it only if the member's target assignment had the partition before the
# partition became free. The reason: a member that leaves also frees partitions, and these are assigned to others only
# later. A member that joins while others wait begins a new rebalance, and waits only in the new rebalance. A static
# member also waits for the partitions assigned to the member that it replaced.
_HOLD_UPS = """
    WITH members AS (
        SELECT group_id, member_id, coalesce(min(instance_id), member_id) AS instance, min(valid_from) AS joined_at,
               min(client_id) FILTER (NOT coalesce(is_client_inherited, false)) AS client_id,
               min(client_host) FILTER (NOT coalesce(is_client_inherited, false)) AS client_host
        FROM member_timeline WHERE cluster = $cluster {of_groups} GROUP BY group_id, member_id
    ), names AS (
        SELECT * REPLACE (min(joined_at) OVER (PARTITION BY group_id, instance) AS joined_at) FROM members
    ), blocked AS (
        SELECT rebalance_id, group_id, started_at, completed_at, held_up_by FROM rebalances
        WHERE cluster = $cluster AND held_up_by IS NOT NULL {of_groups}
    ), handed AS (
        SELECT blocked.rebalance_id, blocked.group_id, held_up_by, started_at, owned.owned_to,
               coalesce(owned.topic, owned.topic_id) || '-' || owned.partition AS name, following.member_id AS waited,
               waiting.instance, waiting.joined_at
        FROM blocked
        JOIN partition_ownership AS owned ON owned.cluster = $cluster AND owned.group_id = blocked.group_id
         AND owned.member_id = held_up_by AND owned.owned_to > started_at
         AND (completed_at IS NULL OR owned.owned_to <= completed_at)
        JOIN partition_ownership AS following ON following.cluster = $cluster AND following.group_id = blocked.group_id
         AND following.partition = owned.partition AND following.member_id <> held_up_by
         AND coalesce(following.topic, following.topic_id) = coalesce(owned.topic, owned.topic_id)
         AND following.owned_from = coalesce(owned.unowned[-1].until, owned.owned_to) AND owned.unowned_ms IS NOT NULL
        JOIN names AS waiting ON waiting.group_id = blocked.group_id AND waiting.member_id = following.member_id
         AND waiting.joined_at <= started_at
        JOIN member_timeline AS before ON before.cluster = $cluster AND before.group_id = blocked.group_id
         AND before.member_id = following.member_id
         AND before.valid_from < owned.owned_to AND coalesce(before.valid_to >= owned.owned_to, true)
        WHERE len(list_filter(before.target, lambda one:
                  coalesce(one.topic, one.topic_id) = coalesce(owned.topic, owned.topic_id)
                  AND list_contains(one.partitions, owned.partition))) > 0
    ), targets AS (
        SELECT group_id, member_id, instance, valid_to, coalesce(flatten(list_transform(target, lambda one:
               list_transform(one.partitions, lambda number: coalesce(one.topic, one.topic_id) || '-' || number))), [])
               AS target
        FROM member_timeline JOIN names USING (group_id, member_id)
        WHERE cluster = $cluster AND valid_to IS NOT NULL AND group_id IN (SELECT group_id FROM blocked)
    ), waits AS (
        SELECT rebalance_id, group_id, held_up_by, name, waited, owned_to, greatest(started_at, joined_at,
               (SELECT max(valid_to) FROM targets WHERE targets.group_id = handed.group_id
                AND targets.instance = handed.instance AND valid_to <= owned_to AND NOT list_contains(target, name)),
               (SELECT max(valid_to) FROM targets WHERE targets.group_id = handed.group_id
                AND targets.member_id = held_up_by AND valid_to <= owned_to AND list_contains(target, name))
               ) AS waited_from
        FROM handed
    ), totals AS (
        -- The wait of a later rebalance is the last part of the wait of an earlier one: both end with the same record.
        SELECT *, max(waited_ms) OVER (PARTITION BY group_id, held_up_by, waited, name, owned_to) AS waited_ms_total
        FROM (SELECT *, epoch_ms(owned_to) - epoch_ms(waited_from) AS waited_ms FROM waits)
    )
    SELECT rebalance_id, held_up_by, client_id, client_host, waited, waited_ms, waited_ms_total,
           list_sort(list_distinct(list(name)))
    FROM totals AS waits LEFT JOIN names ON names.group_id = waits.group_id AND names.member_id = held_up_by
    GROUP BY ALL ORDER BY rebalance_id, waited_ms DESC, waited
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The wait of a member for partitions that another member had to revoke.

    Attributes:
        held_up_by: the member that revoked the partitions.
        client_id, client_host: client id and host of the member ``held_up_by``; None if they are not on record, or may
            belong to an earlier process.
        member_id: the member that waited for the partitions and got them.
        waited_ms: how long the member waited in this rebalance.
        waited_ms_total: how long the member waited in this rebalance and in earlier rebalances together.
        partitions: the partitions, as ``topic-partition``.
    """

    rebalance_id: str
    held_up_by: str
    client_id: str | None
    client_host: str | None
    member_id: str
    waited_ms: int
    waited_ms_total: int
    partitions: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldUp:
    """A member that blocked a rebalance: other members had to wait until this member revoked partitions.

    Attributes:
        member_id, client_id, client_host: the blocking member, with its client id and host.
        waits: how long each other member waited, and for which partitions. The longest wait comes first.
    """

    rebalance_id: str
    member_id: str
    client_id: str | None
    client_host: str | None
    waits: list[Wait]

    @property
    def waited_ms(self) -> int:
        """Return the longest time that a member waited, in milliseconds."""
        return max(wait.waited_ms for wait in self.waits)

    @property
    def partitions(self) -> list[str]:
        """Return the partitions, as ``topic-partition``, that other members waited for."""
        return sorted({name for wait in self.waits for name in wait.partitions})

    @property
    def waiting(self) -> list[str]:
        """Return the ids of the members that waited until this member revoked partitions."""
        return sorted({wait.member_id for wait in self.waits})


def hold_ups(warehouse: Tables, group: str | None = None) -> dict[str, HoldUp]:
    """Return the member that blocked each rebalance, by rebalance id.

    A member blocks a rebalance if other members wait until this member revokes partitions. Rebalances without such a
    member are left out.

    Args:
        warehouse: the tables to read.
        group: only rebalances of this group; None for all groups.
    """
    waits: dict[str, list[Wait]] = {}
    for wait in warehouse.answers(Wait, _HOLD_UPS, group=group):
        waits.setdefault(wait.rebalance_id, []).append(wait)
    return {rebalance_id: _hold_up(found) for rebalance_id, found in waits.items()}


def _hold_up(waits: list[Wait]) -> HoldUp:
    first = waits[0]
    return HoldUp(
        rebalance_id=first.rebalance_id,
        member_id=first.held_up_by,
        client_id=first.client_id,
        client_host=first.client_host,
        waits=waits,
    )
