"""The largest number of a 64-bit integer, which stands for "no bound" wherever offsets and times have one."""

LARGEST_INT64 = 2**63 - 1
"""Lies behind every offset and time."""
