-- When each group last committed and last had a member, the longest silent first: is it dead?
WITH commits AS (
    SELECT group_id, max(commit_timestamp) AS last_commit, count(*) AS partitions FROM offset_history
    WHERE cluster = $cluster AND valid_to IS NULL GROUP BY group_id
),
members AS (
    SELECT group_id, max(log_timestamp) FILTER (member_count > 0) AS last_member, arg_max(to_state, seq) AS state,
           arg_max(event, seq) AS last_event, arg_max(epoch, seq) AS epoch
    FROM group_timeline WHERE cluster = $cluster GROUP BY group_id
)
SELECT group_id, state, last_commit, partitions, last_member, last_event, epoch
FROM commits FULL JOIN members USING (group_id)
WHERE coalesce(last_event, '') <> 'GROUP_DELETED' OR last_commit IS NOT NULL
ORDER BY greatest(last_commit, last_member), group_id
