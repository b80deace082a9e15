"""Members that blocked a KIP-848 rebalance, the partitions that they held, and the members that waited for these."""

from dataclasses import dataclass

from coordinator_replay.query.tables import Tables

# A member that takes over a partition waited for it only if its target had the partition before the partition became
# free. The reason: a member that leaves also frees partitions, which are assigned to others only later. A member that
# joins while others wait begins a new rebalance, and waits only in that one. A static member also waits for the
# partitions assigned to the member that it replaced.
_HOLD_UPS = """
    WITH members AS (
        SELECT group_id, member_id, coalesce(min(instance_id), member_id) AS instance, min(valid_from) AS joined_at,
               min(client_id) FILTER (NOT coalesce(is_client_inherited, false)) AS client_id,
               min(client_host) FILTER (NOT coalesce(is_client_inherited, false)) AS client_host
        FROM member_timeline WHERE cluster = $cluster {of_groups} GROUP BY group_id, member_id
    ), names AS (
        SELECT * REPLACE (min(joined_at) OVER (PARTITION BY group_id, instance) AS joined_at) FROM members
    ), blocked AS (
        SELECT rebalance_id, group_id, started_at, completed_at, held_up_by, held_up_ms FROM rebalances
        WHERE cluster = $cluster AND held_up_by IS NOT NULL {of_groups}
    ), handed AS (
        SELECT blocked.rebalance_id, blocked.group_id, held_up_by, held_up_ms,
               coalesce(owned.topic, owned.topic_id) AS topic, owned.partition, following.member_id AS waited
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
    )
    SELECT rebalance_id, held_up_by, client_id, client_host, held_up_ms,
           list_sort(list_distinct(list(topic || '-' || partition))), list_sort(list_distinct(list(waited)))
    FROM handed LEFT JOIN names ON names.group_id = handed.group_id AND names.member_id = held_up_by
    GROUP BY ALL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldUp:
    """A member that was the last to revoke partitions that others had been assigned.

    Attributes:
        waited_ms: how long the others waited.
        partitions: partitions that it revoked in the rebalance, as ``topic-partition``.
        waiting: the members that took them.
    """

    rebalance_id: str
    member_id: str
    client_id: str | None
    client_host: str | None
    waited_ms: int
    partitions: list[str]
    waiting: list[str]


def hold_ups(warehouse: Tables, group: str | None = None) -> dict[str, HoldUp]:
    """Return which member blocked each rebalance, by rebalance id.

    Args:
        warehouse: the tables.
        group: only of this group; of all if None.
    """
    return {answer.rebalance_id: answer for answer in warehouse.answers(HoldUp, _HOLD_UPS, group=group)}
