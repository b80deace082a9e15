"""State of groups that the coordinator keeps in addition to their records, for each protocol; the shard has it."""
