-- Members whose topic list switched back and forth: a client that sees the cluster's topics differently from call to call.
WITH lists AS (
    SELECT group_id, member_id, client_id, list_sort(subscribed_topics) AS topics, valid_from, from_offset,
           lag(list_sort(subscribed_topics)) OVER in_order AS before
    FROM member_timeline WHERE cluster = $cluster AND subscribed_topics IS NOT NULL
    WINDOW in_order AS (PARTITION BY group_id, coalesce(instance_id, client_id, member_id) ORDER BY from_offset)
)
SELECT group_id, coalesce(client_id, member_id) AS client, count(*) AS switches, count(DISTINCT topics) AS different_lists,
       min(valid_from) AS first, max(valid_from) AS last, arg_max(topics, from_offset) AS latest
FROM lists WHERE before IS NOT NULL AND before <> topics
GROUP BY ALL ORDER BY switches DESC, group_id, client LIMIT 50
