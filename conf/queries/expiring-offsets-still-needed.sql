-- Offsets that are still needed, but are past retention (DUE), or expire soon: before looked_until, the end of the audit's --horizon. An offset counts as needed if its group had members or commits in the last two weeks of the log, and its members have not unsubscribed from the topic.
WITH ends AS (SELECT max(log_timestamp) AS at FROM group_timeline WHERE cluster = $cluster),
looked AS (
    SELECT CAST(settings->>'$.horizon_ms' AS BIGINT) AS horizon_ms FROM audit_runs
    WHERE cluster = $cluster AND status = 'done' ORDER BY started_at DESC, run_id DESC LIMIT 1
),
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
       arg_max(last_owner_member_id, commit_timestamp) AS last_owner_member_id, min(last_seen) AS group_last_seen,
       min(ends.at + to_milliseconds(horizon_ms)) AS looked_until
FROM expired_offsets JOIN used USING (group_id) CROSS JOIN ends LEFT JOIN looked ON true
WHERE cluster = $cluster AND status IN ('DUE', 'EXPIRING') AND last_seen > ends.at - INTERVAL 14 DAY AND coalesce(rule, '') <> 'unsubscribed_topic'
GROUP BY status, expire_at, group_id, topic
ORDER BY expire_at, group_id, topic
