-- Log partitions with records that are missing or could not be read, and until when. In that time there may have been groups without any record left.
SELECT
  cluster,
  log_partition,
  coalesce(complete_since, end_timestamp) AS until
FROM log_partitions
WHERE coalesce(complete_from_offset > 0, true)
