-- Did a consumer skip records, or read them again? Committed offsets that went far ahead at once, or back, the furthest first. Commits do not show whether the records in between were read. Offsets that begin anew because the topic was created again come last. If is_proven is false, the commit before the step may belong to an aborted transaction.
-- param group text: only this group
-- param from time: commits from this time on
-- param ahead number = 1000: shortest step ahead that counts, in offsets
-- param threshold number = 1: shortest step back that counts, in offsets
-- note Without --param ahead=, steps ahead of less than 1000 offsets are not in the rows.
-- then offsets GROUP --history TOPIC shows the commits around a step. sql --query jumps-ahead and sql --query rewinds show more about each step.
SELECT group_id, topic, partition, "at", previous_offset, committed_offset, what, owner_member_id, is_proven FROM (
    SELECT group_id, topic, partition, "at", previous_offset, committed_offset, delta, what, owner_member_id, is_proven FROM {rewinds}
    UNION ALL
    SELECT group_id, topic, partition, "at", previous_offset, committed_offset, delta,
           'far ahead' || CASE WHEN lost_by IS NULL THEN '' ELSE ', the offset before was lost: ' || lost_by END AS what, owner_member_id, is_proven
    FROM {jumps-ahead threshold=ahead}
)
ORDER BY delta DESC NULLS LAST, "at", group_id, topic, partition
LIMIT 200
