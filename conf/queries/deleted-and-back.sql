-- Groups that were deleted and exist again, for example after a restore, or because a coordinator lost the deletion. If is_exact is true, the row is proven.
SELECT group_id, deleted_at, recreated_at, recreated_by, group_type, is_exact FROM (
    SELECT group_id, log_timestamp AS deleted_at,
           lead(log_timestamp) OVER in_order AS recreated_at, lead(event) OVER in_order AS recreated_by,
           lead(group_type) OVER in_order AS group_type, event,
           coalesce(is_exact AND lead(is_exact) OVER in_order AND lead(holes) OVER in_order = holes, false) AS is_exact
    FROM (SELECT *, count(*) FILTER (event = 'RECORDS_MISSING') OVER (PARTITION BY group_id ORDER BY seq) AS holes
          FROM group_timeline WHERE cluster = $cluster)
    WHERE event NOT IN ('RECORDS_MISSING', 'RECORDS_COMPLETE') WINDOW in_order AS (PARTITION BY group_id ORDER BY seq)
) WHERE event = 'GROUP_DELETED' AND recreated_at IS NOT NULL
ORDER BY recreated_at, group_id
