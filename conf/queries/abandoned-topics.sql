-- Topics with committed offsets of a group, although no member of the group subscribes to them. Tools show that their lag keeps growing.
WITH subscribed AS (
    SELECT DISTINCT group_id, unnest(subscribed_topics) AS topic FROM member_timeline
    WHERE cluster = $cluster AND to_offset IS NULL
),
-- By a pattern, or in a subscription that can't be read.
unnamed AS (
    SELECT DISTINCT group_id FROM member_timeline
    WHERE cluster = $cluster AND to_offset IS NULL
      AND (coalesce(subscribed_topic_regex, '') <> '' OR group_type = 'classic' AND subscribed_topics IS NULL)
),
alive AS (SELECT DISTINCT group_id FROM member_timeline WHERE cluster = $cluster AND to_offset IS NULL),
-- Of other groups the log may lack members.
proven AS (SELECT group_id FROM group_timeline WHERE cluster = $cluster GROUP BY group_id HAVING arg_max(is_state_exact, seq))
SELECT group_id, topic, count(*) AS partition_count, max(commit_timestamp) AS last_commit_at, arg_max(owner_member_id, valid_from) AS owner_member_id
FROM offset_history
WHERE cluster = $cluster AND to_offset IS NULL AND group_id IN (SELECT group_id FROM alive)
  AND group_id IN (SELECT group_id FROM proven)
  AND group_id NOT IN (SELECT group_id FROM unnamed)
  AND (group_id, topic) NOT IN (SELECT group_id, topic FROM subscribed WHERE topic IS NOT NULL)
GROUP BY group_id, topic
ORDER BY last_commit_at, group_id, topic
