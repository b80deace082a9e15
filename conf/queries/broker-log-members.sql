-- How members left, timed out, were fenced, replaced or refused according to the brokers' logs (audit --broker-log), and whether a record shows the same. Refusals leave no record. REMOVED_BY_ADMIN means a LeaveGroup request that only an admin sends: it has the reason of Kafka's Admin client, or names the member by its group.instance.id alone.
-- param group text: only this group
-- param from time: lines from this time on
WITH went AS (
    SELECT group_id, unnest(members_left) AS member_id, completed_at, started_at, epoch
    FROM rebalances WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
),
classic AS (
    SELECT group_id, broker, logged_at, event, member_id, reason FROM broker_log
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group)
      AND event IN ('MEMBER_LEFT', 'PREPARING_REBALANCE', 'STABILIZED', 'GROUP_EMPTY')
),
-- The line that ends a LeaveGroup request lists the member ids that the request named; the group's other lines end the list of its members.
requests AS (
    SELECT group_id, broker, logged_at, member_id, event,
           first_value(CASE WHEN event <> 'MEMBER_LEFT' THEN {'reason': reason, 'at': logged_at} END IGNORE NULLS) OVER (
               PARTITION BY group_id, broker
               ORDER BY logged_at, CASE event WHEN 'MEMBER_LEFT' THEN 1 WHEN 'PREPARING_REBALANCE' THEN 2 ELSE 3 END
               ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS request
    FROM classic
),
unnamed AS (
    SELECT DISTINCT group_id, broker, logged_at, member_id FROM requests
    WHERE event = 'MEMBER_LEFT' AND request.reason LIKE 'explicit `LeaveGroup` request for (%)%'
      AND request.at <= logged_at + INTERVAL 1 SECOND AND NOT contains(request.reason, member_id)
),
instances AS (
    SELECT group_id, member_id, max(instance_id) AS instance_id FROM member_timeline
    WHERE cluster = $cluster AND ($group IS NULL OR group_id = $group) AND instance_id IS NOT NULL GROUP BY ALL
),
lines AS (
    SELECT logged.group_id, logged.logged_at, logged.member_id, client_reason, reason, logged.broker,
           coalesce(logged.instance_id, instances.instance_id) AS instance_id,
           CASE WHEN event = 'MEMBER_LEFT'
                 AND (client_reason = 'member was removed by an admin'
                      -- Only a static member can be named by its group.instance.id. A reason of the consumer's own shows that it left.
                      OR (unnamed.member_id IS NOT NULL AND coalesce(logged.instance_id, instances.instance_id) IS NOT NULL
                          AND NOT contains(coalesce(client_reason, ''), 'consumer')))
                THEN 'REMOVED_BY_ADMIN' ELSE event END AS event
    FROM broker_log AS logged LEFT JOIN instances USING (group_id, member_id) LEFT JOIN unnamed
      ON unnamed.group_id = logged.group_id AND unnamed.member_id = logged.member_id
     AND unnamed.logged_at = logged.logged_at AND unnamed.broker IS NOT DISTINCT FROM logged.broker
    WHERE cluster = $cluster AND ($group IS NULL OR logged.group_id = $group)
      AND ($from IS NULL OR logged.logged_at >= $from)
      AND event IN ('MEMBER_LEFT', 'MEMBER_LEFT_TEMPORARILY', 'SESSION_EXPIRED', 'PENDING_MEMBER_EXPIRED', 'JOIN_EXPIRED',
                    'SYNC_EXPIRED', 'MEMBER_REPLACED', 'MEMBER_FENCED', 'INSTANCE_ID_FENCED', 'INSTANCE_ID_UNRELEASED')
)
SELECT lines.group_id, logged_at, event, lines.member_id, instance_id, client_reason, reason, broker, went.epoch,
       CASE WHEN went.member_id IS NOT NULL THEN 'a record removes the member'
            WHEN event IN ('MEMBER_LEFT', 'REMOVED_BY_ADMIN', 'SESSION_EXPIRED', 'MEMBER_FENCED')
            THEN 'no record removes a member of this id'
            WHEN event IN ('INSTANCE_ID_FENCED', 'INSTANCE_ID_UNRELEASED', 'PENDING_MEMBER_EXPIRED') THEN 'leaves no record'
            END AS note
FROM lines LEFT JOIN went
  ON went.group_id = lines.group_id AND went.member_id = lines.member_id
 AND lines.logged_at BETWEEN coalesce(went.started_at, went.completed_at - INTERVAL 1 DAY) - INTERVAL 2 SECOND
                         AND coalesce(went.completed_at, went.started_at) + INTERVAL 2 SECOND
ORDER BY logged_at, lines.group_id, event, lines.member_id
