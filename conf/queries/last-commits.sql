-- When each group last committed and how many members it has, the longest unused first: is it dead?
WITH commits AS (
    SELECT group_id, max(commit_timestamp) AS last_commit, count(*) AS partitions FROM offset_history
    WHERE cluster = $cluster AND valid_to IS NULL GROUP BY group_id
),
life AS (
    SELECT group_id, arg_max(to_state, seq) AS state, arg_max(member_count, seq) AS members,
           max(log_timestamp) AS last_membership_change, arg_max(event, seq) AS last_event, arg_max(epoch, seq) AS epoch
    FROM group_timeline WHERE cluster = $cluster GROUP BY group_id
)
SELECT group_id, coalesce(state, 'Empty') AS state, coalesce(members, 0) AS members, last_commit, partitions,
       last_membership_change, epoch
FROM commits FULL JOIN life USING (group_id)
WHERE coalesce(last_event, '') <> 'GROUP_DELETED' OR last_commit IS NOT NULL
ORDER BY coalesce(life.members, 0) > 0,
         greatest(last_commit, CASE WHEN life.members > 0 THEN last_commit ELSE last_membership_change END), group_id
