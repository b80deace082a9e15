-- Lines of the brokers' logs (audit --broker-log) that contradict the records. A line names a generation or leader epoch that has no record, or a record shows other members or another broker. No answer uses these lines.
-- param group text: only this group and its log partition
-- param from time: lines from this time on
WITH ended AS (
    SELECT group_id, epoch, completed_at, coalesce(began_by, completed_at) AS stabilized_at, members_after
    FROM rebalances
    WHERE cluster = $cluster AND group_type = 'classic' AND completed_at IS NOT NULL AND ($group IS NULL OR group_id = $group)
),
read AS (
    SELECT min(log_timestamp) AS first, max(log_timestamp) AS last FROM group_timeline WHERE cluster = $cluster
),
lines AS (
    SELECT group_id, logged_at, event, epoch, member_count, broker, text, source FROM broker_log, read
    WHERE cluster = $cluster AND event IN ('STABILIZED', 'ASSIGNMENT_RECEIVED', 'GROUP_EMPTY') AND logged_at BETWEEN read.first AND read.last
      AND ($group IS NULL OR group_id = $group) AND ($from IS NULL OR logged_at >= $from)
),
generations AS (
    SELECT lines.group_id, NULL AS log_partition, logged_at, event, lines.epoch, member_count, members_after AS members_by_record, broker,
           CASE WHEN ended.group_id IS NULL THEN 'no record of this generation at this time' ELSE 'the record has another number of members' END AS note,
           text, source
    FROM lines LEFT JOIN ended
      ON ended.group_id = lines.group_id AND ended.epoch = lines.epoch
     AND abs(epoch_ms(logged_at) - epoch_ms(CASE event WHEN 'STABILIZED' THEN stabilized_at ELSE completed_at END)) <= 2000
    -- A join phase that nobody's sync ended leaves no record, and its generation is followed by another attempt.
    -- If records of the group are missing at that time, a missing record does not contradict the line.
    WHERE ended.group_id IS NULL AND event <> 'STABILIZED' AND lines.group_id NOT IN (
              SELECT group_id FROM incomplete_groups
              WHERE cluster = $cluster AND coalesce(since <= logged_at, true) AND coalesce(logged_at <= until, true))
       OR event = 'STABILIZED' AND member_count <> members_after
),
leaders AS (
    SELECT NULL AS group_id, logged.log_partition, logged_at, event, epoch, NULL AS member_count, NULL AS members_by_record, logged.broker,
           CASE WHEN leader_epoch IS NULL THEN 'no record of this leader epoch at this time'
                ELSE 'the leader of this epoch is not this broker' END AS note,
           text, source
    FROM broker_log AS logged
    LEFT JOIN (SELECT log_partition, leader_epoch, broker FROM coordinator_changes WHERE cluster = $cluster) AS changes
      ON changes.log_partition = logged.log_partition AND changes.leader_epoch = logged.epoch
    WHERE cluster = $cluster AND event IN ('COORDINATOR_ELECTED', 'LOADING_SCHEDULED', 'LOADING_FINISHED')
      AND logged.epoch IS NOT NULL AND logged.broker IS NOT NULL AND changes.broker IS DISTINCT FROM logged.broker
      AND ($from IS NULL OR logged_at >= $from)
      AND ($group IS NULL OR logged.log_partition IN (SELECT log_partition FROM group_timeline WHERE cluster = $cluster AND group_id = $group))
)
SELECT * FROM (SELECT * FROM generations UNION ALL SELECT * FROM leaders)
ORDER BY logged_at, group_id, log_partition, event
