-- Which session timeouts and rebalance timeouts do the members use, at the end of the log? A row has the number of members and groups with the same timeouts, and the first three groups. If is_exact is false, records are missing: the timeouts and numbers may be wrong.
-- note If set_by is members, the members send session.timeout.ms themselves (classic protocol). If set_by is brokers or group, the timeout is a setting that no record has. It is group.consumer.session.timeout.ms on the brokers or consumer.session.timeout.ms of the group (share and streams groups likewise). Members of share groups have no rebalance timeout.
-- then describe GROUP --wide shows the timeouts of each member.
WITH members AS (
    SELECT group_id, group_type, session_timeout_ms, rebalance_timeout_ms, coalesce(is_exact, false) AS is_exact,
           CASE WHEN session_timeout_ms IS NOT NULL THEN 'members' WHEN group_type = 'classic' THEN 'not on record'
                ELSE 'brokers or group' END AS set_by
    FROM current_members WHERE cluster = $cluster
),
counted AS (
    SELECT session_timeout_ms, set_by, rebalance_timeout_ms, group_type, count(*) AS members, count(DISTINCT group_id) AS group_count,
           list_sort(list_distinct(list(group_id)))[1:3] AS examples, bool_and(is_exact) AS is_exact
    FROM members GROUP BY ALL
)
SELECT session_timeout_ms, set_by, rebalance_timeout_ms, members, group_count AS groups, examples, group_type,
       is_exact AND NOT EXISTS (FROM log_partitions WHERE cluster = $cluster AND len(gaps) > 0) AS is_exact
FROM counted
ORDER BY members DESC, group_type, session_timeout_ms, rebalance_timeout_ms
