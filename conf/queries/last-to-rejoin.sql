-- Who is most often last to rejoin, by client (static members by group.instance.id)? Records of a KIP-848 group show the members that others waited for. For a classic group, the query takes the owner of the last commit before the join phase ended. Clients commit before they rejoin, so this member was likely the last, but no record proves it. If is_at_least is true, there may be more.
-- note behind_ms_total counts a wait once that several rebalances share.
-- param group text: only this group
-- param from time: rebalances that ended at this time or later
-- param threshold number = 100: shortest time behind the others that counts, in milliseconds
WITH wanted AS (
    SELECT rebalance_id, group_id, group_type, held_up_by, held_up_ms, members_left, began_by, completed_offset FROM rebalances
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
      AND coalesce(CASE WHEN is_end_open THEN began_by ELSE completed_at END >= $from, completed_offset IS NULL OR $from IS NULL)
),
committed AS (
    SELECT rebalance_id, wanted.group_id, owner_member_id AS member_id, max(valid_from) AS last_at
    FROM wanted JOIN offset_history AS history
      ON history.cluster = $cluster AND history.group_id = wanted.group_id AND valid_from <= began_by
     AND coalesce(valid_to > began_by, true)
    WHERE group_type = 'classic' AND owner_member_id IS NOT NULL
      AND NOT coalesce(list_contains(members_left, owner_member_id), false)
    GROUP BY rebalance_id, wanted.group_id, owner_member_id
),
in_order AS (
    SELECT rebalance_id, group_id, member_id, last_at,
           row_number() OVER (PARTITION BY rebalance_id ORDER BY last_at DESC, member_id) AS place,
           lead(last_at) OVER (PARTITION BY rebalance_id ORDER BY last_at DESC, member_id) AS before_at
    FROM committed
),
last_ones AS (
    SELECT rebalance_id, group_id, held_up_by AS member_id, held_up_ms AS behind_ms,
           -- Rebalances that end together waited for the same revocation: its time passed once.
           CASE WHEN row_number() OVER (PARTITION BY group_id, held_up_by, completed_offset ORDER BY held_up_ms DESC, rebalance_id) = 1
                THEN held_up_ms ELSE 0 END AS passed_ms, 'records' AS shown_by
    FROM wanted WHERE held_up_by IS NOT NULL
    UNION ALL
    SELECT rebalance_id, group_id, member_id, epoch_ms(last_at) - epoch_ms(before_at) AS behind_ms, behind_ms AS passed_ms, 'commits' AS shown_by
    FROM in_order WHERE place = 1 AND last_at > before_at
),
names AS (
    SELECT group_id, member_id, coalesce(min(instance_id), min(client_id)) AS client,
           min(client_host) FILTER (NOT coalesce(is_client_inherited, false)) AS client_host
    FROM member_timeline WHERE cluster = $cluster GROUP BY ALL
)
SELECT group_id, coalesce(client, member_id) AS client, count(DISTINCT rebalance_id) AS rebalances,
       CAST(sum(passed_ms) AS BIGINT) AS behind_ms_total, max(behind_ms) AS behind_ms_max, shown_by,
       string_agg(DISTINCT client_host, ', ' ORDER BY client_host) AS client_host,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce($from <= until, true)) AS is_at_least
FROM last_ones LEFT JOIN names USING (group_id, member_id)
WHERE behind_ms >= $threshold
GROUP BY group_id, coalesce(client, member_id), shown_by
ORDER BY rebalances DESC, behind_ms_total DESC, group_id, client, shown_by
LIMIT 50
