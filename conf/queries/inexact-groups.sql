-- Groups of which records are missing from the log: their timelines and rebalances skip steps.
SELECT group_id, count(*) AS inexact_events, min(log_timestamp) AS first_at, max(log_timestamp) AS last_at,
       min(log_partition) AS log_partition,
       (SELECT count(*) FROM rebalances WHERE rebalances.cluster = $cluster
        AND rebalances.group_id = group_timeline.group_id AND NOT is_exact) AS inexact_rebalances
FROM group_timeline
WHERE cluster = $cluster AND NOT is_exact
GROUP BY group_id ORDER BY inexact_events DESC, group_id
