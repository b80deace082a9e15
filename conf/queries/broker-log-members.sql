-- How members left, timed out, were fenced, replaced or refused according to the brokers' logs (audit --broker-log), and whether a record shows the same. Refusals leave no record.
-- param group text: only this group
-- param from time: lines from this time on
WITH went AS (
    SELECT group_id, unnest(members_left) AS member_id, completed_at, started_at, epoch
    FROM rebalances WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
),
lines AS (
    SELECT * FROM broker_log
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND ($from IS NULL OR logged_at >= $from)
      AND event IN ('MEMBER_LEFT', 'MEMBER_LEFT_TEMPORARILY', 'SESSION_EXPIRED', 'PENDING_MEMBER_EXPIRED', 'JOIN_EXPIRED',
                    'SYNC_EXPIRED', 'MEMBER_REPLACED', 'MEMBER_FENCED', 'INSTANCE_ID_FENCED', 'INSTANCE_ID_UNRELEASED')
)
SELECT lines.group_id, logged_at, event, lines.member_id, client_reason, reason, instance_id, broker, went.epoch,
       CASE WHEN went.member_id IS NOT NULL THEN 'a record removes the member'
            WHEN event IN ('MEMBER_LEFT', 'SESSION_EXPIRED', 'MEMBER_FENCED') THEN 'no record removes a member of this id'
            WHEN event IN ('INSTANCE_ID_FENCED', 'INSTANCE_ID_UNRELEASED', 'PENDING_MEMBER_EXPIRED') THEN 'leaves no record'
            END AS note
FROM lines LEFT JOIN went
  ON went.group_id = lines.group_id AND went.member_id = lines.member_id
 AND lines.logged_at BETWEEN coalesce(went.started_at, went.completed_at - INTERVAL 1 DAY) - INTERVAL 2 SECOND
                         AND coalesce(went.completed_at, went.started_at) + INTERVAL 2 SECOND
ORDER BY logged_at, lines.group_id, event, lines.member_id
