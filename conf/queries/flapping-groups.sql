-- Groups that rebalance most often, with the most frequent cause and its count, the busiest hour and the longest pause in commits. If is_at_least is true, there may be more rebalances.
-- param from time: rebalances that ended at this time or later
-- param threshold number = 2: fewest rebalances of a group that is shown
-- then sql --query rebalance-triggers names the clients that caused most rebalances. why GROUP explains each rebalance.
WITH chosen AS (
    SELECT * FROM rebalances WHERE cluster = $cluster AND coalesce(CASE WHEN is_end_open THEN began_by ELSE completed_at END >= $from, completed_offset IS NULL OR $from IS NULL)
),
hours AS (
    SELECT group_id, date_trunc('hour', coalesce(started_at, completed_at)) AS hour, count(*) AS rebalances
    FROM chosen WHERE coalesce(started_at, completed_at) IS NOT NULL AND NOT coalesce(is_end_open, false) GROUP BY ALL
),
busiest AS (
    SELECT group_id, max(rebalances) AS rebalances, max(struct_pack(rebalances, hour)).hour AS hour FROM hours GROUP BY group_id
),
causes AS (SELECT group_id, coalesce(cause, 'UNKNOWN') AS cause, count(*) AS rebalances FROM chosen GROUP BY ALL),
most AS (SELECT group_id, max(rebalances) AS rebalances FROM causes GROUP BY group_id),
-- Causes that are equally frequent are all named.
usual AS (SELECT group_id, string_agg(DISTINCT cause, ' or ' ORDER BY cause) AS usual_cause, max(rebalances) AS usual_cause_count
          FROM causes JOIN most USING (group_id, rebalances) GROUP BY group_id)
SELECT group_id, min(group_type) AS group_type, count(*) AS rebalances,
       min(usual_cause) AS usual_cause, min(usual_cause_count) AS usual_cause_count,
       min(busiest.rebalances) AS peak_per_hour, min(busiest.hour) AS peak_hour, max(commit_pause_ms) AS longest_commit_pause_ms,
       min(coalesce(started_at, completed_at)) AS first_at, max(coalesce(started_at, completed_at)) AS last_at,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce($from <= until, true)) AS is_at_least
FROM chosen JOIN usual USING (group_id) LEFT JOIN busiest USING (group_id)
GROUP BY group_id
HAVING count(*) >= $threshold
ORDER BY peak_per_hour DESC, rebalances DESC, group_id
LIMIT 50
