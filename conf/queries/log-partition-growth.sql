-- Which partition of __consumer_offsets grows? Records and bytes of each log partition, the average bytes per day over the time of the whole log, and the group that wrote most. If is_at_least is true, there were more records, but compaction has removed them.
WITH written AS (
    SELECT log_partition, group_id, record_bytes, log_timestamp FROM offset_commits WHERE cluster = $cluster
    UNION ALL
    SELECT log_partition, group_id, record_bytes, log_timestamp FROM group_records WHERE cluster = $cluster
),
covered AS (
    SELECT epoch_ms(max(seen_at)) - epoch_ms(min(seen_at)) AS ms
    FROM (SELECT log_timestamp AS seen_at FROM written UNION ALL SELECT end_timestamp FROM log_partitions WHERE cluster = $cluster)
),
by_group AS (SELECT log_partition, group_id, coalesce(sum(record_bytes), 0) AS bytes FROM written GROUP BY ALL)
SELECT log_partition, sum(record_bytes) AS bytes, count(*) AS records,
       (sum(record_bytes) * 86400000 / nullif(max(covered.ms), 0))::HUGEINT AS bytes_per_day, max(covered.ms) AS covered_ms,
       max(largest.group_id) AS largest_group, max(largest.bytes) AS largest_group_bytes,
       max(missing_offsets) > 0 AS is_at_least
FROM written CROSS JOIN covered
LEFT JOIN (SELECT log_partition, missing_offsets FROM log_partitions WHERE cluster = $cluster) USING (log_partition)
LEFT JOIN (SELECT log_partition, max(struct_pack(bytes, group_id)).group_id AS group_id, max(bytes) AS bytes FROM by_group GROUP BY ALL) AS largest USING (log_partition)
GROUP BY log_partition ORDER BY bytes DESC, log_partition
