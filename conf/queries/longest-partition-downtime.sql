-- Partitions that nobody owned for longest between two owners on record, and how the ownership before ended.
-- param group text: only this group
-- param threshold number = 1: milliseconds from which on it counts
SELECT group_id, coalesce(topic, topic_id) AS topic, partition, unowned_ms, owned_to AS unowned_from,
       owned_to + to_milliseconds(unowned_ms) AS unowned_to, released_by, member_id
FROM partition_ownership
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND unowned_ms >= $threshold
ORDER BY unowned_ms DESC, group_id, topic, partition
LIMIT 50
