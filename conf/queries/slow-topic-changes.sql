-- Rebalances that a change of a topic caused, by how long the group took to notice the new partitions.
SELECT group_id, coalesce(started_at, completed_at) AS moment, metadata_delay_ms, duration_ms, confidence, evidence
FROM rebalances
WHERE cluster = $cluster AND (metadata_delay_ms IS NOT NULL OR join_reason = 'topic_metadata_change')
ORDER BY metadata_delay_ms DESC NULLS LAST, moment
LIMIT 50
