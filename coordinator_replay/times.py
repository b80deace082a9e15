"""Times of records, and which of them can be shown.

Kafka writes milliseconds since 1970, and -1 for no time. A record can also hold any other number, but not every reader
of the tables can show times outside the years 1970 to 9999. Python's calendar ends with the year 9999, and Spark,
DuckDB and pandas differ in times before 1970. So a column of times has null for such a number. A field that is kept as
JSON keeps the number.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def shown_ms(at_ms: int | None) -> int | None:
    """Return a time in milliseconds; None if it can't be shown.

    >>> shown_ms(1795249931062), shown_ms(-1), shown_ms(2**62), shown_ms(None)
    (1795249931062, None, None, None)
    """
    return at_ms if at_ms is not None and 0 <= at_ms <= LATEST_MS else None


def moment_of_ms(at_ms: int | None) -> datetime | None:
    """Return a time in milliseconds as a datetime in UTC; None if it can't be shown."""
    return None if shown_ms(at_ms) is None else EPOCH + timedelta(milliseconds=at_ms or 0)


def elapsed_ms(since_ms: int | None, until_ms: int | None) -> int | None:
    """Return the milliseconds from one time to another; None if one of the two times is not on record.

    >>> elapsed_ms(3, 5), elapsed_ms(None, 5)
    (2, None)
    """
    return None if since_ms is None or until_ms is None else until_ms - since_ms


def time_order(at_ms: int | None) -> int:
    """Return a sort key for times of a group's events. Events without a time come first."""
    return -1 if at_ms is None else at_ms


def latest_ms(one_ms: int | None, other_ms: int | None) -> int | None:
    """Return the later of two times.

    If only one is on record, return that time; None if neither is.

    >>> latest_ms(3, 5), latest_ms(None, 5), latest_ms(None, None)
    (5, 5, None)
    """
    if one_ms is None or other_ms is None:
        return other_ms if one_ms is None else one_ms
    return max(one_ms, other_ms)


def in_utc(moment: datetime) -> datetime:
    """Return a time in UTC.

    A time without a zone is taken as UTC.
    """
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def moment_text(moment: datetime, zone: tzinfo = UTC) -> str:
    """Return a time in a zone as ISO-8601 text, in a form that every command accepts.

    >>> moment_text(datetime(2026, 11, 20, 2, 13))
    '2026-11-20T02:13:00.000Z'
    """
    precision = "milliseconds" if moment.microsecond % 1000 == 0 else "microseconds"
    text = in_utc(moment).astimezone(zone).isoformat(timespec=precision)
    return text.replace("+00:00", "Z") if zone is UTC else text


_MOMENT = re.compile(r"(?<![\w.-])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z(?![\w-])")


def moments_in_zone(text: str, zone: tzinfo) -> str:
    """Return a sentence with its times converted from UTC to a zone.

    >>> from datetime import timezone
    >>> moments_in_zone("since 2026-11-20T02:13:00Z", timezone(timedelta(hours=1)))
    'since 2026-11-20T03:13:00+01:00'
    """
    if zone is UTC:
        return text

    def shown(match: re.Match[str]) -> str:
        fraction = match[0].partition(".")[2].rstrip("Z")
        precision = {0: "seconds", 3: "milliseconds"}.get(len(fraction), "microseconds")
        try:
            return datetime.fromisoformat(match[0]).astimezone(zone).isoformat(timespec=precision)
        except (ValueError, OverflowError):
            return match[0]

    return _MOMENT.sub(shown, text)


def time_text(at_ms: int | None) -> str:
    """Return a time in milliseconds as text for a sentence; a number beyond the calendar stays a number.

    >>> time_text(1795249931062), time_text(2**62), time_text(None)
    ('2026-11-21T08:32:11.062Z', '4611686018427387904 ms', 'an unknown time')
    """
    if at_ms is None:
        return "an unknown time"
    moment = moment_of_ms(at_ms)
    return f"{at_ms} ms" if moment is None else moment_text(moment)


_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


def milliseconds(moment: datetime) -> int:
    """Return a time as whole milliseconds since 1970, rounded down.

    >>> milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC))
    1000
    """
    return (moment - EPOCH) // _MILLISECOND


def microseconds(moment: datetime) -> int:
    """Return a time as microseconds since 1970.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC))
    1000999
    """
    return (moment - EPOCH) // _MICROSECOND


def moment_of_us(at_us: int | None) -> datetime | None:
    """Return a time in microseconds as a datetime in UTC; None if it can't be shown."""
    if at_us is None or shown_ms(at_us // 1000) is None:
        return None
    return EPOCH + timedelta(microseconds=at_us)


LATEST = EPOCH + timedelta(milliseconds=LATEST_MS)

_EARLIEST = datetime.min.replace(tzinfo=UTC)


def later(moment: datetime, by_ms: int) -> datetime:
    """Return the time that lies some milliseconds after another time, or before it if the number is negative.

    A time outside Python's calendar becomes ``LATEST`` or the first time of the calendar.

    >>> later(LATEST, 1) == LATEST
    True
    """
    try:
        return min(moment + timedelta(milliseconds=by_ms), LATEST)
    except OverflowError:
        return LATEST if by_ms > 0 else _EARLIEST


_LENGTHS = (
    *(timedelta(milliseconds=count) for count in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(timedelta(seconds=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28, 91, 364, 3640, 36_400)),
)
"""Lengths of time that people count in."""


def round_length(length: timedelta, most: int, least: timedelta = _LENGTHS[0]) -> timedelta:
    """Return the shortest round length of time that divides a range into at most ``most`` intervals.

    Round lengths are, for example, 5 minutes or a day. If none is long enough, return the longest.

    Args:
        length: the length of the range.
        most: the largest number of intervals.
        least: the shortest length that may be returned.

    >>> print(round_length(timedelta(hours=1), 12), round_length(timedelta(days=8), 8), sep="; ")
    0:05:00; 1 day, 0:00:00
    """
    return next((step for step in _LENGTHS if step >= least and length <= step * most), _LENGTHS[-1])


def duration(length_ms: int | None) -> str:
    """Return a duration as text in one unit. None is ``not known``.

    >>> duration(415), duration(5000), duration(300_000)
    ('415 ms', '5.0 s', '5.0 min')
    """
    if length_ms is None:
        return "not known"
    seconds = length_ms / 1000
    if seconds < 1:
        return f"{length_ms} ms"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size * 2:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def duration_within(least_ms: int | None, most_ms: int | None) -> str | None:
    """Return the bounds of a duration as text; None if there is no bound.

    A lower bound of 0 counts as no bound. The text rounds a lower bound down and an upper bound up.

    >>> duration_within(9, 2849), duration_within(9, None), duration_within(0, 2849), duration_within(0, None)
    ('9 ms to 2.9 s', 'at least 9 ms', 'at most 2.9 s', None)
    """
    least = duration(least_ms // _step(least_ms) * _step(least_ms)) if least_ms else None
    most = None if most_ms is None else duration(-(-most_ms // _step(most_ms)) * _step(most_ms))
    if least is None or most is None:
        return f"at least {least}" if least else f"at most {most}" if most else None
    return least if least_ms == most_ms else f"{least} to {most}"


def _step(length_ms: int) -> int:
    """Return the step, in milliseconds, to which ``duration`` rounds a length, such as 100 for 4,321 ms."""
    return 1 if length_ms < 1000 else 100 if length_ms < 120_000 else 6000
