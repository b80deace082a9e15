"""Stages for brokers' logs: read their lines about groups and log partitions, and add facts to rebalances."""
