-- Offsets that are past retention or soon will be, in groups that somebody still used within two weeks before the end of the log.
WITH ends AS (SELECT max(log_timestamp) AS at FROM group_timeline WHERE cluster = $cluster),
used AS (
    SELECT group_id, max(seen) AS last_seen FROM (
        SELECT group_id, max(log_timestamp) AS seen FROM group_timeline
        WHERE cluster = $cluster AND member_count > 0 GROUP BY group_id
        UNION ALL
        SELECT group_id, max(commit_timestamp) FROM offset_history WHERE cluster = $cluster GROUP BY group_id
    ) GROUP BY group_id
)
SELECT status, expire_at, group_id, topic, count(*) AS partition_count, min(partition) AS first_partition,
       max(partition) AS last_partition, min(rule) AS rule, min(group_state) AS group_state,
       arg_max(last_owner_member_id, commit_timestamp) AS last_owner_member_id, min(last_seen) AS group_last_seen
FROM expired_offsets JOIN used USING (group_id) CROSS JOIN ends
WHERE cluster = $cluster AND status IN ('DUE', 'EXPIRING') AND last_seen > ends.at - INTERVAL 14 DAY
GROUP BY status, expire_at, group_id, topic
ORDER BY expire_at, group_id, topic
