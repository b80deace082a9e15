-- Static members (group.instance.id) that joined again and again, each time with a new member id: the last five members of each instance id, from when to when. For KIP-848, also the number of their hosts. If is_at_least is true, there may be more.
-- param group text: only this group
-- param threshold number = 2: fewest member ids of a static member that is shown
-- then timeline GROUP --members shows which member had an instance id, and when.
WITH holders AS (
    -- The host of a classic member may be that of an earlier process.
    SELECT group_id, instance_id, member_id, min(valid_from) AS since, max(valid_to) AS until, bool_or(to_offset IS NULL) AS is_there,
           min(struct_pack(valid_from, is_begin_open := coalesce(is_begin_open, true))).is_begin_open AS is_begin_open,
           min(client_host) FILTER (NOT coalesce(is_client_inherited, false)) AS host
    FROM member_timeline
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND instance_id IS NOT NULL AND valid_from IS NOT NULL
    GROUP BY group_id, instance_id, member_id
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY group_id, instance_id ORDER BY since DESC, member_id) AS place FROM holders
),
said AS (
    SELECT group_id, instance_id,
           strftime(since, '%Y-%m-%d') || 'T' || strftime(since, '%H:%M:%S') || 'Z'
               || CASE WHEN is_begin_open THEN ' or earlier to ' ELSE ' to ' END
               || CASE WHEN is_there THEN 'the end of the log'
                       ELSE coalesce(strftime(until, '%Y-%m-%d') || 'T' || strftime(until, '%H:%M:%S') || 'Z', 'an unknown time') END
               || ' ' || member_id || coalesce(' on ' || ltrim(host, '/'), '') AS words
    FROM ranked WHERE place <= 5
),
last_ones AS (
    SELECT group_id, instance_id, string_agg(DISTINCT words, '; ' ORDER BY words) AS holders FROM said GROUP BY group_id, instance_id
)
SELECT group_id, instance_id, count(DISTINCT member_id) AS member_ids,
       CASE WHEN bool_and(group_type = 'classic') THEN NULL
            ELSE count(DISTINCT client_host) FILTER (group_type <> 'classic') END AS hosts, min(holders) AS holders,
       min(valid_from) AS first_at, max(valid_from) AS last_changed_at,
       arg_max(client_host, (valid_from, from_offset)) FILTER (group_type <> 'classic') AS latest_host,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster) AS is_at_least
FROM member_timeline LEFT JOIN last_ones USING (group_id, instance_id)
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND instance_id IS NOT NULL
GROUP BY group_id, instance_id
HAVING count(DISTINCT member_id) >= $threshold
ORDER BY member_ids DESC, group_id, instance_id
LIMIT 100
