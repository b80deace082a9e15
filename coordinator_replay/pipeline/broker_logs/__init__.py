"""Logs of brokers: lines about groups and log partitions, and their additions to rebalances."""
