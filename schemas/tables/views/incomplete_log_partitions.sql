-- Log partitions with missing or unreadable records. Column until has the latest possible time of these records. Groups that existed before this time may have no record left.
SELECT
  cluster,
  log_partition,
  coalesce(complete_since, end_timestamp) AS until
FROM log_partitions
WHERE coalesce(complete_from_offset > 0, true)
