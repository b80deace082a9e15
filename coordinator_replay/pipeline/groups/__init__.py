"""Groups of a bucket: the replay of their records, members' last commits, and the topics that the records name."""
