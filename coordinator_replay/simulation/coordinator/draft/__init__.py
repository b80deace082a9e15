"""The parts of KIP-848's draft that no release of Kafka has. Only ``coordinator.py`` imports this package."""
