"""The state of groups that the coordinator needs and the engine does not keep, for each protocol."""
