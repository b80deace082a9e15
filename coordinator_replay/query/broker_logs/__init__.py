"""Use of brokers' logs in answers: events of groups, and rebalances in progress, which leave no record."""
