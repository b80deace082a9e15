-- The kinds and versions of records in the log: how many there are, how large they are, and how many are tombstones.
SELECT 'OffsetCommit' AS kind, key_version, value_version, count(*) AS records, sum(record_bytes) AS bytes,
       count(*) FILTER (is_tombstone) AS tombstones, min(log_timestamp) AS first_at, max(log_timestamp) AS last_at
FROM offset_commits WHERE cluster = $cluster GROUP BY ALL
UNION ALL
SELECT kind, key_version, value_version, count(*), sum(record_bytes), count(*) FILTER (is_tombstone),
       min(log_timestamp), max(log_timestamp)
FROM group_records WHERE cluster = $cluster GROUP BY ALL
ORDER BY records DESC, kind, value_version
