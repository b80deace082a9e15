-- Committed offsets that were rewound by a reset or a late commit, with the owners before and after and the group's state.
-- param group text: only this group
-- param threshold number = 1: shortest rewind that is shown, in offsets
-- then offsets GROUP --history TOPIC shows the commits around a rewind. sql --query jumps-ahead shows offsets that went far ahead.
SELECT * FROM (
    -- No previous_offset: it is not on record, one of the two is negative, or the topic may have been created again.
    SELECT group_id, topic, partition, valid_from AS at, previous_offset, committed_offset,
           previous_offset::HUGEINT - committed_offset AS delta,
           lag(owner_member_id) OVER in_order AS previous_owner_member_id, owner_member_id, group_state,
           -- An export through a consumer doesn't show which commits were aborted.
           coalesce(lag(is_proven) OVER in_order, true) AS is_proven
    FROM offset_history WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
    WINDOW in_order AS (PARTITION BY group_id, log_partition, topic, partition ORDER BY from_offset)
)
WHERE delta >= $threshold
ORDER BY delta DESC, "at", group_id, topic, partition
LIMIT 200
