-- Commits into a group that was Empty: somebody reset its offsets, or consumes without joining. The log names no person.
SELECT group_id, topic, count(*) AS partitions, valid_from AS moment, min(committed_offset) AS lowest, max(committed_offset) AS highest,
       any_value(metadata) AS metadata
FROM offset_history
WHERE cluster = $cluster AND group_state = 'Empty' AND owner_member_id IS NULL
  AND group_id IN (SELECT group_id FROM member_timeline WHERE cluster = $cluster)
GROUP BY group_id, topic, valid_from
ORDER BY moment DESC, group_id, topic
LIMIT 200
