-- KIP-848 members that took longest to revoke partitions that others were waiting for. Members that still have not revoked these partitions come first. If is_exact is true, the row is proven.
-- param group text: only this group
-- param threshold number = 0: shortest wait that counts, in milliseconds
WITH ends AS (SELECT max(log_timestamp) AS at FROM group_timeline WHERE cluster = $cluster),
blocking AS (
    SELECT group_id, CASE WHEN is_client_inherited THEN instance_id ELSE client_id END AS client_id,
           epoch_ms(CASE WHEN to_offset IS NULL THEN ends.at ELSE valid_to END) - epoch_ms(valid_from) AS blocking_ms,
           list_sum(list_transform(pending_revocation, lambda one: len(one.partitions))) AS partition_count,
           valid_from AS blocking_from, valid_to AS blocking_to, member_id, member_epoch,
           CASE WHEN NOT coalesce(is_client_inherited, false) THEN client_host END AS client_host,
           -- Where records begin to be missing, it may have lasted longer.
           is_exact AND NOT is_begin_open AND NOT EXISTS (
               FROM group_timeline AS lost WHERE lost.cluster = $cluster AND lost.group_id = member_timeline.group_id
               AND lost.event = 'RECORDS_MISSING' AND lost.log_offset = to_offset) AS is_exact,
           to_offset, from_offset
    FROM member_timeline CROSS JOIN ends
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND member_state = 'UNREVOKED_PARTITIONS'
)
SELECT group_id, client_id, blocking_ms, partition_count, blocking_from, blocking_to, member_id, member_epoch, client_host,
    is_exact
FROM blocking WHERE blocking_ms >= $threshold
ORDER BY to_offset IS NOT NULL, blocking_ms DESC, group_id, member_id, from_offset
LIMIT 50
