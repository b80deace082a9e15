-- Groups with missing records. Steps are missing in their timelines and rebalances.
-- then timeline GROUP shows where steps are missing. sql --query coordinator-failovers shows whether brokers could load the log partition, by their own logs.
SELECT group_id, count(*) AS inexact_events, min(log_timestamp) AS first_at, max(log_timestamp) AS last_at,
       min(log_partition) AS log_partition, coalesce(min(inexact_rebalances), 0) AS inexact_rebalances
FROM group_timeline LEFT JOIN (
    SELECT group_id, count(*) AS inexact_rebalances FROM rebalances WHERE cluster = $cluster AND NOT is_exact GROUP BY group_id
) AS counted USING (group_id)
WHERE cluster = $cluster AND NOT is_exact
GROUP BY group_id ORDER BY inexact_events DESC, group_id
