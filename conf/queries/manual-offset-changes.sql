-- Who or what set offsets, or moved them back? Commits while the log proves that the group had no members: a reset with a tool, a restore, or a consumer that uses assign(). Then commits that moved an offset back while the group had members. If is_at_least is true, there may be more partitions.
-- param group text: only this group
-- note While a group has members, brokers refuse a commit without the id of a member and its generation or epoch, unless the commit is transactional. So a commit of that time came from a member, not from a tool. No record names the member.
-- none No offset on record was set or moved back in this way. Not in the rows: commits that went forward in groups without any member on record, and commits of groups whose state is not known.
-- row {group_id} {topic} at {at} ({what}; committer: {committer})
-- instead rewinds: Offsets that went back, also if the group's state or the topic is not known
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
    SELECT history.group_id, history.topic, history.partition, committed_offset, previous_offset, metadata, leader_epoch, valid_from,
           owner_member_id, group_state <> 'Empty' AS is_of_members,
           first_member, coalesce(has_members, false) AS has_members, is_beginning_known, coalesce(committed_offset < previous_offset, false) AS is_back,
           to_offset IS NULL AND previous_offset IS NULL AND replaced_offset IS NULL AND NOT coalesce(is_begin_open, true) AS is_only,
           -- A consumer commits the leader epoch of what it read; kafka-consumer-groups commits an offset alone.
           CASE WHEN is_transactional THEN 'a transactional producer'
                WHEN group_state <> 'Empty' THEN 'a member of the group'
                WHEN leader_epoch IS NOT NULL THEN 'a consumer: the commit has a leader epoch'
                WHEN consumed.group_id IS NOT NULL THEN 'a tool or a chosen offset: others have a leader epoch'
                ELSE 'not known' END AS committer
    FROM offset_history AS history LEFT JOIN life USING (group_id)
    LEFT JOIN consumed ON consumed.group_id = history.group_id AND consumed.topic = history.topic
                      AND consumed.partition = history.partition
    WHERE cluster = $cluster AND ($group IS NULL OR history.group_id = $group)
      AND (group_state = 'Empty' AND owner_member_id IS NULL OR group_state NOT IN ('Empty', 'Dead', 'Unknown') AND committed_offset < previous_offset)
),
hidden AS (
    -- Commits that may have moved an offset back: the offset that they replaced may be missing.
    SELECT DISTINCT group_id, topic, valid_from FROM offset_history
    WHERE cluster = $cluster AND is_begin_open AND previous_offset IS NULL AND group_state NOT IN ('Empty', 'Dead')
),
explained AS (
    SELECT *, CASE
        WHEN is_of_members THEN 'moved back; the group had members'
        WHEN NOT has_members AND is_back THEN 'moved back; no members on record'
        WHEN NOT has_members AND is_only THEN 'its only commit on record, and no members'
        WHEN NOT has_members THEN NULL
        WHEN coalesce(valid_from >= first_member, true) THEN 'the group was Empty'
        WHEN is_beginning_known THEN 'before the first member joined'
    END AS what
    FROM written
)
SELECT explained.group_id, topic, count(*) AS partition_count, valid_from AS at, what,
       explained.committer || CASE WHEN is_of_members AND owner_member_id IS NOT NULL THEN '; owner of the partition: ' || owner_member_id
                                   ELSE '' END AS committer,
       min(committed_offset) AS lowest, max(committed_offset) AS highest, max(previous_offset::HUGEINT - committed_offset) AS furthest_back,
       min(metadata) AS metadata, bool_or(incomplete.group_id IS NOT NULL OR (explained.group_id, topic, valid_from) IN (SELECT (group_id, topic, valid_from) FROM hidden)) AS is_at_least,
       CASE WHEN count(*) = 1 THEN min(partition) END AS partition,
       CASE WHEN count(*) = 1 THEN min(previous_offset) END AS replaced_offset,
       CASE WHEN min(leader_epoch) = max(leader_epoch) THEN min(leader_epoch) END AS leader_epoch
FROM explained LEFT JOIN incomplete_groups AS incomplete
  ON incomplete.cluster = $cluster AND incomplete.group_id = explained.group_id
 AND coalesce(since <= valid_from, true) AND coalesce(until >= valid_from, true)
WHERE what IS NOT NULL
GROUP BY explained.group_id, topic, valid_from, what, explained.committer, is_of_members, owner_member_id
ORDER BY is_of_members, "at" DESC, explained.group_id, topic, what, explained.committer, owner_member_id
LIMIT 200
