"""State of groups in addition to their records, for each protocol; the shard keeps it."""
