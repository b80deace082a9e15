-- Is a group dead? The time of each group's last commit, and the number of its members. The group with the oldest last commit comes first, groups without commits last. The column age_ms has the time from the last commit to the end of the log.
WITH commits AS (
    SELECT group_id, max(commit_timestamp) AS last_commit_at, count(*) AS partition_count, min(log_partition) AS log_partition,
           bool_and(coalesce(is_exact AND is_proven IS NOT FALSE, false)) AS is_exact FROM offset_history
    WHERE cluster = $cluster AND to_offset IS NULL GROUP BY group_id
),
-- A group that was deleted and committed again is a new one. That one has no members, or is no longer there, needs proof.
life AS (
    SELECT group_id, CASE WHEN is_exact OR last_state NOT IN ('Dead', 'Empty') THEN last_state ELSE 'Unknown' END AS state,
           members, membership_changed_at, epoch, log_partition, is_exact
    FROM (
        SELECT group_id, arg_max(to_state, seq) AS last_state, arg_max(coalesce(member_count, 0), seq) AS members,
               max(log_timestamp) FILTER (event NOT IN ('RECORDS_MISSING', 'RECORDS_COMPLETE')) AS membership_changed_at,
               arg_max(epoch, seq) AS epoch, arg_max(log_partition, seq) AS log_partition,
               arg_max(coalesce(is_state_exact, false), seq) AS is_exact
        FROM group_timeline WHERE cluster = $cluster GROUP BY group_id
    )
    WHERE NOT (is_exact AND last_state IS NOT DISTINCT FROM 'Dead')
),
ends AS (SELECT max(end_timestamp) AS at FROM log_partitions WHERE cluster = $cluster),
-- Behind a gap a group without records of its own may have had some, and offsets of which none is left.
proven AS (SELECT log_partition, len(gaps) = 0 AS is_proven FROM log_partitions WHERE cluster = $cluster)
SELECT group_id, coalesce(state, CASE WHEN is_proven THEN 'Empty' ELSE 'Unknown' END) AS state,
       CASE WHEN state = 'Unknown' OR state IS NULL AND is_proven IS NOT TRUE THEN NULL
            ELSE coalesce(members, 0) END AS member_count, last_commit_at, epoch_ms(ends.at) - epoch_ms(last_commit_at) AS age_ms, partition_count,
       membership_changed_at, epoch, coalesce(is_proven AND commits.is_exact IS NOT FALSE AND life.is_exact IS NOT FALSE, false) AS is_exact
FROM commits FULL JOIN life USING (group_id) CROSS JOIN ends
LEFT JOIN proven ON proven.log_partition = coalesce(commits.log_partition, life.log_partition)
ORDER BY last_commit_at NULLS LAST, membership_changed_at NULLS LAST, group_id
