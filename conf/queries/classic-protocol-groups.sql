-- Groups that still use the classic protocol (all of their members or some), or were converted back to it. The column obstacle names a reason on record why the group can't change to the consumer protocol; there may be other reasons. The column clients has client ids, as describe shows them. The column groups_on_kip_848 has the number of groups on the consumer protocol. If is_exact is true, the row is proven.
WITH last AS (
    SELECT group_id, arg_max(group_type, seq) AS group_type, arg_max(event = 'GROUP_DELETED' OR coalesce(to_state = 'Dead', false), seq) AS is_deleted,
           arg_max(coalesce(member_count, 0), seq) AS member_count,
           count(*) FILTER (event = 'GROUP_CONVERTED') AS conversions,
           max(log_timestamp) FILTER (event = 'GROUP_CONVERTED') AS converted_at,
           arg_max(coalesce(is_state_exact, false), seq) AS is_exact
    FROM group_timeline WHERE cluster = $cluster GROUP BY group_id
),
clients AS (
    SELECT group_id, list_sort(list_distinct(list(client_id))) AS clients,
           min(CASE WHEN assignor NOT IN ('range', 'roundrobin', 'sticky', 'cooperative-sticky') THEN assignor END) AS own_assignor
    FROM member_timeline
    WHERE cluster = $cluster AND to_offset IS NULL GROUP BY group_id
),
-- What the clients of a classic group say they are: consumer, or connect and the like. The record of a group without members has none.
protocols AS (
    SELECT group_id, arg_max(json_extract_string(value_json, '$.protocolType'), log_offset) AS protocol_type FROM group_records
    WHERE cluster = $cluster AND kind = 'GroupMetadata' AND json_extract_string(value_json, '$.protocolType') IS NOT NULL
      AND (group_id, log_partition) NOT IN (SELECT (group_id, log_partition) FROM group_moves WHERE cluster = $cluster)
    GROUP BY group_id
),
-- Consumer groups with a member whose newest record is that of a classic member.
in_migration AS (
    SELECT group_id FROM (
        SELECT group_id, member_id, arg_max(coalesce(value_json, '{}'), log_offset) AS newest FROM group_records
        WHERE cluster = $cluster AND kind = 'ConsumerGroupMemberMetadata'
          AND (group_id, log_partition) NOT IN (SELECT (group_id, log_partition) FROM group_moves WHERE cluster = $cluster)
        GROUP BY group_id, member_id
    ) JOIN member_timeline USING (group_id, member_id)
    -- The tombstone of a member that left can be missing.
    WHERE cluster = $cluster AND to_offset IS NULL AND json_extract_string(newest, '$.classicMemberMetadata') IS NOT NULL
)
SELECT group_id, CASE WHEN group_type = 'consumer' THEN 'has classic members' WHEN conversions > 0 THEN 'converted back'
                      WHEN group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster) THEN 'no conversion on record'
                      ELSE 'never converted' END AS what, member_count,
       CASE WHEN group_type = 'consumer' THEN NULL
            WHEN protocol_type NOT IN ('consumer', '') THEN 'protocol type ' || protocol_type || ': only groups of the type consumer can change'
            WHEN own_assignor IS NOT NULL THEN 'assignor ' || own_assignor || ' is none of Kafka''s: the consumer protocol assigns on the brokers'
            ELSE 'none on record' END AS obstacle,
       converted_at, clients[1:10] AS clients,
       (SELECT count(*) FROM last WHERE group_type = 'consumer' AND NOT is_deleted) AS groups_on_kip_848,
       is_exact AND (SELECT bool_and(is_exact) FROM last)
       AND NOT EXISTS (FROM log_partitions WHERE cluster = $cluster AND len(gaps) > 0)
       -- A later conversion may be among records that are missing.
       AND ((group_type = 'classic' AND conversions = 0) OR NOT EXISTS (
           FROM incomplete_groups AS incomplete
           WHERE incomplete.cluster = $cluster AND incomplete.group_id = last.group_id AND coalesce(converted_at <= incomplete.until, true)
       )) AS is_exact
FROM last LEFT JOIN clients USING (group_id) LEFT JOIN protocols USING (group_id)
WHERE (group_type = 'classic' OR group_id IN (SELECT group_id FROM in_migration)) AND NOT is_deleted AND member_count > 0
ORDER BY what, group_id
