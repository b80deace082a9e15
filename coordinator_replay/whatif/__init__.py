"""The old name of what-if, kept for one release."""
