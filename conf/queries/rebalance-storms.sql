-- Hours in which one group rebalanced again and again, with causes and the time for which its commits paused; at least so often where is_at_least.
-- param group text: only this group
-- param from time: rebalances that ended then or later
-- param threshold number = 10: rebalances in an hour from which on it counts
WITH incomplete AS (
    SELECT group_id, max(coalesce(complete_since, end_timestamp)) AS until
    FROM (SELECT DISTINCT group_id, cluster, log_partition FROM group_timeline WHERE cluster = $cluster)
    JOIN log_partitions USING (cluster, log_partition) WHERE missing_offsets > 0 GROUP BY group_id
)
SELECT date_trunc('hour', coalesce(started_at, completed_at)) AS hour, group_id, count(*) AS rebalances,
       sum(commit_pause_ms) AS commit_pause_ms_total, max(commit_pause_ms) AS longest_commit_pause_ms,
       histogram(coalesce(cause, 'UNKNOWN')) AS causes, count(DISTINCT epoch) AS epochs,
       coalesce(bool_or(coalesce(started_at, completed_at) < incomplete.until), false) AS is_at_least
FROM rebalances LEFT JOIN incomplete USING (group_id)
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND coalesce(completed_at >= $from, completed_offset IS NULL OR $from IS NULL)
  AND coalesce(started_at, completed_at) IS NOT NULL
GROUP BY hour, group_id
HAVING count(*) >= $threshold
ORDER BY rebalances DESC, hour, group_id
