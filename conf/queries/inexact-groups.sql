-- Groups with records missing from the log: their timelines and rebalances skip steps.
-- then timeline GROUP shows where steps are missing. sql --query coordinator-failovers shows what brokers logged about loading the log partition: the log itself does not say whether a broker can.
SELECT group_id, count(*) AS inexact_events, min(log_timestamp) AS first_at, max(log_timestamp) AS last_at,
       min(log_partition) AS log_partition, coalesce(min(inexact_rebalances), 0) AS inexact_rebalances
FROM group_timeline LEFT JOIN (
    SELECT group_id, count(*) AS inexact_rebalances FROM rebalances WHERE cluster = $cluster AND NOT is_exact GROUP BY group_id
) AS counted USING (group_id)
WHERE cluster = $cluster AND NOT is_exact
GROUP BY group_id ORDER BY inexact_events DESC, group_id
