-- Partitions that had no owner for the longest time, although members of the group subscribed to the topic. A row also says how the previous ownership ended. unowned_to is null if the partition still has no owner. If is_at_least is true, the partition may have had no owner for longer, because records from unowned_to on are missing.
-- note Not in the rows: times in which the group had no members, and times that no record shows, such as those within one rebalance of a classic group. So an answer without rows does not prove that there was no such time. impact says "at least" if there may be more, and rebalances GROUP has how long commits paused. --param group=G shows one group, with the sums of its partitions.
-- total unowned_ms by group_id; topic:partition
-- param group text: only this group
-- param threshold number = 1: shortest time without an owner that is shown, in milliseconds
WITH ends AS (SELECT max(end_timestamp) AS at FROM log_partitions WHERE cluster = $cluster),
gaps AS (
    SELECT group_id, coalesce(topic, topic_id) AS topic, partition, released_by, member_id, unnest(unowned) AS gap,
           unowned_ms IS NULL AND group_id IN (SELECT group_id FROM incomplete_groups WHERE cluster = $cluster) AS is_open
    FROM partition_ownership WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
)
SELECT group_id, topic, partition, epoch_ms(coalesce(gap.until, ends.at)) - epoch_ms(gap.since) AS unowned_ms,
       gap.since AS unowned_from, gap.until AS unowned_to, released_by, member_id,
       is_open AND gap.until IS NOT NULL AS is_at_least
FROM gaps CROSS JOIN ends
WHERE epoch_ms(coalesce(gap.until, ends.at)) - epoch_ms(gap.since) >= $threshold
ORDER BY unowned_ms DESC, group_id, topic, partition
LIMIT 50
