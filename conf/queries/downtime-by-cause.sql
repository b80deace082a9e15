-- The cost of each cause of rebalances: pauses in commits (comparable between all protocols), and times on record without an owner. If is_at_least is true, the true cost may be higher.
-- param group text: only this group
-- param from time: rebalances that ended at this time or later
WITH ends AS (SELECT max(end_timestamp) AS at FROM log_partitions WHERE cluster = $cluster),
gaps AS (
    SELECT rebalance_id, epoch_ms(coalesce(gap.until, ends.at)) - epoch_ms(gap.since) AS unowned_ms
    FROM (SELECT rebalance_id, unnest(unowned) AS gap FROM partition_ownership
          WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)) CROSS JOIN ends
),
unowned AS (
    SELECT rebalance_id, sum(unowned_ms)::BIGINT AS total_ms, max(unowned_ms) AS longest_ms FROM gaps GROUP BY rebalance_id
)
SELECT coalesce(cause, 'UNKNOWN') AS cause, count(*) AS rebalances, max(commit_pause_ms) AS longest_commit_pause_ms,
       coalesce(sum(total_ms), sum(unowned_ms_total)) AS unowned_ms_total, max(duration_ms) AS longest_duration_ms,
       median(commit_pause_ms) AS median_commit_pause_ms, median(duration_ms) AS median_duration_ms,
       coalesce(max(longest_ms), max(unowned_ms_max)) AS longest_unowned_ms, count(DISTINCT group_id) AS groups,
       count(*) FILTER (confidence = 'certain') AS certain, count(duration_ms) AS exact_durations,
       count(unowned_ms_total) AS exact_unowned_times,
       count(*) > count(unowned_ms_total)
       OR EXISTS (FROM incomplete_groups WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
               AND coalesce($from <= until, true))
       OR EXISTS (FROM incomplete_log_partitions WHERE cluster = $cluster AND $group IS NULL
                  AND coalesce($from <= until, true)) AS is_at_least
FROM timed_rebalances LEFT JOIN unowned USING (rebalance_id)
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND coalesce(in_progress_to >= $from, is_in_progress OR $from IS NULL)
GROUP BY 1 ORDER BY sum(commit_pause_ms) DESC NULLS LAST, rebalances DESC, cause
