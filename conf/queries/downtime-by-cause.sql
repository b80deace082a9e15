-- What each cause of rebalances cost: pauses in commits, which compare all protocols, and times that are exact (KIP-848); at least so much where is_at_least.
-- param group text: only this group
-- param from time: rebalances that ended then or later
SELECT coalesce(cause, 'UNKNOWN') AS cause, count(*) AS rebalances, max(commit_pause_ms) AS longest_commit_pause_ms,
       sum(unowned_ms_total) AS unowned_ms_total, max(duration_ms) AS longest_duration_ms,
       median(commit_pause_ms) AS median_commit_pause_ms, median(duration_ms) AS median_duration_ms,
       max(unowned_ms_max) AS longest_unowned_ms, count(DISTINCT group_id) AS groups,
       count(*) FILTER (confidence = 'certain') AS certain, count(duration_ms) AS exact_durations,
       count(unowned_ms_total) AS exact_unowned_times,
       EXISTS (FROM incomplete_groups WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
               AND coalesce($from <= until, true))
       OR EXISTS (FROM incomplete_log_partitions WHERE cluster = $cluster AND $group IS NULL
                  AND coalesce($from <= until, true)) AS is_at_least
FROM rebalances
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND coalesce(completed_at >= $from, completed_offset IS NULL OR $from IS NULL)
GROUP BY 1 ORDER BY sum(commit_pause_ms) DESC NULLS LAST, rebalances DESC, cause
