-- Rollouts: restarts of a group's members that follow each other, with what they cost, the most expensive first. With is_at_least they cost this or more.
-- param group text: only this group
-- param from time: rollouts that ended then or later
-- param to time: rollouts that began before this time
-- param threshold number = 2: restarts from which on they are a rollout
-- param most number = 50: rollouts at most
-- param gap number = 10: minutes without a restart after which another rollout begins
WITH stays AS (
    SELECT group_id, member_id, min(valid_from) AS joined_at,
           CASE WHEN count(to_offset) = count(*) THEN max(valid_to) END AS left_at,
           -- When a member joined that was there before its first record is not on record.
           coalesce(arg_min(is_begin_open, from_offset), false) AS is_begin_open,
           min(client_id) AS client_id, min(client_host) AS client_host
    FROM member_timeline
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
    GROUP BY group_id, member_id
), restarts AS (
    -- A member that joined soon after another one left, or up to a minute before: a restart has another member id, and
    -- may have another client id.
    SELECT came.group_id, came.member_id, came.client_id, came.client_host, came.joined_at AS restarted_at,
           min(CASE WHEN gone.left_at < came.joined_at THEN gone.left_at ELSE came.joined_at END) AS begun_at
    FROM stays AS came JOIN stays AS gone
      ON gone.group_id = came.group_id AND gone.member_id <> came.member_id AND gone.joined_at < came.joined_at
     AND epoch_ms(came.joined_at) - epoch_ms(gone.left_at) BETWEEN -60000 AND $gap * 60000
    WHERE NOT came.is_begin_open
    GROUP BY came.group_id, came.member_id, came.client_id, came.client_host, came.joined_at
), marked AS (
    SELECT *, CASE WHEN epoch_ms(restarted_at) - lag(epoch_ms(restarted_at)) OVER (PARTITION BY group_id ORDER BY restarted_at, member_id)
                        <= $gap * 60000 THEN 0 ELSE 1 END AS is_first
    FROM restarts
), numbered AS (
    SELECT *, sum(is_first) OVER (
        PARTITION BY group_id ORDER BY restarted_at, member_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
    FROM marked
), runs AS (
    SELECT group_id, number, min(begun_at) AS first_at, max(restarted_at) AS last_at, count(*) AS restarts,
           count(DISTINCT client_id) AS clients, count(DISTINCT client_host) AS hosts, min(client_id) AS first_client,
           max(client_id) AS last_client
    FROM numbered
    GROUP BY group_id, number
    HAVING count(*) >= $threshold AND coalesce(max(restarted_at) >= $from, true) AND coalesce(min(begun_at) < $to, true)
)
SELECT runs.group_id, first_at, last_at, restarts, count(rebalance_id) AS rebalances,
       CAST(sum(unowned_ms_total) AS BIGINT) AS unowned_ms_total, CAST(sum(commit_pause_ms) AS BIGINT) AS commit_pause_ms_total,
       clients, hosts, CASE WHEN clients > 1 THEN first_client || ' to ' || last_client ELSE first_client END AS some_clients,
       -- The join phase of a classic group leaves no record.
       runs.group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster)
       OR coalesce(bool_or(group_type = 'classic' OR NOT coalesce(rebalances.is_exact, false)), false) AS is_at_least
FROM runs LEFT JOIN rebalances
  ON rebalances.cluster = $cluster AND rebalances.group_id = runs.group_id
 AND coalesce(started_at, began_by, completed_at) >= first_at
 AND coalesce(started_at, began_by, completed_at) <= last_at + INTERVAL 1 MINUTE
GROUP BY runs.group_id, number, first_at, last_at, restarts, clients, hosts, first_client, last_client
ORDER BY unowned_ms_total DESC NULLS LAST, commit_pause_ms_total DESC NULLS LAST, rebalances DESC, runs.group_id, first_at
LIMIT $most
