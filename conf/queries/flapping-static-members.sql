-- Static members (group.instance.id) that came back under new member ids again and again, and on how many hosts.
SELECT group_id, instance_id, count(DISTINCT member_id) AS member_ids, count(DISTINCT client_host) AS hosts,
       min(valid_from) AS first_seen, max(valid_from) AS last_change, arg_max(client_host, from_offset) AS latest_host
FROM member_timeline
WHERE cluster = $cluster AND instance_id IS NOT NULL
GROUP BY group_id, instance_id
HAVING count(DISTINCT member_id) > 1
ORDER BY member_ids DESC, group_id, instance_id
LIMIT 100
