"""KIP-848's draft, as far as no release of Kafka has it; ``coordinator.py`` plugs it in, nothing else imports it."""
