-- Groups with missing records. Steps are missing in their timelines and rebalances.
-- note log_partition and log_offset: the record of the first step before which records are missing.
-- none No record of a group is missing: all steps of all groups are proven.
-- then timeline GROUP --wide shows where steps are missing. sql --query loading-risks lists reasons why a broker could have trouble loading the log partition.
SELECT group_id, count(*) AS inexact_events, arg_min(log_partition, seq) AS log_partition, arg_min(log_offset, seq) AS log_offset,
       min(log_timestamp) AS first_at, max(log_timestamp) AS last_at,
       coalesce(min(inexact_rebalances), 0) AS inexact_rebalances
FROM group_timeline LEFT JOIN (
    SELECT group_id, count(*) AS inexact_rebalances FROM rebalances WHERE cluster = $cluster AND NOT is_exact GROUP BY group_id
) AS counted USING (group_id)
WHERE cluster = $cluster AND NOT is_exact
GROUP BY group_id ORDER BY inexact_events DESC, group_id
