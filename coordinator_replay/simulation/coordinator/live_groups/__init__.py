"""Groups as the coordinator keeps them beside their records, of each protocol; the shard has them."""
