-- Records that could not be decoded, by what is wrong with them, with one position of each to look at.
SELECT error_class, count(*) AS records, any_value(error_message) AS example, min(log_partition) AS log_partition,
       min(log_offset) AS first_offset, min(log_timestamp) AS first, max(log_timestamp) AS last, any_value(source) AS source
FROM quarantine WHERE cluster = $cluster
GROUP BY error_class ORDER BY records DESC, error_class
