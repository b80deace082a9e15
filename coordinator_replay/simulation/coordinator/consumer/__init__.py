"""Consumer groups of KIP-848, with members of either protocol, and the ways between classic and consumer groups."""
