-- Members whose list of topics changed and changed back, because the client got different lists of the cluster's topics. If is_at_least is true, there may be more changes.
-- param group text: only this group
WITH lists AS (
    SELECT group_id, member_id, instance_id, client_id, is_client_inherited, list_sort(subscribed_topics) AS topics, valid_from, from_offset, log_partition,
           lag(list_sort(subscribed_topics)) OVER in_order AS before,
           lag(list_sort(subscribed_topics), 2) OVER in_order AS two_before
    FROM (
        SELECT *, lag(list_sort(subscribed_topics)) OVER all_rows IS DISTINCT FROM list_sort(subscribed_topics) AS is_change
        FROM member_timeline
        WHERE cluster = $cluster AND subscribed_topics IS NOT NULL AND ($group IS NULL OR group_id = $group)
        WINDOW all_rows AS (PARTITION BY group_id, log_partition, coalesce(instance_id, member_id) ORDER BY from_offset, member_id)
    )
    WHERE is_change
    WINDOW in_order AS (PARTITION BY group_id, log_partition, coalesce(instance_id, member_id) ORDER BY from_offset, member_id)
)
SELECT group_id, coalesce(instance_id, member_id) AS member, min(client_id) FILTER (NOT coalesce(is_client_inherited, false)) AS client_id, count(before) AS changes,
       count(*) FILTER (topics = two_before) AS changes_back, count(DISTINCT topics) AS distinct_subscriptions,
       min(valid_from) FILTER (before IS NOT NULL) AS first_changed_at, max(valid_from) AS last_changed_at,
       arg_max(topics, (valid_from, from_offset)) AS current_topics,
       group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster) AS is_at_least
FROM lists
GROUP BY group_id, coalesce(instance_id, member_id)
HAVING changes_back > 0
ORDER BY changes DESC, group_id, member LIMIT 50
