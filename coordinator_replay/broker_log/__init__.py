"""Logs of brokers: the layouts of their lines, and what the group coordinator writes in them. No I/O, no Spark."""
