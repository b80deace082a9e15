-- Groups whose members own very different numbers of partitions at the end of the log. Members without partitions count, too.
WITH alive AS (
    SELECT group_id, member_id, coalesce(instance_id, client_id, member_id) AS name FROM member_timeline
    WHERE cluster = $cluster AND to_offset IS NULL AND group_type IN ('classic', 'consumer')
),
-- Of other groups the log may lack members.
proven AS (SELECT group_id FROM group_timeline WHERE cluster = $cluster GROUP BY group_id HAVING arg_max(is_state_exact, seq)),
owned AS (
    SELECT group_id, member_id, count(*) AS partitions FROM partition_ownership
    WHERE cluster = $cluster AND to_offset IS NULL GROUP BY ALL
)
SELECT group_id, count(*) AS member_count, sum(coalesce(partitions, 0)) AS partition_count, min(coalesce(partitions, 0)) AS fewest,
       max(coalesce(partitions, 0)) AS most, min(struct_pack(p := coalesce(partitions, 0), name)).name AS member_with_fewest,
       max(struct_pack(p := coalesce(partitions, 0), name)).name AS member_with_most,
       count(*) FILTER (coalesce(partitions, 0) = 0) AS members_without
FROM alive LEFT JOIN owned USING (group_id, member_id)
WHERE group_id IN (SELECT group_id FROM proven)
GROUP BY group_id
HAVING most - fewest > 1
ORDER BY most - fewest DESC, group_id
