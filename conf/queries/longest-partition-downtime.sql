-- Partitions that nobody consumed for longest between two owners of the same group, and why the last owner let go.
SELECT group_id, coalesce(topic, topic_id) AS topic, partition, unowned_ms, owned_to AS nobody_from,
       owned_to + to_milliseconds(unowned_ms) AS nobody_until, release_event, member_id AS last_owner
FROM partition_ownership
WHERE cluster = $cluster AND unowned_ms > 0
ORDER BY unowned_ms DESC, group_id, topic, partition
LIMIT 50
