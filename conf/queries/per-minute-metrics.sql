-- The coordinator's metrics, computed from the log for each minute and summed over all groups, for a graph. Removed offsets are counted by their likeliest cause. If is_at_least is true, the true numbers may be higher.
SELECT bucket, sum(group_count) AS groups, sum(rebalance_count) AS rebalances, sum(offset_commits) AS offset_commits,
       sum(expired_offsets) AS expired_offsets, sum(deleted_offsets) AS deleted_offsets,
       coalesce(bucket + INTERVAL 1 MINUTE > min(incomplete.since) AND bucket <= min(incomplete.until), false) AS is_at_least
FROM group_metrics CROSS JOIN (
    SELECT min(coalesce(since, '-infinity')) AS since, max(coalesce(until, 'infinity')) AS until
    FROM (
        SELECT since, until FROM incomplete_groups WHERE cluster = $cluster
        UNION ALL
        SELECT NULL, until FROM incomplete_log_partitions WHERE cluster = $cluster
    )
) AS incomplete
WHERE cluster = $cluster GROUP BY bucket ORDER BY bucket
