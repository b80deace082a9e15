"""Logs of brokers: their lines about groups and log partitions, and what these add to rebalances."""
