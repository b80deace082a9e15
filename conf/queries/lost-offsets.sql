-- Offsets that something other than a new commit took away: what they were, what took them, and how sure that is.
SELECT valid_to AS moment, ended_by, ended_confidence, group_id, topic, partition, committed_offset, commit_timestamp,
       owner_member_id AS last_owner, ended_evidence
FROM offset_history
WHERE cluster = $cluster AND ended_by IS NOT NULL AND ended_by <> 'COMMIT'
ORDER BY moment DESC, group_id, topic, partition
LIMIT 500
