-- KIP-848 members that took longest to give up partitions others were waiting for, those still holding them first.
WITH ends AS (SELECT max(log_timestamp) AS at FROM group_timeline WHERE cluster = $cluster)
SELECT group_id, member_id, client_id, client_host, member_epoch, valid_from AS since, valid_to AS until,
       epoch_ms(coalesce(valid_to, ends.at)) - epoch_ms(valid_from) AS held_ms,
       list_sum(list_transform(pending_revocation, lambda one: len(one.partitions))) AS partitions
FROM member_timeline CROSS JOIN ends
WHERE cluster = $cluster AND member_state = 'UNREVOKED_PARTITIONS'
ORDER BY valid_to IS NOT NULL, held_ms DESC, group_id, member_id
LIMIT 50
