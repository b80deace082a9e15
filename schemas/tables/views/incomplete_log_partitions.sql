-- Log partitions of which records are missing, and until when: there may have been groups of which nothing is left.
SELECT
  cluster,
  log_partition,
  coalesce(complete_since, end_timestamp) AS until
FROM log_partitions
WHERE missing_offsets > 0
