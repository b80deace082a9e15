-- Who is most often last to rejoin, by client (static members by group.instance.id)? Records of a KIP-848 group show the members that others waited for. A classic group has no such records, but many clients commit just before they rejoin, and the last one to rejoin ends the join phase. So a member that was also in the previous generation counts as last if it committed after the others, and just before the join phase ended. If is_at_least is true, there may be more.
-- note shown_by: records prove who was last; commits only make it likely, and the wait may have been shorter than behind_ms. A rebalance of a classic group without a commit just before its join phase ended is not in the rows: who was last is not known. If several rebalances share a wait, behind_ms_total counts the wait once.
-- param group text: only this group
-- param from time: rebalances that ended at this time or later
-- param threshold number = 100: shortest time behind the others that counts, in milliseconds
-- param within number = 250: classic groups: longest time from the last commit to the end of the join phase, in milliseconds
WITH known AS (
    SELECT rebalance_id, group_id, group_type, held_up_by, held_up_ms, members_left, started_at, began_by, completed_offset, log_partition,
           duration_ms_max, coalesce(is_exact, false) AS is_exact,
           lag(completed_offset) OVER (PARTITION BY group_id, log_partition ORDER BY completed_offset NULLS LAST) AS previous_offset,
           coalesce(in_progress_to >= $from, is_in_progress OR $from IS NULL) AS is_wanted
    FROM timed_rebalances WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
),
wanted AS (SELECT * FROM known WHERE is_wanted),
committed AS (
    -- Commits of the generation before, by members that came into the next one.
    SELECT rebalance_id, wanted.group_id, owner_member_id AS member_id, max(valid_from) AS last_at
    FROM wanted JOIN offset_history AS history
      ON history.cluster = $cluster AND history.group_id = wanted.group_id AND history.log_partition = wanted.log_partition
     AND from_offset > wanted.previous_offset AND from_offset < wanted.completed_offset AND valid_from <= began_by
    WHERE group_type = 'classic' AND wanted.is_exact AND owner_member_id IS NOT NULL
      AND NOT coalesce(list_contains(members_left, owner_member_id), false)
    GROUP BY rebalance_id, wanted.group_id, owner_member_id
),
in_order AS (
    SELECT rebalance_id, group_id, member_id, last_at,
           row_number() OVER (PARTITION BY rebalance_id ORDER BY last_at DESC, member_id) AS place,
           lead(last_at) OVER (PARTITION BY rebalance_id ORDER BY last_at DESC, member_id) AS before_at
    FROM committed
),
last_ones AS (
    SELECT rebalance_id, group_id, held_up_by AS member_id, held_up_ms AS behind_ms,
           -- Rebalances that end together waited for the same revocation: its time passed once.
           CASE WHEN row_number() OVER (PARTITION BY group_id, held_up_by, completed_offset ORDER BY held_up_ms DESC, rebalance_id) = 1
                THEN held_up_ms ELSE 0 END AS passed_ms, 'records' AS shown_by
    FROM wanted WHERE held_up_by IS NOT NULL
    UNION ALL
    SELECT rebalance_id, group_id, member_id, least(epoch_ms(last_at) - epoch_ms(greatest(before_at, started_at)), duration_ms_max) AS behind_ms,
           behind_ms AS passed_ms, 'commits' AS shown_by
    FROM in_order JOIN wanted USING (rebalance_id, group_id)
    WHERE place = 1 AND last_at > before_at AND coalesce(last_at >= started_at, true) AND epoch_ms(began_by) - epoch_ms(last_at) <= $within
),
names AS (
    SELECT group_id, member_id, coalesce(min(instance_id), min(client_id)) AS client,
           min(client_host) FILTER (NOT coalesce(is_client_inherited, false)) AS client_host
    FROM member_timeline WHERE cluster = $cluster GROUP BY ALL
)
SELECT group_id, coalesce(client, member_id) AS client, count(DISTINCT rebalance_id) AS rebalances,
       shown_by, CAST(sum(passed_ms) AS BIGINT) AS behind_ms_total, max(behind_ms) AS behind_ms_max,
       string_agg(DISTINCT client_host, ', ' ORDER BY client_host) AS client_host,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster AND coalesce($from <= until, true)) AS is_at_least
FROM last_ones LEFT JOIN names USING (group_id, member_id)
WHERE behind_ms >= $threshold
GROUP BY group_id, coalesce(client, member_id), shown_by
ORDER BY rebalances DESC, behind_ms_total DESC, group_id, client, shown_by
LIMIT 50
