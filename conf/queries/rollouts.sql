-- Rollouts (restarts of a group's members that follow each other) with their costs, the most expensive first. A restart means that a member leaves, and a member with the same group.instance.id or client id joins. If members come back with new client ids, their restarts count only if all members were replaced. The costs are those of rebalances in which one of the restarted members left or joined, and of the cooperative follow-ups of these rebalances. If is_at_least is true, the true time without an owner may be higher; is_pause_at_least and is_count_at_least say the same of the pause and of the number of rebalances.
-- param group text: only this group
-- param from time: rollouts that ended at this time or later
-- param to time: rollouts that began before this time; a date means the end of that day
-- param threshold number = 2: fewest restarts of a rollout
-- param most number = 50: largest number of rollouts to show
-- param gap number = 10: longest time between two restarts of a rollout, in minutes
WITH stays AS (
    SELECT group_id, member_id, min(valid_from) AS joined_at,
           CASE WHEN count(to_offset) = count(*) THEN max(valid_to) END AS left_at,
           -- When a member joined that was there before its first record is not on record.
           coalesce(arg_min(is_begin_open, from_offset), false) AS is_begin_open,
           min(client_id) AS client_id, min(client_host) AS client_host,
           CASE WHEN min(instance_id) IS NULL THEN 'client ' || min(client_id) ELSE 'instance ' || min(instance_id) END AS name
    FROM member_timeline
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
    GROUP BY group_id, member_id
), ways AS (
    -- Each member by its name, and all members of a group together, for deployments that change the names.
    SELECT *, name AS way, true AS is_named FROM stays WHERE name IS NOT NULL
    UNION ALL SELECT *, '', false FROM stays
), moves AS (
    SELECT *, joined_at AS moment, 1 AS step FROM ways WHERE joined_at IS NOT NULL AND NOT is_begin_open
    UNION ALL SELECT *, left_at, -1 FROM ways WHERE left_at IS NOT NULL
), levels AS (
    -- Joins up to a number of members alternate with departures from it: each is beside those that it can be paired with.
    SELECT *, CASE WHEN step = 1 THEN 0 ELSE 1 END
              + sum(step) OVER (PARTITION BY group_id, way ORDER BY moment, step, member_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS level
    FROM moves
), beside AS (
    SELECT *, lag(moment) OVER before AS other_at, lag(step) OVER before AS other_step, lag(member_id) OVER before AS other_member,
           lag(left_at) OVER before AS other_left_at, lag(client_id) OVER before AS other_client, lag(client_host) OVER before AS other_host
    FROM levels
    WINDOW before AS (PARTITION BY group_id, way, level ORDER BY moment, step, member_id)
), fitted AS (
    -- A successor joins after the departure, or up to a minute before it; then both were there for longer than that minute.
    SELECT *, CASE WHEN other_step = step OR other_member = member_id THEN 0
                   WHEN step = 1 AND epoch_ms(moment) - epoch_ms(other_at) <= $gap * 60000 THEN 1
                   WHEN step = -1 AND epoch_ms(moment) - epoch_ms(other_at) <= 60000 AND coalesce(epoch_ms(moment) - epoch_ms(joined_at) > 60000, true)
                        AND coalesce(epoch_ms(other_left_at) - epoch_ms(other_at) > 60000, true) THEN 1
                   ELSE 0 END AS fits
    FROM beside
), chains AS (
    SELECT *, sum(1 - fits) OVER (PARTITION BY group_id, way, level ORDER BY moment, step, member_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS chain
    FROM fitted
), places AS (
    SELECT *, row_number() OVER (PARTITION BY group_id, way, level, chain ORDER BY moment, step, member_id) AS place FROM chains
), restarts AS (
    -- The second step of a chain goes with the first one, the fourth with the third: no departure and no join has two partners.
    SELECT group_id, is_named, other_at AS begun_at, moment AS ended_at, CASE WHEN step = 1 THEN moment ELSE other_at END AS restarted_at,
           CASE WHEN step = 1 THEN member_id ELSE other_member END AS member_id,
           CASE WHEN step = 1 THEN other_member ELSE member_id END AS departed_id, CASE WHEN step = 1 THEN client_id ELSE other_client END AS client_id,
           CASE WHEN step = 1 THEN client_host ELSE other_host END AS client_host
    FROM places WHERE place % 2 = 0
), marked AS (
    SELECT *, CASE WHEN epoch_ms(restarted_at) - lag(epoch_ms(restarted_at)) OVER (PARTITION BY group_id, is_named ORDER BY restarted_at, member_id)
                        <= $gap * 60000 THEN 0 ELSE 1 END AS is_first,
           max(CASE WHEN is_named THEN restarted_at END)
               OVER (PARTITION BY group_id ORDER BY restarted_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS named_before,
           min(CASE WHEN is_named THEN restarted_at END)
               OVER (PARTITION BY group_id ORDER BY restarted_at ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS named_after
    FROM restarts
), numbered AS (
    SELECT *, sum(is_first) OVER (
        PARTITION BY group_id, is_named ORDER BY restarted_at, member_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
    FROM marked
), runs AS (
    SELECT group_id, is_named, number, min(begun_at) AS first_at, max(restarted_at) AS last_at, max(ended_at) AS ended_at,
           min(restarted_at) AS first_joined_at, count(*) AS restarts,
           count(DISTINCT client_id) AS clients, count(DISTINCT client_host) AS hosts, min(client_id) AS first_client,
           max(client_id) AS last_client, list(departed_id) AS departed, list(member_id) AS arrived
    FROM numbered
    GROUP BY group_id, is_named, number
    HAVING count(*) >= $threshold AND coalesce(max(restarted_at) >= $from, true) AND coalesce(min(begun_at) < $to, true)
       -- If members come back under their names, other new members are not their successors.
       AND (is_named OR NOT bool_or(coalesce(epoch_ms(restarted_at) - epoch_ms(named_before) <= $gap * 60000, false)
                                    OR coalesce(epoch_ms(named_after) - epoch_ms(restarted_at) <= $gap * 60000, false)))
), rollouts AS (
    SELECT * FROM runs
    -- A removed member and a new member are a restart under a new name only if no earlier member stayed in the group.
    WHERE is_named OR NOT EXISTS (
        SELECT 1 FROM stays
        WHERE stays.group_id = runs.group_id AND coalesce(stays.joined_at < runs.first_joined_at, true)
          AND coalesce(stays.left_at > runs.ended_at, true))
), steps AS (
    -- A follow-up goes with the rebalance that it follows.
    SELECT *, sum(CASE WHEN cause = 'COOPERATIVE_FOLLOW_UP' AND NOT is_moved THEN 0 ELSE 1 END) OVER (
        PARTITION BY group_id ORDER BY coalesce(started_at, began_by, completed_at), epoch ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS step
    FROM (SELECT *, coalesce(len(members_left), 0) + coalesce(len(members_joined), 0) > 0 AS is_moved FROM rebalances
          WHERE cluster = $cluster AND group_id IN (SELECT group_id FROM rollouts))
), caused AS (
    SELECT DISTINCT rollouts.group_id, is_named, number, step
    FROM rollouts JOIN steps ON steps.group_id = rollouts.group_id
     AND (list_has_any(coalesce(members_left, []), departed) OR list_has_any(coalesce(members_joined, []), arrived)
          -- A static member that comes back with a new member id neither leaves nor joins.
          OR (list_has_any(coalesce(trigger_members, []), arrived)
              AND list_has_any(list_append(coalesce(alternatives, []), cause), ['MEMBER_RESTART', 'CLIENT_UPGRADE', 'CLIENT_DOWNGRADE'])))
), costs AS (
    SELECT rollouts.*, rollouts.group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster) AS is_incomplete,
           count(rebalance_id) AS rebalances, sum(unowned_ms_total) AS unowned_ms, sum(commit_pause_ms) AS pause_ms,
           coalesce(bool_or(NOT coalesce(is_exact, false)) FILTER (rebalance_id IS NOT NULL), false) AS is_inexact,
           -- The join phase of a classic group leaves no record.
           coalesce(bool_or(group_type = 'classic'), false) AS is_classic, coalesce(bool_or(steps.is_pause_at_least), false) AS is_pause_bound
    FROM rollouts LEFT JOIN caused USING (group_id, is_named, number) LEFT JOIN steps USING (group_id, step)
    GROUP BY ALL
)
SELECT group_id, first_at, last_at, restarts, rebalances,
       -- No rebalance has no costs.
       CAST(CASE WHEN rebalances = 0 AND NOT is_incomplete THEN 0 ELSE unowned_ms END AS BIGINT) AS unowned_ms_total,
       CAST(pause_ms AS BIGINT) AS commit_pause_ms_total,
       clients, hosts, CASE WHEN clients > 1 THEN first_client || ' to ' || last_client ELSE first_client END AS some_clients,
       is_incomplete OR is_inexact OR is_classic AS is_at_least, is_incomplete OR is_inexact OR is_pause_bound AS is_pause_at_least,
       is_incomplete OR is_inexact AS is_count_at_least
FROM costs
ORDER BY unowned_ms_total DESC NULLS LAST, commit_pause_ms_total DESC NULLS LAST, rebalances DESC, group_id, first_at
LIMIT $most
