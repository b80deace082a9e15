"""SQL that finds all rows of a group: of its records, of its committed offsets, and of its pending commits."""

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
"""Rows that show a group, each with its log partition, its times and its log offset (``place``). ``own_place`` is the
log offset of a record of the group itself; null in rows of offsets. ``{of_groups}`` limits the rows to some groups."""
