-- The rows of rebalances with two more columns. If is_in_progress is true, the rebalance was in progress at the end of the log. Otherwise records show it in progress up to in_progress_to. This time is null if no record has it.
SELECT
  *,
  completed_at IS NULL AND completed_offset IS NULL AND settled_at_offset IS NULL AS is_in_progress,
  CASE
    WHEN is_end_open OR (completed_at IS NULL AND completed_offset IS NULL AND settled_at_offset IS NOT NULL) THEN coalesce(started_at, began_by)
    ELSE completed_at
  END AS in_progress_to
FROM rebalances
