-- The coordinator's metrics rebuilt from the log, minute by minute over all groups: for a graph.
SELECT bucket, sum(group_count) AS groups, sum(rebalance_count) AS rebalances, sum(offset_commits) AS offset_commits,
       sum(expired_offsets) AS expired_offsets, sum(deleted_offsets) AS deleted_offsets
FROM group_metrics WHERE cluster = $cluster GROUP BY bucket ORDER BY bucket
