-- Rebalances of classic groups as the brokers' logs (audit --broker-log) have them: when each began, how long it took with its join phase, every reason in order, those of the clients too.
-- param group text: only this group
-- param from time: rebalances that ended then or later
WITH ended AS (
    SELECT group_id, rebalance_id, epoch, completed_at, completed_offset, duration_ms_min, duration_ms_max, cause, confidence,
           lag(epoch, 1, 0) OVER earlier AS earlier_epoch, lag(completed_at) OVER earlier AS earlier_completed_at
    FROM rebalances
    WHERE cluster = $cluster AND group_type = 'classic' AND completed_at IS NOT NULL AND ($group IS NULL OR group_id = $group)
    WINDOW earlier AS (PARTITION BY group_id ORDER BY completed_offset)
),
begun AS (
    SELECT rebalance_id, min(line.logged_at) AS began_at, count(DISTINCT line.epoch) AS attempts,
           list(reason ORDER BY line.logged_at) AS reasons,
           list(client_reason ORDER BY line.logged_at) FILTER (client_reason IS NOT NULL) AS client_reasons
    FROM ended JOIN (SELECT * FROM broker_log WHERE cluster = $cluster AND event = 'PREPARING_REBALANCE') AS line USING (group_id)
    WHERE line.epoch < ended.epoch AND line.logged_at <= completed_at + INTERVAL 2 SECOND
      AND (earlier_completed_at IS NULL OR line.logged_at >= earlier_completed_at - INTERVAL 2 SECOND)
      AND (line.epoch >= earlier_epoch OR earlier_epoch >= ended.epoch)
    GROUP BY rebalance_id
)
SELECT group_id, epoch AS generation, began_at, completed_at, epoch_ms(completed_at) - epoch_ms(began_at) AS duration_ms,
       attempts, reasons, client_reasons, cause, confidence, duration_ms_min, duration_ms_max
FROM ended JOIN begun USING (rebalance_id)
WHERE $from IS NULL OR completed_at >= $from
ORDER BY began_at, group_id
