"""Facts of brokers' logs: what their lines say about causes, removed offsets and rebalances that no record shows."""
