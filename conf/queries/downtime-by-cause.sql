-- What each cause of rebalances cost: how many, how long, and for how long partitions had no owner.
SELECT coalesce(cause, 'UNKNOWN') AS cause, count(*) AS rebalances, count(DISTINCT group_id) AS groups,
       median(duration_ms) AS median_duration_ms, max(duration_ms) AS longest_ms, sum(unowned_ms_total) AS unowned_ms_total,
       max(unowned_ms_max) AS longest_unowned_ms, count(*) FILTER (confidence = 'certain') AS certain
FROM rebalances WHERE cluster = $cluster
GROUP BY 1 ORDER BY unowned_ms_total DESC NULLS LAST, cause
