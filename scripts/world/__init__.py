"""Random lives of groups on the simulated coordinator, which knows why it did what it did."""
