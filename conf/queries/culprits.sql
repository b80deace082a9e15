-- Clients and hosts whose members set off most rebalances.
WITH triggers AS (
    SELECT group_id, rebalance_id, coalesce(cause, 'UNKNOWN') AS cause, unnest(trigger_members) AS member_id, unowned_ms_total
    FROM rebalances WHERE cluster = $cluster
),
names AS (
    SELECT group_id, member_id, any_value(client_id) AS client_id, any_value(client_host) AS client_host
    FROM member_timeline WHERE cluster = $cluster GROUP BY ALL
)
SELECT group_id, coalesce(client_id, member_id) AS client, client_host, count(DISTINCT rebalance_id) AS rebalances,
       histogram(cause) AS causes, sum(unowned_ms_total) AS unowned_ms_total
FROM triggers LEFT JOIN names USING (group_id, member_id)
GROUP BY ALL ORDER BY rebalances DESC, group_id, client LIMIT 50
