-- The coordinator's metrics rebuilt from the log, minute by minute over all groups: for a graph; at least so many where is_at_least.
SELECT bucket, sum(group_count) AS groups, sum(rebalance_count) AS rebalances, sum(offset_commits) AS offset_commits,
       sum(expired_offsets) AS expired_offsets, sum(deleted_offsets) AS deleted_offsets,
       coalesce(bucket < (SELECT max(coalesce(complete_since, end_timestamp)) FROM log_partitions
                          WHERE cluster = $cluster AND missing_offsets > 0), false) AS is_at_least
FROM group_metrics WHERE cluster = $cluster GROUP BY bucket ORDER BY bucket
