"""Lines of brokers' logs that answers show: events of groups, and join phases that leave no record."""
