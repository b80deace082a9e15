-- Committed offsets that were rewound by a reset or a late commit, with the owners before and after and the group's state. If a topic was deleted and created again, its offsets begin anew. This is no rewind: such offsets come last, and the column what says so. If commits have no topic id, it may be open which of the two topics an offset belongs to: what says this, too.
-- param group text: only this group
-- param from time: commits from this time on
-- param threshold number = 1: shortest rewind that is shown, in offsets
-- note delta: by how many offsets a partition went back. offsets GROUP --history TOPIC shows the same step as a negative number.
-- row {group_id} {topic}:{partition} from {previous_offset} to {committed_offset} at {at} (group: {group_state}; owner of the partition: {owner_member_id})
-- instead manual-offset-changes: Offsets that were set or moved back, also forward if the group had no members
-- then offsets GROUP --history TOPIC shows the commits around a rewind. sql --query jumps-ahead shows offsets that went far ahead.
WITH compared AS (
    -- No previous_offset: it is not on record, one of the two is negative, or the topic may have been created again.
    SELECT group_id, topic, partition, log_partition, from_offset, valid_from AS at, committed_offset,
           coalesce(previous_offset, CASE WHEN replaced_offset >= 0 THEN replaced_offset END) AS previous_offset,
           lag(committed_offset) OVER in_order AS offset_before, lag(valid_from) OVER in_order AS at_before,
           topic_id, lag(topic_id) OVER in_order AS previous_topic_id,
           -- The nearest ids on record, up to the commit before and from this commit on.
           last_value(topic_id IGNORE NULLS) OVER (
               PARTITION BY group_id, log_partition, topic, partition ORDER BY from_offset
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS id_before,
           first_value(topic_id IGNORE NULLS) OVER (
               PARTITION BY group_id, log_partition, topic, partition ORDER BY from_offset
               ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS id_after,
           lag(owner_member_id) OVER in_order AS previous_owner_member_id, owner_member_id, group_state,
           -- An export through a consumer doesn't show which commits were aborted.
           coalesce(lag(is_proven) OVER in_order, true) AS is_proven
    FROM offset_history WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
    WINDOW in_order AS (PARTITION BY group_id, log_partition, topic, partition ORDER BY from_offset)
),
created AS (SELECT topic, created_at FROM topics WHERE cluster = $cluster AND created_at IS NOT NULL),
judged AS (
    SELECT compared.*, coalesce(topic_id <> previous_topic_id, false) AS is_other,
           -- One of the two commits has no topic id, and the topic changed about then.
           coalesce(id_before <> id_after, topic_id IS NOT NULL) AS may_be_other,
           EXISTS (FROM created WHERE created.topic = compared.topic AND created_at > at_before AND created_at <= compared.at) AS is_created_between
    FROM compared
)
SELECT * FROM (
    SELECT group_id, topic, partition, "at", CASE WHEN is_other THEN offset_before ELSE previous_offset END AS previous_offset, committed_offset,
           CASE WHEN NOT is_other THEN previous_offset::HUGEINT - committed_offset END AS delta,
           CASE WHEN is_other THEN 'no rewind: the topic has another id, so it was created again'
                WHEN is_created_between THEN 'the topic was created again in between'
                WHEN may_be_other THEN 'rewound, or the topic was created again in between'
                ELSE 'rewound' END AS what,
           previous_owner_member_id, owner_member_id, group_state, is_proven
    FROM judged
    WHERE committed_offset >= 0 AND coalesce("at" >= $from, true)
      AND CASE WHEN is_other THEN offset_before ELSE previous_offset END::HUGEINT - committed_offset >= $threshold
)
ORDER BY delta DESC NULLS LAST, "at", group_id, topic, partition
LIMIT 200
