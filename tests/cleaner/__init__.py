"""A model of Kafka's log cleaner: what it leaves of a recorded log, and what a copy of the folder then holds."""
