"""Logs of brokers: layouts of lines, and the messages of the group coordinator. No I/O, no Spark."""
