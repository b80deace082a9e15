"""Conditions on where a record stands in the log, by log partition and offset."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


class Stretch(NamedTuple):
    """A stretch of the log.

    Attributes:
        log_partition: None for all that no other stretch names.
        first: its first offset.
        end: the offset after its last one; None for the log's end.
        since: its records are not older than this; None for records of any time, and of none.
    """

    log_partition: int | None
    first: int = 0
    end: int | None = None
    since: datetime | None = None


def beyond(ends: Mapping[int, int]) -> list[Stretch]:
    """All that stands at or behind some offsets, by log partition; of one that is not named, everything."""
    return [*(Stretch(partition, end) for partition, end in ends.items()), Stretch(None)]


def lies_in(field: Any, stretches: Sequence[Stretch]) -> Any:
    """Whether a record lies in one of some stretches: a condition.

    Args:
        field: names a column, in the terms of pyarrow (``pc.field``) or Spark (``F.col``).
        stretches: at least one.
    """
    named = sorted({one.log_partition for one in stretches if one.log_partition is not None})

    def of(one: Stretch) -> Any:
        is_there = field("log_partition") == one.log_partition
        if one.log_partition is None:
            is_there = ~field("log_partition").isin(named)
        is_there = is_there & (field("log_offset") >= one.first)
        if one.end is not None:
            is_there = is_there & (field("log_offset") < one.end)
        return is_there if one.since is None else is_there & (field("log_timestamp") >= one.since)

    return reduce(or_, map(of, stretches))


def behind(offsets: Mapping[int, int]) -> Column:
    """Whether a record stands at or behind an offset of its log partition; never in one that is not named."""
    stretches = [Stretch(one, at) for one, at in offsets.items()]
    return lies_in(F.col, stretches) if stretches else F.lit(False)
