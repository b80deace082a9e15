-- Committed offsets that ended by anything but a new commit: their last values, what removed them, and how sure this cause is.
-- param group text: only this group
-- param from time: offsets removed at this time or later
SELECT "at", group_id, topic, partition, ended_by, ended_confidence, ended_alternatives, committed_offset, commit_timestamp,
       owner_member_id, ended_evidence, is_exact
FROM (
    SELECT valid_to AS at, group_id, topic, partition, ended_by, ended_confidence, ended_alternatives, committed_offset, commit_timestamp,
           owner_member_id, ended_evidence, is_exact, count(*) OVER (PARTITION BY ended_by) AS of_this_kind
    FROM offset_history
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND coalesce(valid_to >= $from, true)
      AND ended_by IS NOT NULL AND ended_by <> 'COMMIT'
      -- Where the end is not on record, a later commit may have taken its place.
      AND (ended_by <> 'RECORDS_MISSING' OR (group_id, topic, partition, log_partition, from_offset) IN (
          SELECT group_id, topic, partition, log_partition, max(from_offset) FROM offset_history
          WHERE cluster = $cluster GROUP BY group_id, topic, partition, log_partition))
)
-- Rare kinds of ends come first, so that a screen has all kinds.
ORDER BY of_this_kind, "at" DESC, group_id, topic, partition
LIMIT 500
