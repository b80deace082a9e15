"""Logs of brokers: layouts of lines, and messages of the coordinator. This package opens no log, and needs no Spark."""
