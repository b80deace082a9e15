-- Was it a failover? Each change of the coordinator of a partition of __consumer_offsets, except its first election and times without a leader. A row has the leaders before and after the change, how long loading took, and the groups of the partition that rebalanced within a minute. If the only sign of a change is the old leader's log, which says that this leader gave up the partition, elected_at and broker are null: unloaded_at has the time, and the column what says so. The name of the new leader needs audit --cluster-metadata or --broker-log. Loading times need --broker-log.
-- param group text: only the partition of __consumer_offsets that has this group
-- param partition number: only this partition of __consumer_offsets
-- param from time: changes from this time on
-- then timeline GROUP also shows when the partition of the group lost its leader.
WITH changes AS (
    SELECT *, coalesce(elected_at, unloaded_at) AS changed_at, lag(nullif(broker, -1) IGNORE NULLS) OVER before AS broker_before, lag(leader_epoch) OVER before AS epoch_before
    FROM coordinator_changes WHERE cluster = $cluster AND ($partition IS NULL OR log_partition = $partition)
      AND ($group IS NULL OR log_partition IN (
          SELECT log_partition FROM group_timeline WHERE cluster = $cluster AND group_id = $group
          UNION SELECT log_partition FROM offset_history WHERE cluster = $cluster AND group_id = $group))
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
       changes.broker, count(DISTINCT group_id) AS groups_rebalanced,
       CASE WHEN changes.broker IS NULL AND changes.elected_at IS NULL AND changes.unloaded_at IS NOT NULL
            THEN coalesce('broker ' || changes.broker_before, 'its leader') || ' gave it up; no new leader on record' ELSE 'new leader' END AS what,
       changes.unloaded_at, changes.loading_ms, changes.broker_before,
       changes.leader_epoch,
       changes.is_exact, changes.is_unclean, changes.loaded_at, changes.sources,
       list_sort(list(DISTINCT group_id) FILTER (group_id IS NOT NULL))[:10] AS some_groups,
       changes.log_partition IN (SELECT log_partition FROM groups JOIN incomplete_groups USING (group_id)
                                 WHERE cluster = $cluster AND coalesce(since < changes.changed_at + INTERVAL 1 MINUTE, true)
                                   AND coalesce(changes.changed_at <= until, true))
       OR changes.log_partition IN (SELECT log_partition FROM incomplete_log_partitions
                                    WHERE cluster = $cluster AND coalesce(changes.changed_at <= until, true))
       OR changes.log_partition NOT IN (SELECT log_partition FROM log_partitions WHERE cluster = $cluster) AS is_at_least
FROM changes LEFT JOIN rebalanced
  ON rebalanced.log_partition = changes.log_partition AND rebalanced.began_at >= changes.changed_at
 AND rebalanced.began_at < changes.changed_at + INTERVAL 1 MINUTE
WHERE (changes.epoch_before IS NOT NULL OR changes.is_exact AND changes.leader_epoch > 0) AND coalesce(changes.broker <> -1, true)
  AND ($from IS NULL OR changes.changed_at >= $from)
GROUP BY ALL
ORDER BY min(changes.changed_at), changes.log_partition, changes.leader_epoch
