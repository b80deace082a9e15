"""Times as records hold them, and which of them can be shown.

Kafka writes milliseconds since 1970, and -1 for none. A record can hold any other number too, and only the years 1970
to 9999 can be shown by every reader of the tables: Python's calendar ends there, and Spark, DuckDB and pandas read
times before 1970 each in their own way. Any other number is null wherever a column holds a time; fields that are kept
as JSON keep the number itself.
"""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def shown_ms(at_ms: int | None) -> int | None:
    """A time in milliseconds; None where it can't be shown.

    >>> shown_ms(1795249931062), shown_ms(-1), shown_ms(2**62), shown_ms(None)
    (1795249931062, None, None, None)
    """
    return at_ms if at_ms is not None and 0 <= at_ms <= LATEST_MS else None


def moment_of_ms(at_ms: int | None) -> datetime | None:
    """A time in milliseconds as a moment in UTC; None where it can't be shown."""
    return None if shown_ms(at_ms) is None else EPOCH + timedelta(milliseconds=at_ms or 0)


_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


def milliseconds(moment: datetime) -> int:
    """A moment as whole milliseconds since 1970.

    >>> milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC))
    1000
    """
    return (moment - EPOCH) // _MILLISECOND


def microseconds(moment: datetime) -> int:
    """A moment as microseconds since 1970.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC))
    1000999
    """
    return (moment - EPOCH) // _MICROSECOND


def moment_of_us(at_us: int | None) -> datetime | None:
    """A time in microseconds as a moment in UTC; None where it can't be shown."""
    if at_us is None or shown_ms(at_us // 1000) is None:
        return None
    return EPOCH + timedelta(microseconds=at_us)


LATEST = EPOCH + timedelta(milliseconds=LATEST_MS)

_EARLIEST = datetime.min.replace(tzinfo=UTC)


def later(moment: datetime, by_ms: int) -> datetime:
    """A moment so many milliseconds later, or earlier where that is negative, as far as the calendar goes.

    >>> later(LATEST, 1) == LATEST
    True
    """
    try:
        return min(moment + timedelta(milliseconds=by_ms), LATEST)
    except OverflowError:
        return LATEST if by_ms > 0 else _EARLIEST
