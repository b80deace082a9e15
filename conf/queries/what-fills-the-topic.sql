-- Which groups take the space in __consumer_offsets? Records and bytes of each group, and how often each key was written again. A group that moved to another log partition has a row for each of them. If is_at_least is true, there were more records, but compaction has removed them.
WITH written AS (
    SELECT group_id, log_partition, 'offsets' AS what, record_bytes, topic || '-' || partition AS key FROM offset_commits
    WHERE cluster = $cluster
    UNION ALL
    SELECT group_id, log_partition, 'group', record_bytes, kind || coalesce(member_id, '') FROM group_records
    WHERE cluster = $cluster
)
SELECT group_id, log_partition, count(*) AS records, sum(record_bytes) AS bytes,
       count(*) FILTER (what = 'offsets') AS offset_records, count(DISTINCT key) AS keys,
       round(count(*) / count(DISTINCT key), 1) AS records_per_key,
       bool_or(log_partition IN (SELECT log_partition FROM incomplete_log_partitions WHERE cluster = $cluster)) AS is_at_least
FROM written
GROUP BY group_id, log_partition ORDER BY bytes DESC, group_id, log_partition LIMIT 50
