-- One row for each member at the end of the log: client, host, protocol (group_type), assignor, timeouts, subscription, and owned partitions. If the member owns no partition, assigned is empty. If the assignment is not on record, assigned is null.
SELECT
  member.cluster,
  member.group_id,
  member.group_type,
  member.member_id,
  member.instance_id,
  member.client_id,
  member.client_host,
  member.assignor,
  member.session_timeout_ms,
  member.rebalance_timeout_ms,
  member.subscribed_topics,
  member.subscribed_topic_regex,
  member.member_state,
  member.member_epoch,
  member.assigned,
  coalesce(owned.partition_count, 0) AS partition_count,
  member.valid_from AS since,
  member.is_exact
FROM member_timeline AS member
LEFT JOIN (
  SELECT cluster, group_id, member_id, count(*) AS partition_count
  FROM partition_ownership
  WHERE owned_to IS NULL AND to_offset IS NULL
  GROUP BY cluster, group_id, member_id
) AS owned
  ON owned.cluster = member.cluster AND owned.group_id = member.group_id AND owned.member_id = member.member_id
WHERE member.valid_to IS NULL AND member.to_offset IS NULL
