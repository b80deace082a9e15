-- Was it a failover? Each time that a broker loaded a partition of __consumer_offsets, by the brokers' logs (audit --broker-log): whether another broker had it before, how long loading took, and which groups of the partition rebalanced within a minute.
-- param partition number: only this partition of __consumer_offsets
-- param from time: loads that ended then or later
WITH loads AS (
    SELECT log_partition, broker, logged_at, epoch, duration_ms,
           lag(broker) OVER earlier AS earlier_broker, lag(logged_at) OVER earlier AS earlier_loaded_at
    FROM broker_log WHERE cluster = $cluster AND event = 'LOADING_FINISHED' AND ($partition IS NULL OR log_partition = $partition)
    WINDOW earlier AS (PARTITION BY log_partition ORDER BY logged_at)
),
groups AS (
    SELECT DISTINCT group_id, log_partition FROM group_timeline WHERE cluster = $cluster
),
rebalanced AS (
    SELECT log_partition, group_id, coalesce(started_at, completed_at) AS began_at
    FROM rebalances JOIN groups USING (group_id) WHERE cluster = $cluster
)
SELECT loads.log_partition, loads.logged_at AS loaded_at, loads.broker, loads.epoch AS leader_epoch, loads.duration_ms AS loading_ms,
       loads.earlier_broker, loads.broker IS DISTINCT FROM loads.earlier_broker AND loads.earlier_broker IS NOT NULL AS is_failover,
       count(DISTINCT group_id) AS groups_rebalanced, list_sort(list(DISTINCT group_id) FILTER (group_id IS NOT NULL))[:10] AS some_groups
FROM loads LEFT JOIN rebalanced
  ON rebalanced.log_partition = loads.log_partition AND rebalanced.began_at >= loads.logged_at
 AND rebalanced.began_at < loads.logged_at + INTERVAL 1 MINUTE
WHERE $from IS NULL OR loads.logged_at >= $from
GROUP BY ALL
ORDER BY loaded_at, loads.log_partition
