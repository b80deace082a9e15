-- Was it a failover? Each change of the coordinator of a partition of __consumer_offsets, except its first election and times without a leader. A row has the leaders before and after the change, how long loading took, and the groups of the partition that rebalanced within a minute. The name of the new leader needs audit --cluster-metadata or --broker-log. Loading times need --broker-log.
-- param partition number: only this partition of __consumer_offsets
-- param from time: changes from this time on
WITH changes AS (
    SELECT *, lag(nullif(broker, -1) IGNORE NULLS) OVER before AS broker_before, lag(leader_epoch) OVER before AS epoch_before
    FROM coordinator_changes WHERE cluster = $cluster AND ($partition IS NULL OR log_partition = $partition)
    WINDOW before AS (PARTITION BY log_partition ORDER BY leader_epoch)
),
groups AS (
    SELECT DISTINCT group_id, log_partition FROM group_timeline WHERE cluster = $cluster
),
rebalanced AS (
    SELECT groups.log_partition, group_id, coalesce(started_at, completed_at) AS began_at
    FROM rebalances JOIN groups USING (group_id) WHERE cluster = $cluster
)
SELECT changes.log_partition, changes.elected_at, changes.broker <> changes.broker_before AS is_failover,
       changes.broker, count(DISTINCT group_id) AS groups_rebalanced, changes.loading_ms, changes.broker_before,
       changes.leader_epoch, changes.is_exact, changes.is_unclean, changes.loaded_at, changes.sources,
       list_sort(list(DISTINCT group_id) FILTER (group_id IS NOT NULL))[:10] AS some_groups,
       changes.log_partition IN (SELECT log_partition FROM groups JOIN incomplete_groups USING (group_id)
                                 WHERE cluster = $cluster AND coalesce(since < changes.elected_at + INTERVAL 1 MINUTE, true)
                                   AND coalesce(changes.elected_at <= until, true))
       OR changes.log_partition IN (SELECT log_partition FROM incomplete_log_partitions
                                    WHERE cluster = $cluster AND coalesce(changes.elected_at <= until, true))
       OR changes.log_partition NOT IN (SELECT log_partition FROM log_partitions WHERE cluster = $cluster) AS is_at_least
FROM changes LEFT JOIN rebalanced
  ON rebalanced.log_partition = changes.log_partition AND rebalanced.began_at >= changes.elected_at
 AND rebalanced.began_at < changes.elected_at + INTERVAL 1 MINUTE
WHERE (changes.epoch_before IS NOT NULL OR changes.is_exact AND changes.leader_epoch > 0) AND coalesce(changes.broker <> -1, true)
  AND ($from IS NULL OR changes.elected_at >= $from)
GROUP BY ALL
ORDER BY changes.elected_at, changes.log_partition, changes.leader_epoch
