"""Kafka's partition assignors, of clients and of brokers."""
