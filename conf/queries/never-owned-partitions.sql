-- Partitions without an owner in a group that consumes their topic: without an owner at the end of the log, never owned, or without an owner on record. The number of partitions of a topic comes from the cluster metadata (audit --cluster-metadata). The column never_owned counts the partitions of the topic without an owner on record. If is_at_least is true, there may be more. If is_exact is true, the row is proven.
-- param group text: only this group
-- then sql --query slow-topic-changes shows how long groups took to notice new partitions.
WITH proven AS (
    -- Before the group's first record, or in a gap, a partition may have had an owner.
    SELECT group_id, bool_and(coalesce(is_exact AND is_state_exact, false) AND event != 'RECORDS_MISSING')
                     AND arg_min(event, seq) = 'GROUP_CREATED' AS is_whole,
           coalesce(arg_max(is_state_exact AND event != 'RECORDS_MISSING', seq), false) AS is_now,
           count(DISTINCT log_partition) > 1 AS has_moved,
           max(log_offset) FILTER (NOT coalesce(is_exact AND is_state_exact, false) OR event = 'RECORDS_MISSING') AS open_offset
    FROM group_timeline WHERE cluster = $cluster GROUP BY group_id
),
alive AS (
    SELECT group_id, unnest(coalesce(nullif(subscribed_topics, []), [NULL])) AS topic FROM member_timeline
    WHERE cluster = $cluster AND to_offset IS NULL AND group_type IN ('classic', 'consumer')
),
consumed AS (
    SELECT DISTINCT group_id, topic FROM alive WHERE topic IS NOT NULL
    UNION
    -- Who subscribes by a pattern consumes at least what is owned now.
    SELECT group_id, topic FROM partition_ownership JOIN (SELECT DISTINCT group_id FROM alive) USING (group_id)
    WHERE cluster = $cluster AND topic IS NOT NULL AND to_offset IS NULL
),
known AS (
    -- A deleted topic has no partitions.
    SELECT topic, CASE WHEN bool_and(removed_at IS NOT NULL) THEN 0
                       ELSE max(CASE WHEN removed_at IS NULL THEN partition_count END) END AS partitions
    FROM topics WHERE cluster = $cluster GROUP BY topic
),
owned AS (
    SELECT group_id, topic, partition, bool_or(to_offset IS NULL) AS is_owned, max(owned_to) AS last_owned_at, max(to_offset) AS last_to_offset
    FROM partition_ownership WHERE cluster = $cluster GROUP BY ALL
),
counted AS (
    SELECT group_id, topic, max(coalesce(partitions, partition::BIGINT + 1, 0)) AS partitions, count(partition) AS seen,
           count(CASE WHEN partition < coalesce(partitions, partition::BIGINT + 1) THEN 1 END) AS seen_below,
           bool_or(partitions IS NULL) AS is_at_least
    FROM consumed LEFT JOIN known USING (topic) LEFT JOIN owned USING (group_id, topic)
    GROUP BY ALL
),
expected AS (
    -- No more than the answer can show: a partition of any number costs the same.
    SELECT group_id, topic, unnest(range(0, least(partitions, seen + 500))) AS partition FROM counted
    UNION
    SELECT group_id, topic, partition FROM owned JOIN counted USING (group_id, topic) WHERE partition < partitions
)
SELECT group_id, topic, expected.partition,
       CASE WHEN is_owned IS NULL AND is_whole THEN 'never owned'
            WHEN is_owned IS NULL OR NOT is_now THEN 'no owner on record' ELSE 'not owned now' END AS what,
       last_owned_at, partitions - seen_below AS never_owned, is_at_least,
       -- Up to open_offset, another member may have owned this partition, or another one, after the last owner on record.
       is_whole OR (is_owned IS NOT NULL AND is_now AND partitions = seen_below AND NOT has_moved
                    AND coalesce(last_to_offset > open_offset, open_offset IS NULL)) AS is_exact
FROM expected JOIN proven USING (group_id) JOIN counted USING (group_id, topic) LEFT JOIN owned USING (group_id, topic, partition)
WHERE NOT coalesce(is_owned, false) AND ($group IS NULL OR group_id = $group)
ORDER BY what, group_id, topic, expected.partition
LIMIT 500
