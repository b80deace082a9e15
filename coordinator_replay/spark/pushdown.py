"""Filters by log partition and log offset, with which the data source skips files and batches."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator_replay.int64 import LARGEST_INT64

if TYPE_CHECKING:
    # Spark has filters from 4.1 on; before that nothing is pushed down.
    from pyspark.sql.datasource import Filter


@dataclass(frozen=True, slots=True)
class Range:
    """The integers from ``first`` to ``last``, including ``first`` and ``last``."""

    first: int = 0
    last: int = LARGEST_INT64

    def both(self, other: "Range") -> "Range":
        """Return the numbers that are in both ranges."""
        return Range(max(self.first, other.first), min(self.last, other.last))


def _range_of(condition: "Filter") -> Range | None:
    """Return the range to which a filter limits its column; None for a filter that sets no bound.

    For a list of numbers (``IN``), the range goes from the lowest to the highest number.
    """
    # A filter is recognised by the name of its class, because the classes are missing in Spark 4.0.
    value: Any = getattr(condition, "value", None)
    match type(condition).__name__, value:
        case "EqualTo", int():
            return Range(value, value)
        case "GreaterThan", int():
            return Range(first=value + 1)
        case "GreaterThanOrEqual", int():
            return Range(first=value)
        case "LessThan", int():
            return Range(last=value - 1)
        case "LessThanOrEqual", int():
            return Range(last=value)
        case "In", [_, *_] if all(isinstance(each, int) for each in value):
            return Range(min(value), max(value))
    return None


@dataclass(frozen=True, slots=True)
class PositionFilter:
    """The part of the log that a query asks for.

    Attributes:
        log_partitions: the lowest and highest log partition.
        chosen: the log partitions that the query lists (``IN``); None if the query has no list.
        log_offsets: the lowest and highest log offset.
    """

    log_partitions: Range = Range()
    chosen: frozenset[int] | None = None
    log_offsets: Range = Range()

    @classmethod
    def of(cls, filters: "Iterable[Filter]") -> "PositionFilter":
        """Return the part of the log that remains after all filters.

        Only bounds of ``log_partition`` and ``log_offset`` count. Other filters are left to Spark.

        >>> from pyspark.sql.datasource import EqualTo, LessThan
        >>> PositionFilter.of([EqualTo(("log_partition",), 3), LessThan(("log_offset",), 10)])
        PositionFilter(log_partitions=Range(first=3, last=3), chosen=None, log_offsets=Range(first=0, last=9))
        """
        partitions, offsets, chosen = Range(), Range(), None
        for condition in filters:
            attribute, bound = getattr(condition, "attribute", None), _range_of(condition)
            if bound is None:
                continue
            if attribute == ("log_offset",):
                offsets = offsets.both(bound)
            elif attribute == ("log_partition",):
                partitions = partitions.both(bound)
                if type(condition).__name__ == "In":
                    listed = frozenset[int](getattr(condition, "value", ()))
                    chosen = listed if chosen is None else chosen & listed
        return cls(partitions, chosen, offsets)

    def has_partition(self, log_partition: int) -> bool:
        """Return whether the query asks for a log partition."""
        is_within = self.log_partitions.first <= log_partition <= self.log_partitions.last
        return is_within and (self.chosen is None or log_partition in self.chosen)

    def meets(self, first: int, behind: int) -> bool:
        """Return whether the query asks for a log offset in a range.

        Args:
            first: the first log offset of the range.
            behind: the log offset after the last one of the range.
        """
        return first <= self.log_offsets.last and behind > self.log_offsets.first

    def skipped(self) -> list[tuple[int, int]]:
        """Return the ranges of log offsets that the query does not ask for, as first and last offset."""
        first, last = self.log_offsets.first, self.log_offsets.last
        before = [(0, first - 1)] if first > 0 else []
        return before + ([(max(last, -1) + 1, LARGEST_INT64)] if last < LARGEST_INT64 else [])
