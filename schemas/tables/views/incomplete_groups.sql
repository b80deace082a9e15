-- Groups with missing or undecoded records, and the time range of these records. If since is null, the range begins at the start of the log. If until is null, it goes to the end of the log. Sums are lower bounds in this range.
SELECT
  cluster,
  group_id,
  CASE WHEN count(since) = count(*) THEN min(since) END AS since,
  CASE WHEN count(until) = count(*) THEN max(until) END AS until
FROM (
  SELECT
    cluster,
    group_id,
    CASE WHEN is_exact THEN log_timestamp ELSE before END AS since,
    CASE WHEN is_state_exact THEN log_timestamp ELSE after END AS until
  FROM (
    SELECT
      *,
      lag(log_timestamp) OVER (PARTITION BY cluster, group_id ORDER BY seq) AS before,
      lead(log_timestamp) OVER (PARTITION BY cluster, group_id ORDER BY seq) AS after
    FROM group_timeline
  ) AS events
  WHERE NOT coalesce(is_exact AND is_state_exact, false)
  UNION ALL
  SELECT cluster, group_id, valid_from, valid_to FROM offset_history WHERE NOT coalesce(is_exact, false)
  UNION ALL
  SELECT cluster, group_id, valid_from, valid_to FROM pending_offsets WHERE NOT coalesce(is_exact, false)
  UNION ALL
  SELECT cluster, group_id, NULL, until
  FROM (
    SELECT cluster, log_partition, group_id FROM group_timeline
    UNION
    SELECT cluster, log_partition, group_id FROM offset_history
  ) AS groups
  JOIN incomplete_log_partitions USING (cluster, log_partition)
) AS incomplete
GROUP BY cluster, group_id
