-- Could a broker have trouble loading a partition of __consumer_offsets? Records at which some brokers stop loading, records that can't be decoded, and slow or failed loadings from the brokers' logs.
-- param threshold number = 10000: shortest loading that is shown, in milliseconds
-- note Newer brokers skip some of these records, and a broker reads only what compaction has left. So only a broker's own log shows whether loading failed.
-- none No reason is on record: no tombstone of an unknown group or member, no tombstone of a member that still has an assignment, no record of a member before its group, and no record that can't be decoded.
-- then timeline GROUP --wide shows the group's events around a record. sql --query undecoded-records shows the errors. sql --query coordinator-failovers shows how long each loading took.
WITH records AS (
    SELECT group_id, member_id, log_partition, log_offset, log_timestamp, coalesce(is_tombstone, false) AS is_tombstone,
           regexp_extract(kind, '^(Consumer|Share|Streams)Group', 1) AS family, regexp_extract(kind, '^(?:Consumer|Share|Streams)Group(.+)$', 1) AS what
    FROM group_records WHERE cluster = $cluster AND regexp_matches(kind, '^(Consumer|Share|Streams)Group')
),
-- A group begins anew after its tombstone.
lives AS (
    SELECT *, count(*) FILTER (what = 'Metadata' AND is_tombstone) OVER (
               PARTITION BY log_partition, group_id, family ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS life,
           lag(is_tombstone) OVER (PARTITION BY log_partition, group_id, family, what, member_id ORDER BY log_offset) AS was_removed,
           -- The last record before this one that says what the member has.
           last_value(CASE WHEN what = 'CurrentMemberAssignment' THEN is_tombstone END IGNORE NULLS) OVER of_member AS has_left,
           last_value(CASE WHEN what = 'TargetAssignmentMember' THEN is_tombstone END IGNORE NULLS) OVER of_member AS has_no_target
    FROM records
    WINDOW of_member AS (PARTITION BY log_partition, group_id, family, member_id ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
born AS (
    SELECT *, min(CASE WHEN what IN ('Metadata', 'MemberMetadata') AND NOT is_tombstone THEN log_offset END) OVER (
               PARTITION BY log_partition, group_id, family, life) AS born_at
    FROM lives
),
risky AS (
    SELECT group_id, log_partition, log_offset, log_timestamp,
           CASE WHEN what = 'Metadata' AND is_tombstone AND born_at IS NULL
                THEN 'tombstone of a group that is not on record'
                WHEN what = 'MemberMetadata' AND is_tombstone AND coalesce(was_removed, true)
                THEN 'tombstone of a member that is not on record'
                WHEN what = 'MemberMetadata' AND is_tombstone AND (NOT has_left OR NOT has_no_target)
                THEN 'tombstone of a member that still has an assignment'
                WHEN what IN ('CurrentMemberAssignment', 'TargetAssignmentMember') AND NOT is_tombstone AND coalesce(log_offset < born_at, true)
                THEN 'record of a member before the record of its group' END AS risk
    FROM born
    UNION ALL
    SELECT group_id, log_partition, log_offset, log_timestamp, 'record that can''t be decoded'
    FROM quarantine WHERE cluster = $cluster AND error_class <> 'UnknownRecordType'
    UNION ALL
    SELECT NULL, log_partition, NULL, loaded_at, 'slow loading: ' || loading_ms || ' ms' || coalesce(' by broker ' || nullif(broker, -1), '')
    FROM coordinator_changes WHERE cluster = $cluster AND loading_ms >= $threshold
    UNION ALL
    SELECT NULL, log_partition, NULL, logged_at, 'failed loading' || coalesce(': ' || reason, '')
    FROM broker_log WHERE cluster = $cluster AND event = 'LOADING_FAILED'
)
SELECT risk, group_id, count(*) AS records, log_partition, min(log_offset) AS log_offset, min(log_timestamp) AS first_at, max(log_timestamp) AS last_at
FROM risky WHERE risk IS NOT NULL
GROUP BY risk, group_id, log_partition
ORDER BY log_partition, "log_offset", risk, group_id
