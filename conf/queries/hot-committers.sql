-- Groups that commit most often. commits_per_minute is the average over the time from the first to the last record that was read (or since the parameter from). A time shorter than a minute counts as one minute. peak_per_minute is the number in the busiest minute. If is_at_least is true, there may be more commits.
-- param from time: commits from this time on
WITH minutes AS (
    SELECT group_id, log_partition, date_trunc('minute', log_timestamp) AS minute, count(*) FILTER (is_tombstone IS NOT TRUE) AS commits,
           coalesce(sum(record_bytes) FILTER (is_tombstone IS NOT TRUE), 0) AS bytes,
           min(log_timestamp) AS first_at, max(log_timestamp) AS last_at
    FROM offset_commits WHERE cluster = $cluster AND coalesce(log_timestamp >= $from, true) GROUP BY ALL
),
covered AS (
    SELECT (epoch_ms(max(seen_at)) - epoch_ms(greatest(min(seen_at), $from))) / 60000 AS minutes
    FROM (SELECT first_at AS seen_at FROM minutes
          UNION ALL SELECT last_at FROM minutes
          UNION ALL SELECT min(log_timestamp) FROM offset_commits WHERE cluster = $cluster
          UNION ALL SELECT min(log_timestamp) FROM group_records WHERE cluster = $cluster
          UNION ALL SELECT end_timestamp FROM log_partitions WHERE cluster = $cluster)
)
SELECT group_id, sum(commits) AS commits, sum(bytes) AS bytes, max(commits) AS peak_per_minute,
       max(struct_pack(commits, minute)) FILTER (minute IS NOT NULL).minute AS peak_minute,
       round(sum(commits) / greatest(1, max(covered.minutes)), 1) AS commits_per_minute,
       bool_or(log_partition IN (
           SELECT log_partition FROM incomplete_log_partitions WHERE cluster = $cluster AND coalesce($from <= until, true)))
       OR group_id IN (
           SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce($from <= until, true)) AS is_at_least
FROM minutes CROSS JOIN covered GROUP BY group_id ORDER BY commits DESC, group_id LIMIT 50
