-- group_timeline with the columns that process-mining tools expect: each group is a case, and each event is an activity.
SELECT
  concat(cluster, '/', group_id) AS case_id,
  event AS activity,
  log_timestamp AS timestamp,
  member_id AS resource,
  group_type,
  from_state,
  to_state,
  epoch,
  rebalance_id,
  seq
FROM group_timeline
