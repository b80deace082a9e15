"""The state of groups that is not in their records, for each protocol. The shard keeps this state."""
