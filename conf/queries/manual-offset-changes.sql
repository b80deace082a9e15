-- Offsets that were set or moved back while the log proves that the group had no members. A reset with a tool, a restore, or a consumer that uses assign() does this. If is_at_least is true, there may be more partitions.
-- param group text: only this group
-- none No commit of a group without members was found. A commit of a group with members is the commit of a member, or was made by a tool at that time: the log does not tell them apart.
-- row {group_id} {topic} at {at} ({what}; committer: {committer})
-- instead rewinds: Offsets that went back, also while the group had members
-- then offsets GROUP --history TOPIC:PARTITION shows each commit of a partition, with the member that owned it. timeline GROUP shows who was in the group at that time.
WITH life AS (
    SELECT group_id, min(log_timestamp) FILTER (member_count > 0) AS first_member, bool_or(member_count > 0) AS has_members,
           bool_or(event = 'GROUP_CREATED') AS is_beginning_known
    FROM group_timeline WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) GROUP BY group_id
),
consumed AS (
    SELECT DISTINCT group_id, topic, partition FROM offset_history
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND leader_epoch IS NOT NULL
),
written AS (
    SELECT history.group_id, history.topic, history.partition, committed_offset, previous_offset, metadata, valid_from,
           first_member, coalesce(has_members, false) AS has_members, is_beginning_known, coalesce(committed_offset < previous_offset, false) AS is_back,
           to_offset IS NULL AND previous_offset IS NULL AND replaced_offset IS NULL AND NOT coalesce(is_begin_open, true) AS is_only,
           -- A consumer commits the leader epoch of what it read; kafka-consumer-groups commits an offset alone.
           CASE WHEN is_transactional THEN 'a transactional producer'
                WHEN leader_epoch IS NOT NULL THEN 'a consumer: the commit has a leader epoch'
                WHEN consumed.group_id IS NOT NULL THEN 'a tool or a chosen offset: others have a leader epoch'
                ELSE 'not known' END AS committer
    FROM offset_history AS history LEFT JOIN life USING (group_id)
    LEFT JOIN consumed ON consumed.group_id = history.group_id AND consumed.topic = history.topic
                      AND consumed.partition = history.partition
    WHERE cluster = $cluster AND ($group IS NULL OR history.group_id = $group)
      AND group_state = 'Empty' AND owner_member_id IS NULL
),
explained AS (
    SELECT *, CASE
        WHEN NOT has_members AND is_back THEN 'moved back; no members on record'
        WHEN NOT has_members AND is_only THEN 'its only commit on record, and no members'
        WHEN NOT has_members THEN NULL
        WHEN coalesce(valid_from >= first_member, true) THEN 'the group was Empty'
        WHEN is_beginning_known THEN 'before the first member joined'
    END AS what
    FROM written
)
SELECT explained.group_id, topic, count(*) AS partition_count, valid_from AS at, what, committer, min(committed_offset) AS lowest,
       max(committed_offset) AS highest, max(previous_offset::HUGEINT - committed_offset) AS furthest_back,
       min(metadata) AS metadata, bool_or(incomplete.group_id IS NOT NULL) AS is_at_least
FROM explained LEFT JOIN incomplete_groups AS incomplete
  ON incomplete.cluster = $cluster AND incomplete.group_id = explained.group_id
 AND coalesce(since <= valid_from, true) AND coalesce(until >= valid_from, true)
WHERE what IS NOT NULL
GROUP BY explained.group_id, topic, valid_from, what, committer
ORDER BY "at" DESC, explained.group_id, topic, what, committer
LIMIT 200
