"""That a group was there: by its own records, by offsets, or by those that are pending."""

GROUP_ROWS = """(
        SELECT group_id, log_partition, log_timestamp AS first, log_timestamp AS last, log_offset AS place,
               log_offset AS own_place
        FROM group_timeline
        WHERE cluster = $cluster {of_groups}
        UNION ALL SELECT group_id, log_partition, valid_from, coalesce(valid_to, valid_from),
               coalesce(record_offset, from_offset), NULL
        FROM offset_history
        WHERE cluster = $cluster {of_groups}
        UNION ALL SELECT group_id, log_partition, valid_from, coalesce(valid_to, valid_from), from_offset, NULL
        FROM pending_offsets
        WHERE cluster = $cluster {of_groups}
    )"""
"""Every row that shows a group, with its log partition, times and log offsets; of one group with ``{of_groups}``."""
