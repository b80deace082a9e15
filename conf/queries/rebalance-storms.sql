-- Hours in which one group rebalanced again and again, with the causes and the pauses of its commits. If is_at_least is true, there may be more rebalances.
-- param group text: only this group
-- param from time: rebalances that ended at this time or later
-- param threshold number = 10: fewest rebalances in an hour that is shown
SELECT date_trunc('hour', coalesce(started_at, completed_at)) AS hour, rebalances.group_id, count(*) AS rebalances,
       sum(commit_pause_ms) AS commit_pause_ms_total, max(commit_pause_ms) AS longest_commit_pause_ms,
       histogram(coalesce(cause, 'UNKNOWN')) AS causes, count(DISTINCT epoch) AS epochs,
       bool_or(incomplete.group_id IS NOT NULL) AS is_at_least
FROM timed_rebalances AS rebalances LEFT JOIN incomplete_groups AS incomplete
  ON incomplete.cluster = rebalances.cluster AND incomplete.group_id = rebalances.group_id
 AND coalesce(since < date_trunc('hour', coalesce(started_at, completed_at)) + INTERVAL 1 HOUR, true)
 AND coalesce(date_trunc('hour', coalesce(started_at, completed_at)) <= until, true)
WHERE rebalances.cluster = $cluster AND ($group IS NULL OR rebalances.group_id = $group) AND coalesce(in_progress_to >= $from, is_in_progress OR $from IS NULL)
  AND coalesce(started_at, completed_at) IS NOT NULL
  -- When such a one was over is not on record: it may not have been in this hour.
  AND NOT coalesce(is_end_open, false)
GROUP BY hour, rebalances.group_id
HAVING count(*) >= $threshold
ORDER BY rebalances DESC, hour, rebalances.group_id
