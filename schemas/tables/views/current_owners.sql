-- One row for each partition with an owner at the end of the log, with the owner's client and host. A share group may have several owners of a partition: there is then a row for each owner.
SELECT
  ownership.cluster,
  ownership.group_id,
  ownership.topic,
  ownership.topic_id,
  ownership.partition,
  ownership.member_id,
  ownership.instance_id,
  member.client_id,
  member.client_host,
  ownership.owned_from,
  ownership.is_exact
FROM partition_ownership AS ownership
LEFT JOIN (
  SELECT cluster, group_id, member_id, client_id, client_host
  FROM member_timeline
  WHERE valid_to IS NULL AND to_offset IS NULL
) AS member
  ON member.cluster = ownership.cluster AND member.group_id = ownership.group_id AND member.member_id = ownership.member_id
WHERE ownership.owned_to IS NULL AND ownership.to_offset IS NULL
