"""Kafka's partition assignors: those of clients and those of brokers."""
