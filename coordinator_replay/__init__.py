"""Replays dumps of Kafka's ``__consumer_offsets`` topic."""

__version__ = "0.1.0"
