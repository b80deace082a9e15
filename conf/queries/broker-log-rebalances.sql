-- Rebalances with lines in the brokers' logs (audit --broker-log): when each began, how long it took with its join phase, and all reasons in order, including the clients' reasons. The last columns have the cause that the records alone show.
-- param group text: only this group
-- param from time: rebalances that ended at this time or later
SELECT group_id, epoch, started_at, duration_ms, cause, reasons, client_reasons, attempts, confidence, group_type,
       completed_at, by_records.cause AS cause_by_records, by_records.confidence AS confidence_by_records,
       duration_ms_min, duration_ms_max
FROM rebalances
WHERE cluster = $cluster AND (reasons IS NOT NULL OR by_records IS NOT NULL)
  AND ($group IS NULL OR group_id = $group) AND ($from IS NULL OR completed_at >= $from)
ORDER BY coalesce(started_at, completed_at), group_id
