"""The old import path of what-if, kept for one release."""
