"""Random lives of groups on the simulated coordinator, which reports the trigger of each of its actions."""
