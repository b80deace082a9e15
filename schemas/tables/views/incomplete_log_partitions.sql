-- Log partitions with missing or unreadable records, with the end of the time of these records. In this time, there may have been groups of which no record is left.
SELECT
  cluster,
  log_partition,
  coalesce(complete_since, end_timestamp) AS until
FROM log_partitions
WHERE coalesce(complete_from_offset > 0, true)
