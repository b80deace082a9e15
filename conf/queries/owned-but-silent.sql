-- Partitions that a member owns at the end of the log, but for which nobody has committed an offset for long, although the group commits other partitions. If is_at_least is true, the time may be longer, because records from before owned_from are missing.
-- param group text: only this group
-- param threshold number = 3600000: shortest time without a commit that is shown, in milliseconds
WITH last AS (
    SELECT history.group_id, topic, partition, max(commit_timestamp) AS committed,
           arg_max(committed_offset, (coalesce(number, 0), from_offset)) AS committed_offset
    FROM offset_history AS history LEFT JOIN group_moves AS moves
        ON moves.cluster = history.cluster AND moves.group_id = history.group_id AND moves.to_log_partition = history.log_partition
    WHERE history.cluster = $cluster GROUP BY history.group_id, topic, partition
),
busy AS (SELECT group_id, max(committed) AS group_committed FROM last GROUP BY group_id)
SELECT * FROM (
    SELECT group_id, owned.topic, owned.partition,
           epoch_ms(group_committed) - epoch_ms(greatest(coalesce(committed, owned_from), owned_from)) AS silent_ms,
           member_id, committed AS last_commit_at, committed_offset, owned_from,
           coalesce(is_begin_open, true) AND coalesce(committed < owned_from, true) AS is_at_least
    FROM partition_ownership AS owned JOIN busy USING (group_id) LEFT JOIN last USING (group_id, topic, partition)
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND to_offset IS NULL
)
WHERE silent_ms >= $threshold
ORDER BY silent_ms DESC, group_id, topic, partition
LIMIT 200
