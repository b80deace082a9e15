-- When each group last committed and how many members it has, the longest unused first: is it dead?
WITH commits AS (
    SELECT group_id, max(commit_timestamp) AS last_commit_at, count(*) AS partition_count, min(log_partition) AS log_partition FROM offset_history
    WHERE cluster = $cluster AND to_offset IS NULL GROUP BY group_id
),
life AS (
    SELECT group_id, arg_max(to_state, seq) AS state, arg_max(member_count, seq) AS members,
           max(log_timestamp) AS membership_changed_at, arg_max(event, seq) AS last_event, arg_max(epoch, seq) AS epoch
    FROM group_timeline WHERE cluster = $cluster GROUP BY group_id
),
-- Behind a gap a group without records of its own may have had some.
proven AS (SELECT log_partition FROM log_partitions WHERE cluster = $cluster AND len(gaps) = 0)
SELECT group_id, coalesce(state, CASE WHEN log_partition IN (SELECT log_partition FROM proven) THEN 'Empty' ELSE 'Unknown' END) AS state,
       CASE WHEN state = 'Unknown' OR state IS NULL AND log_partition NOT IN (SELECT log_partition FROM proven) THEN NULL
            ELSE coalesce(members, 0) END AS member_count, last_commit_at, partition_count,
       membership_changed_at, epoch
FROM commits FULL JOIN life USING (group_id)
WHERE coalesce(last_event, '') <> 'GROUP_DELETED' OR last_commit_at IS NOT NULL
ORDER BY coalesce(life.members, 0) > 0,
         greatest(last_commit_at, CASE WHEN life.members > 0 THEN last_commit_at ELSE membership_changed_at END), group_id
