-- Clients (static members by group.instance.id) that caused most rebalances, with the causes, the longest pause in commits, and the number of all rebalances of their group (group_total). If is_at_least is true, there may be more rebalances.
-- param group text: only this group
-- param from time: rebalances that ended at this time or later
-- note --param group=G shows one group. group_total also counts rebalances that no member caused.
-- then sql --query flapping-groups sums up each group, with its usual cause. why GROUP explains each rebalance.
WITH chosen AS (
    SELECT group_id, rebalance_id, coalesce(cause, 'UNKNOWN') AS cause, trigger_members, commit_pause_ms
    FROM timed_rebalances
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND coalesce(in_progress_to >= $from, is_in_progress OR $from IS NULL)
),
triggers AS (SELECT group_id, rebalance_id, cause, unnest(trigger_members) AS member_id, commit_pause_ms FROM chosen),
sums AS (SELECT group_id, count(*) AS group_total FROM chosen GROUP BY group_id),
names AS (
    SELECT group_id, member_id, coalesce(min(instance_id), min(client_id)) AS client, min(instance_id) AS instance_id,
           min(client_host) FILTER (NOT coalesce(is_client_inherited, false)) AS client_host
    FROM member_timeline WHERE cluster = $cluster GROUP BY ALL
)
SELECT group_id, coalesce(client, member_id) AS client, count(DISTINCT rebalance_id) AS rebalances,
       min(group_total) AS group_total, histogram(cause) AS causes,
       max(commit_pause_ms) AS longest_commit_pause_ms, string_agg(DISTINCT client_host, ', ' ORDER BY client_host) AS client_host,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce($from <= until, true)) AS is_at_least
FROM triggers JOIN sums USING (group_id) LEFT JOIN names USING (group_id, member_id)
GROUP BY group_id, coalesce(client, member_id), CASE WHEN instance_id IS NULL THEN client_host END
ORDER BY rebalances DESC, group_total DESC, group_id, client LIMIT 50
