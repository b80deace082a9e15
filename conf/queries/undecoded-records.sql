-- Records that could not be decoded: a row for each kind of error, with the first record that has it.
SELECT error_class, records, one.error_message AS example, one.log_partition AS log_partition, one.log_offset AS first_offset,
       first_at, last_at, one.source AS source
FROM (
    SELECT error_class, count(*) AS records, min(log_timestamp) AS first_at, max(log_timestamp) AS last_at,
           min(struct_pack(log_partition, log_offset, error_message, source)) AS one
    FROM quarantine WHERE cluster = $cluster GROUP BY error_class
)
ORDER BY records DESC, error_class
