"""Times and durations as people type them.

All commands accept three kinds of times:

- an absolute time (ISO-8601, epoch milliseconds),
- a time before the end of the log (``-6h``),
- a day or time of day relative to the last day of the log (``yesterday``, ``08:34``).

A date means the start of the day. As the end of a time range, a date means the end of the day. A time without a time
zone is in UTC, unless the user chose another zone.

Relative times are read in two steps, because only the tables know the end of the log. ``parse_time`` makes a
``LogTime`` from the text, and ``LogTime.resolve`` makes an absolute time from it.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from coordinator_replay.errors import UsageError
from coordinator_replay.times import EPOCH
from coordinator_replay.zones import ClockChangeError, parse_zone, start_of_day, utc_of

ABSOLUTE_RULE = (
    "2026-11-20T02:13:00Z (in UTC if no zone is given), 2026-11-20 (the start of that day) "
    "or epoch milliseconds (12 digits or more)"
)
"""Ways to write an absolute time, for messages and help."""

_FORMS = (
    '2026-11-20T02:13:00Z, 20.11.2026 02:13, "2026-11-20 02:13 Europe/Berlin" or "2026-11-20 02:13 CET", 2026-11-20 '
    "({day}), or epoch milliseconds (12 digits or more). A time without a zone is in the zone of --zone, or in UTC. "
    'Counted from the end of the log: -6h, -1d12h, "6 hours ago", now (the end). On the last day of the log: 08:34, '
    '08:34:05, today. On the day before: yesterday, "yesterday 08:34".'
)

RULE = _FORMS.format(day="the start of that day")
"""Ways to write a time in commands, for messages and help."""

RANGE_RULE = _FORMS.format(day="the start of that day; in --to and --until its end")
"""Ways to write a time in commands that ask about a time range, for messages and help."""

ADVICE = (
    "2026-11-20T02:13:00Z, -6h (before the end of the log), 08:34 (on its last day), yesterday, "
    "or epoch milliseconds (12 digits or more); --help has every form"
)
"""Advice in a message about a wrong time."""

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_DURATION = re.compile(r"(?:[0-9]+(?:ms|[wdhms]))+")
_PART = re.compile(r"([0-9]+)(ms|[wdhms])")
_WORDS = re.compile(
    r"([0-9]+)\s*(weeks?|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|[wdhms])\b,?\s*(?:and\s+)?", re.IGNORECASE
)
_AGO = re.compile(r"(.+?)\s+ago", re.IGNORECASE)
_DAYS_BACK = {"today": 0, "yesterday": 1}
_ON_A_DAY = re.compile(r"(?:(today|yesterday)(?:[ T]|$))?(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?")
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:,?[ T]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?")
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(.*)")
_CLOCK_WITH_DOT = re.compile(r"(\d{1,2})\.(\d{2})")
_ZONED = re.compile(r"(.*\d.*?)\s+([A-Za-z]{2,5}|[A-Za-z_]+/[A-Za-z_+/-]+|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?)")

_DAY = re.compile(r"today|yesterday|\d{4}-\d{2}-\d{2}|\d{4}-W\d{2}-\d|\d{1,2}\.\d{1,2}\.\d{4}", re.IGNORECASE)

_SECONDS_DIGITS = range(9, 11)
_MILLISECONDS_DIGITS = 12
"""A number with this many digits or more is in epoch milliseconds, from 1973 on. With 9 or 10 digits, it is in
seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTime:
    """A time relative to the end of the log.

    Attributes:
        text: the text that the user typed.
        back: duration before the end of the log; None if the user typed a day or a time of day. If ``back`` is not
            None, the fields below are not used.
        days_back: number of days before the last day of the log: 0 for the last day, 1 for the day before, -1 for the
            day after.
        clock: the time of day; None for the start of the day.
        zone: the time zone of the day and of the time of day.
    """

    text: str
    back: timedelta | None = None
    days_back: int = 0
    clock: time | None = None
    zone: tzinfo = UTC

    @property
    def is_log_end(self) -> bool:
        """Return whether the time is the end of the log itself."""
        return self.back == timedelta()

    def resolve(self, end: datetime) -> datetime:
        """Return the absolute time, given the end of the log.

        Raises:
            UsageError: the time lies before the year 1, or clocks show it twice or never.
        """
        try:
            if self.back is not None:
                return end - self.back
            day = end.astimezone(self.zone).date() - timedelta(days=self.days_back)
            if self.clock is None:
                return start_of_day(day, self.zone)
            return utc_of(datetime.combine(day, self.clock), self.zone)
        except OverflowError:
            raise UsageError(f"invalid time {self.text!r}: it lies too far back") from None


def parse_duration(text: str) -> timedelta:
    """Read a duration, which may have several units.

    >>> parse_duration("1d12h")
    datetime.timedelta(days=1, seconds=43200)
    >>> parse_duration("6 hours")
    datetime.timedelta(seconds=21600)

    Raises:
        UsageError: the text is no duration.
    """
    typed = text
    text = _WORDS.sub(lambda part: f"{part[1]}{part[2][0].lower()}", text.strip())
    if not _DURATION.fullmatch(text):
        hint = f"; {typed}d, if these are days" if typed.isascii() and typed.isdigit() else ""
        raise UsageError(
            f"invalid duration {typed!r}: write a number and a unit (w, d, h, m, s, ms), as 3d or 1h30m{hint}"
        )
    try:
        return sum((int(number) * _UNITS[unit] for number, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        raise UsageError(f"invalid duration {typed!r}: it is too long") from None


def _from_digits(text: str, rule: str) -> datetime:
    if len(text) in _SECONDS_DIGITS:
        raise UsageError(f"invalid time {text!r}: write {text}000, in milliseconds, if these are epoch seconds")
    if len(text) < _MILLISECONDS_DIGITS:
        is_count = len(text) < 3 and rule == ADVICE
        blanks = f'. A time with blanks, such as "{text} hours ago", must stand in quotes' if is_count else ""
        raise UsageError(f"invalid time {text!r}: write {rule}{blanks}")
    try:
        return EPOCH + timedelta(milliseconds=int(text))
    except OverflowError:
        raise UsageError(
            f"invalid time {text!r}: it lies beyond the year 9999; epoch milliseconds are expected, not micro- or nano-"
        ) from None


def _counted_from_the_end(text: str, zone: tzinfo) -> LogTime | None:
    """Read a time relative to the end of the log, such as ``-6h``, ``6 hours ago`` or ``yesterday 08:34``.

    Return None for texts in other forms.
    """
    if text == "now":
        return LogTime(text=text, back=timedelta())
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return LogTime(text=text, back=parse_duration(re.sub(r"^an?\s+", "1 ", ago[1].removeprefix("-"))))
    if text.startswith("-"):
        return LogTime(text=text, back=parse_duration(text[1:]))
    if _DURATION.fullmatch(text):
        return LogTime(text=text, back=parse_duration(text))
    on_a_day = _ON_A_DAY.fullmatch(text)
    if on_a_day is None or not text:
        return None
    day, clock = on_a_day.groups()
    return LogTime(text=text, days_back=_DAYS_BACK[day or "today"], clock=_clock(clock), zone=zone)


def _clock(text: str | None) -> time | None:
    """Return a time of day, whose hour may have one digit.

    If there is no text, return None.
    """
    if not text:
        return None
    return time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text.zfill(8))


def _absolute(text: str, zone: tzinfo) -> datetime:
    """Read an absolute time, and return it in UTC. A time without an offset from UTC is in the time zone ``zone``."""
    dotted = _DOTTED.fullmatch(text)
    if dotted is not None:
        day, month, year, written = dotted.groups()
        on, clock = date(int(year), int(month), int(day)), _clock(written)
        return start_of_day(on, zone) if clock is None else utc_of(datetime.combine(on, clock), zone)
    if _DAY.fullmatch(text) is not None:
        return start_of_day(date.fromisoformat(text), zone)
    parsed = datetime.fromisoformat(text)
    return utc_of(parsed, zone) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _in_own_zone(text: str, zone: tzinfo) -> tuple[str, tzinfo]:
    """Return two values: the text of a time without its zone, and the zone.

    If the text names no zone, return the whole text and the given zone.

    Raises:
        UsageError: there is no zone of that name.
    """
    zoned = _ZONED.fullmatch(text)
    if zoned is None or zoned[2].lower() == "ago":
        return text, zone
    return zoned[1], parse_zone(zoned[2])


def _form_that_works(text: str) -> str | None:
    """Suggest another form for a time that a user typed: ``2026-11-20`` for ``11/20/2026``, or ``8:34`` for ``8.34``.

    If the text may mean two dates, suggest both dates. If the text looks like a date, but is no date, return an empty
    text. Return None for all texts except dates with slashes and times of day with a dot.
    """
    if (slashed := _SLASHED.fullmatch(text)) is not None:
        first, second, year, rest = slashed.groups()
        months = [(month, day) for month, day in ((first, second), (second, first)) if int(month) <= 12]
        dates = dict.fromkeys(f"{year}-{month:>02}-{day:>02}{rest}" for month, day in months)
        written = " or ".join(f'"{date}"' if " " in date else date for date in dates)
        return written if rest or not written else f"{written}, and a time of day with it in quotes"
    if (clock := _CLOCK_WITH_DOT.fullmatch(text)) is not None:
        return f"{clock[1]}:{clock[2]}, if this is a time of the log's last day"
    return None


def parse_time(text: str, rule: str = ADVICE, zone: tzinfo = UTC) -> datetime | LogTime:
    """Read a time that a user typed: an absolute time, or a time relative to the end of the log.

    Args:
        text: the text that the user typed.
        rule: the ways to write a time, for the error message.
        zone: the zone of a time without a zone.

    >>> parse_time("2026-11-20T02:13")
    datetime.datetime(2026, 11, 20, 2, 13, tzinfo=datetime.timezone.utc)
    >>> parse_time("1795249940956").isoformat()
    '2026-11-21T08:32:20.956000+00:00'
    >>> parse_time("20.11.2026 02:13 CET").isoformat()
    '2026-11-20T01:13:00+00:00'
    >>> parse_time("yesterday 08:34").resolve(datetime(2026, 11, 20, 3, tzinfo=UTC)).isoformat()
    '2026-11-19T08:34:00+00:00'

    Returns:
        The time in UTC, or a time relative to the end of the log.

    Raises:
        UsageError: the text is no time, or clocks show this time twice or never.
    """
    typed = text = text.strip()
    if text.isascii() and text.isdigit():
        return _from_digits(text, rule)
    try:
        text, zone = _in_own_zone(text, zone)
        counted = _counted_from_the_end(text.lower(), zone)
        return _absolute(text, zone) if counted is None else counted
    except ClockChangeError:
        raise
    except (ValueError, OverflowError, UsageError):
        raise UsageError(f"invalid time {typed!r}: write {_form_that_works(typed) or rule}") from None


def parse_end_time(text: str, rule: str = ADVICE, zone: tzinfo = UTC) -> datetime | LogTime:
    """Read the end of a time range.

    If the end is a day without a time of day, this day belongs to the range.

    Args:
        text: the text that the user typed.
        rule: the accepted forms, for the message.
        zone: the zone of a time without a zone.

    >>> parse_end_time("2026-11-20").isoformat(), parse_end_time("2026-11-20T00:00").isoformat()
    ('2026-11-21T00:00:00+00:00', '2026-11-20T00:00:00+00:00')
    >>> parse_end_time("yesterday").resolve(datetime(2026, 11, 20, 3, tzinfo=UTC)).isoformat()
    '2026-11-20T00:00:00+00:00'

    Raises:
        UsageError: the text is no time.
    """
    parsed = parse_time(text, rule, zone)
    day, zone = _in_own_zone(text.strip(), zone)
    if _DAY.fullmatch(day) is None:
        return parsed
    if isinstance(parsed, LogTime):
        return replace(parsed, days_back=parsed.days_back - 1)
    try:
        return end_of_day(parsed.astimezone(zone).date(), zone)
    except OverflowError:
        raise UsageError(f"invalid time {text!r}: the day after it lies beyond the year 9999") from None


def end_of_day(day: date, zone: tzinfo) -> datetime:
    """Return the end of a day in a zone, which is the start of the next day."""
    return start_of_day(day + timedelta(days=1), zone)


_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z\+*")


def is_run_id(text: str) -> bool:
    """Return whether a text is the id of an audit.

    An id is the time at which the audit began, in a special form.

    >>> is_run_id("20261120T023000.000123Z"), is_run_id("2026-11-20T02:30")
    (True, False)
    """
    return _RUN_ID.fullmatch(text.strip()) is not None


def parse_time_or_run(text: str, zone: tzinfo = UTC) -> datetime | LogTime | str:
    """Read a time or the id of an audit. An id is returned unchanged.

    Args:
        text: the text that the user typed.
        zone: the zone of a time without a zone.

    Raises:
        UsageError: the text is neither a time nor an id.
    """
    return text.strip() if is_run_id(text) else parse_time(text, zone=zone)


def parse_absolute_time(text: str, rule: str = ABSOLUTE_RULE, zone: tzinfo = UTC) -> datetime:
    """Read an absolute time. A time relative to the end of the log is an error.

    Args:
        text: the text that the user typed.
        rule: the accepted forms, for the message.
        zone: the zone of a time without a zone.

    Raises:
        UsageError: the text is no time, or a time relative to the end of the log.
    """
    parsed = parse_time(text, rule, zone)
    if isinstance(parsed, LogTime):
        raise UsageError(
            f"invalid time {text!r}: it is relative to the end of a log, which can't be used here; write {rule}"
        )
    return parsed
