"""Consumer groups of KIP-848 with members of either protocol, and conversions between classic and consumer groups."""
