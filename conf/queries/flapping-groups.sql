-- Groups that rebalance most often: how often, with the most frequent cause, how long the longest rebalance took (longest_ms_min and longest_ms_max: at least and at most), and which clients joined and left. Also how many attempts of classic groups left no record, the busiest hour, and the longest pause in commits. If is_at_least is true, there may be more rebalances.
-- param from time: rebalances that ended at this time or later
-- param threshold number = 2: fewest rebalances of a group that is shown
-- note longest: the bounds of the longest rebalance. "all but 1" means that the log has no upper bound of 1 rebalance, such as the first one of a classic group. JSON and CSV have numbers: longest_ms_max is empty if a rebalance has no upper bound, and longest_ms_bound is the largest upper bound of the others.
-- then rebalances GROUP shows how long each took. sql --query rebalance-triggers names the clients that caused most rebalances. why GROUP explains each rebalance.
WITH chosen AS (
    SELECT * FROM timed_rebalances WHERE cluster = $cluster AND coalesce(in_progress_to >= $from, is_in_progress OR $from IS NULL)
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
          FROM causes JOIN most USING (group_id, rebalances) GROUP BY group_id),
names AS (
    SELECT group_id, member_id, coalesce(min(instance_id), min(client_id), member_id) AS client
    FROM member_timeline WHERE cluster = $cluster GROUP BY group_id, member_id
),
moves AS (
    SELECT group_id, 'joined' AS what, unnest(members_joined) AS member_id FROM chosen
    UNION ALL
    SELECT group_id, 'left' AS what, unnest(members_left) AS member_id FROM chosen
),
movers AS (
    SELECT group_id, what, coalesce(client, member_id) AS client, count(*) AS times
    FROM moves LEFT JOIN names USING (group_id, member_id) GROUP BY ALL
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY group_id, what ORDER BY times DESC, client) AS place,
           count(*) OVER (PARTITION BY group_id, what) AS clients
    FROM movers
),
-- The three most frequent clients of each kind are named; a single other one takes no more room than its number.
named AS (
    SELECT group_id, what, what || ' ' || string_agg(DISTINCT client || ' (' || times || ')', ', ' ORDER BY client || ' (' || times || ')')
               || CASE WHEN max(clients) > 4 THEN ' and ' || (max(clients) - 3) || ' others' ELSE '' END AS words
    FROM ranked WHERE place <= 3 OR clients = 4 GROUP BY group_id, what
),
who AS (SELECT group_id, string_agg(DISTINCT words, '; ' ORDER BY words) AS who FROM named GROUP BY group_id)
SELECT group_id, count(*) AS rebalances, max(duration_ms_min) AS longest_ms_min,
       CASE WHEN count(*) = count(duration_ms_max) THEN max(duration_ms_max) END AS longest_ms_max,
       min(usual_cause) AS usual_cause, min(usual_cause_count) AS usual_cause_count, min(who) AS who,
       sum(CASE WHEN attempts > 1 THEN attempts - 1 ELSE 0 END)::BIGINT AS failed_attempts,
       max(commit_pause_ms) AS longest_commit_pause_ms,
       min(busiest.rebalances) AS peak_per_hour, min(busiest.hour) AS peak_hour,
       min(coalesce(started_at, completed_at)) AS first_at, max(coalesce(started_at, completed_at)) AS last_at,
       min(group_type) AS group_type, max(duration_ms_max) AS longest_ms_bound, count(*) - count(duration_ms_max) AS longest_unbounded,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce($from <= until, true)) AS is_at_least
FROM chosen JOIN usual USING (group_id) LEFT JOIN busiest USING (group_id) LEFT JOIN who USING (group_id)
GROUP BY group_id
HAVING count(*) >= $threshold
ORDER BY peak_per_hour DESC, rebalances DESC, group_id
LIMIT 50
