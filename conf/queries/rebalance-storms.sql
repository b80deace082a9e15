-- Hours in which one group rebalanced ten times or more, with causes and the time its partitions had no owner.
SELECT date_trunc('hour', coalesce(started_at, completed_at)) AS hour, group_id, count(*) AS rebalances,
       sum(duration_ms) AS duration_ms, sum(unowned_ms_total) AS unowned_ms_total,
       histogram(coalesce(cause, 'UNKNOWN')) AS causes, count(DISTINCT epoch) AS epochs
FROM rebalances WHERE cluster = $cluster
GROUP BY hour, group_id
HAVING count(*) >= 10
ORDER BY rebalances DESC, hour, group_id
