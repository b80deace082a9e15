-- Changes of topics and how long groups took to notice them: which topic, when it changed, when the group noticed, and how long after the change. Partitions that no member has owned yet come first, and the slowest groups next. If is_exact is true, the row is proven.
-- param group text: only this group
-- note changed_at: when the topic changed, by the cluster metadata; empty if that is not known (it needs audit --cluster-metadata). noticed_at: when the group began to rebalance for it; for a classic group, when its members had rejoined.
-- old at
-- also never-owned-partitions: Partitions without an owner, added ones or others
-- then sql --query never-owned-partitions shows each partition without an owner, also partitions that had an owner before.
WITH wanted AS (
    SELECT rebalance_id, group_id, coalesce(started_at, completed_at) AS at,
           coalesce(started_at, began_by, completed_at) AS noticed_at, metadata_delay_ms, partitions_added, duration_ms, duration_ms_min, duration_ms_max, confidence, evidence, facts, coalesce(is_exact, false) AS is_exact
    FROM rebalances
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
      AND (metadata_delay_ms IS NOT NULL OR join_reason = 'topic_metadata_change')
),
facts AS (SELECT rebalance_id, unnest(facts) AS fact FROM wanted),
said AS (
    SELECT rebalance_id, fact.at_ms AS at_ms, fact.kind IN ('TOPIC_CREATED', 'PARTITIONS_ADDED', 'TOPIC_DELETED') AS is_change,
           array_to_string(fact.names, ', ') || CASE fact.kind
               WHEN 'TOPIC_CREATED' THEN ' created, partitions: ' || fact.count
               WHEN 'PARTITIONS_ADDED' THEN ' partitions' || coalesce(' ' || fact.old, '') || ' to ' || fact.count
               WHEN 'TOPIC_DELETED' THEN ' deleted' ELSE '' END AS words
    FROM facts
    -- Without the cluster metadata, the records show what was assigned or matched for the first time.
    WHERE fact.kind IN ('TOPIC_CREATED', 'PARTITIONS_ADDED', 'TOPIC_DELETED', 'ASSIGNED_FIRST', 'REGEX_MATCHES')
),
changes AS (
    SELECT rebalance_id, string_agg(DISTINCT CASE WHEN is_change THEN words END, '; ' ORDER BY CASE WHEN is_change THEN words END) AS changes,
           string_agg(DISTINCT words, '; ' ORDER BY words) AS words,
           min(CASE WHEN is_change THEN at_ms END) AS changed_ms
    FROM said GROUP BY rebalance_id
),
dated AS (
    -- A record may hold any number; only times up to the year 9999 can be shown.
    SELECT *, TIMESTAMPTZ '1970-01-01 00:00:00+00'
              + to_milliseconds(CASE WHEN changed_ms BETWEEN 0 AND 253402300799999 THEN changed_ms END) AS changed_at
    FROM changes
),
never AS (
    SELECT DISTINCT group_id, topic, never_owned, is_at_least FROM {never-owned-partitions} WHERE what = 'never owned'
)
SELECT group_id, topic_change, changed_at, noticed_at, metadata_delay_ms, partitions_added, duration_ms, duration_ms_max, confidence, evidence, is_exact, duration_ms_min, "at"
FROM (
    SELECT group_id, coalesce(changes, words) AS topic_change, coalesce(changed_at, noticed_at - to_milliseconds(CASE WHEN metadata_delay_ms BETWEEN 0 AND epoch_ms(noticed_at) THEN metadata_delay_ms END)) AS changed_at, noticed_at,
           metadata_delay_ms, partitions_added, duration_ms, duration_ms_max, confidence, evidence, is_exact, duration_ms_min, "at", false AS is_never
    FROM wanted LEFT JOIN dated USING (rebalance_id)
    UNION ALL
    SELECT group_id, topic || ' never owned, partitions: ' || CASE WHEN is_at_least THEN 'at least ' ELSE '' END || never_owned, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, true FROM never
)
ORDER BY is_never DESC, metadata_delay_ms DESC NULLS LAST, noticed_at, group_id, topic_change
LIMIT 50
