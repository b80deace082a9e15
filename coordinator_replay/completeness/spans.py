"""Spans: the time ranges of a log partition in which no record is missing.

Only spans prove when a state began or ended. Outside of the spans, records may be missing. So a state that
seems to begin there may have begun earlier, and a state that seems to end there may have gone on.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.times import milliseconds


class ExactSpan(NamedTuple):
    """A time range in which no record of a log partition is missing.

    Attributes:
        after_ms: the time of the span's first record. Other records of this time may be missing. -1 for the start of
            the log.
        to_ms: the time of the span's last record.
    """

    log_partition: int
    after_ms: int
    to_ms: int


def spans_of(partition: int, ranges: Sequence[CompleteRange]) -> Iterator[ExactSpan]:
    """Yield the time ranges in which no record of a log partition is missing, one for each complete range.

    Yield nothing if no record is missing at all.

    Args:
        partition: the log partition.
        ranges: complete ranges of the log partition, with their times.
    """
    if not ranges or (len(ranges) == 1 and ranges[0].exact_from_offset == 0 == ranges[0].from_offset):
        return
    for number, span in enumerate(ranges, 1):
        since, until = span.exact_from_timestamp, span.to_timestamp
        after_ms = LARGEST_INT64 if since is None else milliseconds(since)
        to_ms = -1 if until is None else milliseconds(until)
        from_start, is_last = span.exact_from_offset == 0, number == len(ranges)
        yield ExactSpan(partition, -1 if from_start else after_ms, LARGEST_INT64 if is_last else to_ms)


def is_begin_proven(spans: Sequence[ExactSpan], at_ms: int | None, *, recurs: bool, joins_ms: int = 0) -> bool:
    """Return whether the log proves that a condition did not hold before the time at which it is first seen.

    Args:
        spans: the spans of the log partition; empty if no record is missing.
        at_ms: the time at which the condition is first seen; None if no record has a time.
        recurs: whether the condition can hold several times, such as a state that a group enters again and again.
        joins_ms: two times in which the condition held count as one if the pause between them is at most this long.

    >>> spans = [ExactSpan(0, -1, 50), ExactSpan(0, 70, 90)]
    >>> [is_begin_proven(spans, at_ms, recurs=False) for at_ms in (50, 60, 70, 71)]
    [True, False, False, True]
    >>> is_begin_proven(spans, 71, recurs=True), is_begin_proven([], 71, recurs=True)
    (False, True)
    """
    if not spans:
        return True
    if at_ms is None:
        return False
    own = [span for span in spans if span.after_ms < at_ms <= span.to_ms]
    return any(span.after_ms < 0 or (not recurs and span.after_ms < at_ms - joins_ms) for span in own)


def is_all_proven(
    spans: Sequence[ExactSpan],
    first_ms: int | None,
    last_ms: int | None,
    *,
    recurs: bool = False,
    joins_ms: int = 0,
    goes_on_ms: int = 0,
) -> bool:
    """Return whether no record is missing about a condition that held from one time to another.

    If the condition held twice with a short pause between, the two times count as one. So records shortly before and
    after must not be missing either.

    Args:
        spans: the spans of the log partition; empty if no record is missing.
        first_ms: the time from which the condition held; None if no record has a time.
        last_ms: the time until which the condition held; None if no record has a time.
        recurs: whether all times in which the condition held count as one, however long the pauses between them.
        joins_ms: two times in which the condition held count as one if the pause between them is at most this long.
        goes_on_ms: a later time in which the condition held counts as one with this time if the pause between them is
            at most this long.

    >>> spans = [ExactSpan(0, -1, 50), ExactSpan(0, 70, 90)]
    >>> [is_all_proven(spans, first_ms, 80) for first_ms in (40, 70, 71)]
    [False, False, True]
    >>> [is_all_proven(spans, 40, 45, goes_on_ms=goes_on_ms) for goes_on_ms in (5, 6)]
    [True, False]
    >>> is_all_proven(spans, 40, 45, recurs=True)
    False
    """
    if not spans:
        return True
    if first_ms is None or last_ms is None:
        return False
    until_ms = LARGEST_INT64 if recurs else last_ms + max(joins_ms, goes_on_ms)
    own = [span for span in spans if until_ms <= span.to_ms]
    return any(span.after_ms < 0 or span.after_ms < first_ms - joins_ms for span in own)


def is_end_proven(spans: Sequence[ExactSpan], at_ms: int | None) -> bool:
    """Return whether a condition that was last seen at a time is proven to have ended at that time.

    Args:
        spans: the spans of the log partition; empty if no record is missing.
        at_ms: the time; None if no record has a time.

    >>> spans = [ExactSpan(0, -1, 50), ExactSpan(0, 70, 90)]
    >>> [is_end_proven(spans, at_ms) for at_ms in (49, 50, 60, 70)]
    [True, False, False, True]
    """
    return not spans or (at_ms is not None and any(span.after_ms <= at_ms < span.to_ms for span in spans))
