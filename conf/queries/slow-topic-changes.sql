-- Rebalances that a change of a topic caused. The group that took longest to notice the new partitions comes first. If is_exact is true, the row is proven. The times of topic changes need audit --cluster-metadata.
-- param group text: only this group
-- then sql --query never-owned-partitions shows which partitions still have no owner.
SELECT group_id, coalesce(started_at, completed_at) AS at, metadata_delay_ms, partitions_added, evidence,
       duration_ms, duration_ms_max, confidence, coalesce(is_exact, false) AS is_exact
FROM rebalances
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
  AND (metadata_delay_ms IS NOT NULL OR join_reason = 'topic_metadata_change')
ORDER BY metadata_delay_ms DESC NULLS LAST, "at", group_id
LIMIT 50
