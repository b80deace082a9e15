-- How far back can I ask? For each log partition, the time since which its history is complete, and the number of missing records. Below the rows are the time for all log partitions together, and the log partitions without any record read.
SELECT log_partition, complete_since,
       CASE WHEN missing_offsets = 0 THEN 'nothing is missing'
            WHEN len(gaps) > 0 THEN 'offsets that no dump had: what was in them is not known'
            WHEN complete_since IS NULL THEN 'compacted: complete at the end of the log only'
            ELSE 'compacted before complete_since' END AS what,
       end_timestamp AS log_end, missing_offsets, len(gaps) AS gaps, first_offset, complete_from_offset, end_offset
FROM log_partitions WHERE cluster = $cluster
ORDER BY missing_offsets = 0, CASE WHEN missing_offsets <> 0 THEN complete_since END DESC NULLS FIRST, log_partition
