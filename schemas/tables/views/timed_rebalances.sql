-- Table rebalances with two more columns. is_in_progress says whether the rebalance was in progress at the end of the log. in_progress_to is the time up to which records show it in progress. It is null if is_in_progress is true, or if no record has this time.
SELECT
  *,
  completed_at IS NULL AND completed_offset IS NULL AND settled_at_offset IS NULL AS is_in_progress,
  CASE
    WHEN is_end_open OR (completed_at IS NULL AND completed_offset IS NULL AND settled_at_offset IS NOT NULL) THEN coalesce(started_at, began_by)
    ELSE completed_at
  END AS in_progress_to
FROM rebalances
