"""Kafka's group coordinator simulated, and what-if: a recorded group run again under other settings."""
