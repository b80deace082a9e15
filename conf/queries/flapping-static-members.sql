-- Static members (group.instance.id) that joined again and again, each time with a new member id. For KIP-848, also the number of their hosts. If is_at_least is true, there may be more.
-- param group text: only this group
-- param threshold number = 2: fewest member ids of a static member that is shown
-- then timeline GROUP --members shows which member had an instance id, and when.
SELECT group_id, instance_id, count(DISTINCT member_id) AS member_ids,
       CASE WHEN bool_and(group_type = 'classic') THEN NULL
            ELSE count(DISTINCT client_host) FILTER (group_type <> 'classic') END AS hosts,
       min(valid_from) AS first_at, max(valid_from) AS last_changed_at,
       arg_max(client_host, (valid_from, from_offset)) FILTER (group_type <> 'classic') AS latest_host,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster) AS is_at_least
FROM member_timeline
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND instance_id IS NOT NULL
GROUP BY group_id, instance_id
HAVING count(DISTINCT member_id) >= $threshold
ORDER BY member_ids DESC, group_id, instance_id
LIMIT 100
