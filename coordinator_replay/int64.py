"""The largest 64-bit integer, which means "no bound" for offsets and times."""

LARGEST_INT64 = 2**63 - 1
"""A number above every offset and time."""
