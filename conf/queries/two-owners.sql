-- Partitions that two members of one group owned at the same time, by the coordinator's own records (without share groups).
-- Records without a time are compared by their log offsets.
-- param group text: only this group
SELECT a.group_id, coalesce(a.topic, a.topic_id) AS topic, a.partition, a.member_id AS member_id, b.member_id AS other_member_id,
       b.owned_from AS overlap_from, least(a.owned_to, b.owned_to) AS overlap_to, b.log_partition, b.from_offset
FROM partition_ownership AS a JOIN partition_ownership AS b
  ON a.cluster = b.cluster AND a.group_id = b.group_id AND a.partition = b.partition
 AND coalesce(a.topic, a.topic_id) = coalesce(b.topic, b.topic_id) AND a.member_id <> b.member_id
 AND CASE WHEN a.owned_from <> b.owned_from THEN a.owned_from < b.owned_from
          ELSE (a.from_offset, a.member_id) < (b.from_offset, b.member_id) END
 AND coalesce(a.owned_to > b.owned_from, a.to_offset > b.from_offset, true)
WHERE a.cluster = $cluster AND ($group IS NULL OR a.group_id = $group)
  -- If an ownership is not proven, the log may lack the record in which one of the two members gave the partition up.
  AND a.is_exact AND b.is_exact
  AND a.group_id NOT IN (SELECT group_id FROM group_timeline WHERE cluster = $cluster AND group_type = 'share')
ORDER BY overlap_from, a.group_id, topic, a.partition
LIMIT 500
