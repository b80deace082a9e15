-- Transactional commits that are still pending at the end of the log. Consumers that ask for their offsets get UNSTABLE_OFFSET_COMMIT. If is_exact is true, the row is proven.
-- param group text: only this group
WITH ends AS (SELECT max(end_timestamp) AS at FROM log_partitions WHERE cluster = $cluster)
SELECT group_id, topic, partition, pending_since, epoch_ms(ends.at) - epoch_ms(pending_since) AS pending_ms,
       producer_id, producer_epoch, committed_offset, coalesce(is_exact, false) AS is_exact
FROM pending_offsets CROSS JOIN ends
WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND to_offset IS NULL
ORDER BY pending_since, group_id, topic, partition, producer_id, committed_offset
