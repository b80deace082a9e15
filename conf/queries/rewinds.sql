-- Committed offsets that went backwards, with the owner before and after and the group's state: resets and duplicates.
SELECT * FROM (
    SELECT group_id, topic, partition, valid_from AS moment,
           lag(committed_offset) OVER in_order AS from_offset, committed_offset AS to_offset,
           lag(committed_offset) OVER in_order - committed_offset AS back,
           lag(owner_member_id) OVER in_order AS owner_before, owner_member_id AS owner, group_state
    FROM offset_history WHERE cluster = $cluster
    WINDOW in_order AS (PARTITION BY group_id, topic, partition ORDER BY offset_history.from_offset)
)
WHERE back > 0
ORDER BY back DESC, moment
LIMIT 200
