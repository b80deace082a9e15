-- Log partitions of which records are missing or could not be read, and until when: there may have been groups of which nothing is left.
SELECT
  cluster,
  log_partition,
  coalesce(complete_since, end_timestamp) AS until
FROM log_partitions
WHERE coalesce(complete_from_offset > 0, true)
