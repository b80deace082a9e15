-- Groups that commit most often: commits per minute on average, and in their busiest minute; at least so many where is_at_least.
-- param from time: commits of then or later
WITH minutes AS (
    SELECT group_id, log_partition, date_trunc('minute', log_timestamp) AS minute, count(*) AS commits, sum(record_bytes) AS bytes
    FROM offset_commits WHERE cluster = $cluster AND coalesce(log_timestamp >= $from, true) GROUP BY ALL
)
SELECT group_id, sum(commits) AS commits, sum(bytes) AS bytes, max(commits) AS peak_per_minute,
       max(struct_pack(commits, minute)) FILTER (minute IS NOT NULL).minute AS peak_minute,
       round(sum(commits) / greatest(1, date_diff('minute', min(minute), max(minute)) + 1), 1) AS commits_per_minute,
       bool_or(log_partition IN (
           SELECT log_partition FROM incomplete_log_partitions WHERE cluster = $cluster AND coalesce($from <= until, true)))
       OR group_id IN (
           SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce($from <= until, true)) AS is_at_least
FROM minutes GROUP BY group_id ORDER BY commits DESC, group_id LIMIT 50
