"""That a group was there: by its own records, by offsets, or by those that are pending."""

GROUP_ROWS = """(
        SELECT group_id, log_partition, log_timestamp AS first, log_timestamp AS last FROM group_timeline
        WHERE cluster = $cluster {of_groups}
        UNION ALL SELECT group_id, log_partition, valid_from, coalesce(valid_to, valid_from) FROM offset_history
        WHERE cluster = $cluster {of_groups}
        UNION ALL SELECT group_id, log_partition, valid_from, coalesce(valid_to, valid_from) FROM pending_offsets
        WHERE cluster = $cluster {of_groups}
    )"""
"""Every row that shows a group, with its log partition and times; of one group with ``{of_groups}``."""
