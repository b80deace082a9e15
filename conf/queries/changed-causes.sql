-- Causes of rebalances, by group, that are new or have become at least twice or at most half as frequent. The query compares the last seven days of the log with the seven days before. Groups with missing records in these times are left out.
WITH ends AS (
    SELECT max(coalesce(started_at, completed_at)) AS at,
           min(coalesce(started_at, completed_at)) < max(coalesce(started_at, completed_at)) - INTERVAL 7 DAY AS is_long
    FROM rebalances WHERE cluster = $cluster
),
counted AS (
    SELECT group_id, coalesce(cause, 'UNKNOWN') AS cause,
           count(*) FILTER (coalesce(started_at, completed_at) > ends.at - INTERVAL 7 DAY) AS this_week,
           count(*) FILTER (coalesce(started_at, completed_at) <= ends.at - INTERVAL 7 DAY
                            AND coalesce(started_at, completed_at) > ends.at - INTERVAL 14 DAY) AS week_before
    FROM rebalances CROSS JOIN ends WHERE cluster = $cluster AND ends.is_long
      AND group_id NOT IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce(until > ends.at - INTERVAL 14 DAY, true))
    GROUP BY ALL
)
SELECT group_id, cause, week_before, this_week, this_week - week_before AS change
FROM counted
WHERE this_week <> week_before AND (week_before = 0 OR this_week >= 2 * week_before OR week_before >= 2 * this_week)
ORDER BY abs(change) DESC, group_id, cause
LIMIT 100
