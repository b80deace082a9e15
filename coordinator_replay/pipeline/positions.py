"""Conditions on where a record stands in the log, by log partition and offset."""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of some conditions holds; with none, it never does."""
    return reduce(Column.__or__, conditions, F.lit(False))


def behind(offsets: Mapping[int, int]) -> Column:
    """Whether a record stands at or behind an offset of its log partition; never in one that is not named."""
    return any_of((F.col("log_partition") == one) & (F.col("log_offset") >= at) for one, at in offsets.items())


def within(stretches: Iterable[tuple[int, int, int]]) -> Column:
    """Whether a record stands in one of some stretches: log partition, first offset, and the one after the last."""
    return any_of(
        (F.col("log_partition") == one) & (F.col("log_offset") >= start) & (F.col("log_offset") < end)
        for one, start, end in stretches
    )
