-- Groups that rebalance most often, with the usual cause and the busiest hour.
WITH hours AS (
    SELECT group_id, date_trunc('hour', coalesce(started_at, completed_at)) AS hour, count(*) AS rebalances
    FROM rebalances WHERE cluster = $cluster GROUP BY ALL
)
SELECT group_id, any_value(group_type) AS group_type, count(*) AS rebalances,
       any_value(busiest.rebalances) AS most_in_one_hour, any_value(busiest.hour) AS that_hour,
       mode(coalesce(cause, 'UNKNOWN')) AS usual_cause, sum(unowned_ms_total) AS unowned_ms_total,
       min(coalesce(started_at, completed_at)) AS first, max(coalesce(started_at, completed_at)) AS last
FROM rebalances
JOIN (SELECT group_id, max(rebalances) AS rebalances, arg_max(hour, rebalances) AS hour FROM hours GROUP BY group_id)
     AS busiest USING (group_id)
WHERE cluster = $cluster
GROUP BY group_id
HAVING count(*) > 1
ORDER BY most_in_one_hour DESC, rebalances DESC, group_id
LIMIT 50
