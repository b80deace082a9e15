-- Did a consumer skip records? Commits that moved an offset far ahead, the furthest first. A row has the time since the previous commit, the usual pace of the partition's commits (measured from the last step back), and whether the previous offset was lost. Commits do not show whether the records in between were read.
-- param group text: only this group
-- param from time: commits from this time on
-- param threshold number = 1000: shortest jump that is shown, in offsets
-- then offsets GROUP --history TOPIC shows the commits around a jump. sql --query rewinds shows offsets that went back.
WITH steps AS (
    SELECT group_id, topic, partition, valid_from, committed_offset, replaced_offset, from_offset, group_state, owner_member_id,
           is_proven,
           coalesce(previous_offset, CASE WHEN lag(ended_by) OVER in_order <> 'COMMIT' OR replaced_offset < 0
                                          THEN lag(committed_offset) OVER in_order END) AS previous_offset,
           CASE WHEN replaced_offset < 0 THEN 'NEGATIVE_OFFSET' WHEN previous_offset IS NULL THEN lag(ended_by) OVER in_order END AS lost_by,
           lag(valid_from) OVER in_order AS previous_at,
           lag(topic_id) OVER in_order AS previous_topic_id, topic_id, log_partition,
           CASE WHEN committed_offset < lag(committed_offset) OVER in_order OR topic_id <> lag(topic_id) OVER in_order
                THEN 1 ELSE 0 END AS is_new_course
    FROM offset_history WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND coalesce(committed_offset >= 0, false)
    WINDOW in_order AS (PARTITION BY group_id, log_partition, topic, partition ORDER BY from_offset)
),
-- A pace has no meaning across a step back, or across topics of the same name.
numbered AS (
    SELECT *, sum(is_new_course) OVER (PARTITION BY group_id, log_partition, topic, partition ORDER BY from_offset) AS course FROM steps
),
paced AS (
    SELECT *, first_value(valid_from) OVER in_course AS first_at, first_value(committed_offset) OVER in_course AS first_offset
    FROM numbered
    WINDOW in_course AS (PARTITION BY group_id, log_partition, topic, partition, course ORDER BY from_offset)
)
SELECT group_id, topic, partition, valid_from AS at, previous_offset, committed_offset,
       committed_offset::HUGEINT - previous_offset AS delta,
       epoch_ms(valid_from) - epoch_ms(previous_at) AS since_previous_ms,
       CASE WHEN previous_at > first_at THEN round((CAST(previous_offset AS DOUBLE) - first_offset) * 1000 / (epoch_ms(previous_at) - epoch_ms(first_at)), 1) END
           AS usual_per_second,
       lost_by, group_state, owner_member_id, is_proven
FROM paced
WHERE committed_offset::HUGEINT - previous_offset >= $threshold AND ($from IS NULL OR valid_from >= $from)
  AND coalesce(topic_id = previous_topic_id, true) AND coalesce(lost_by <> 'RECORDS_MISSING', true)
ORDER BY delta DESC, "at", group_id, topic, partition
LIMIT 50
