"""Times and durations as people type them.

One rule for every command: a time stands for itself (ISO-8601, epoch milliseconds), or is counted from the end of the
log (``-6h``), or names a day or a time of day by the last day of the log (``yesterday``, ``08:34``). Dates mean their
start, and everything is UTC unless a zone is given. Only the tables know where the log ends, so what is counted from
there is read in two steps: ``parse_time`` when it is typed, ``LogTime.resolve`` once the end is known.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from coordinator_replay.errors import UsageError
from coordinator_replay.times import EPOCH

ABSOLUTE_RULE = (
    "2026-11-20T02:13:00Z (UTC where no zone is given), 2026-11-20 (its start) "
    "or epoch milliseconds (12 digits or more)"
)
"""What may be typed where a time must stand for itself."""

RULE = (
    f"{ABSOLUTE_RULE}. Counted from the end of the log: -6h, -1d12h, now (the end itself). "
    'On its last day: 08:34, 08:34:05, today; on the day before: yesterday, "yesterday 08:34".'
)
"""What may be typed where a command takes a time."""

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
_DAYS_BACK = {"today": 0, "yesterday": 1}
_ON_A_DAY = re.compile(r"(?:(today|yesterday)(?:[ T]|$))?(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?")

_SECONDS_DIGITS = range(9, 11)
_MILLISECONDS_DIGITS = 12
"""Epoch milliseconds have 12 digits from 1973 on; of shorter numbers 9 and 10 digits are seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTime:
    """A time that only the end of the log makes one.

    Attributes:
        text: what was typed.
        back: how long before the end of the log; None where a day and a time of day are meant.
        days_back: the day, counted from the last day of the log.
        clock: the time of that day.
    """

    text: str
    back: timedelta | None = None
    days_back: int = 0
    clock: time = time()

    @property
    def is_log_end(self) -> bool:
        """Whether it is the end of the log itself."""
        return self.back == timedelta()

    def resolve(self, end: datetime) -> datetime:
        """The time, given when the log ends.

        Raises:
            UsageError: it lies before the year 1.
        """
        try:
            if self.back is not None:
                return end - self.back
            return datetime.combine(end.astimezone(UTC).date() - timedelta(days=self.days_back), self.clock, UTC)
        except OverflowError:
            raise UsageError(f"invalid time {self.text!r}: it lies too far back") from None


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    >>> parse_duration("1d12h")
    datetime.timedelta(days=1, seconds=43200)

    Raises:
        UsageError: the text is no duration.
    """
    if not _DURATION.fullmatch(text):
        raise UsageError(f"invalid duration {text!r}: write a number and a unit (w, d, h, m, s, ms), as 3d or 1h30m")
    try:
        return sum((int(number) * _UNITS[unit] for number, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        raise UsageError(f"invalid duration {text!r}: it is too long") from None


def _from_digits(text: str, rule: str) -> datetime:
    if len(text) in _SECONDS_DIGITS:
        raise UsageError(f"invalid time {text!r}: write {text}000, in milliseconds, if these are epoch seconds")
    if len(text) < _MILLISECONDS_DIGITS:
        raise UsageError(f"invalid time {text!r}: write {rule}")
    try:
        return EPOCH + timedelta(milliseconds=int(text))
    except OverflowError:
        raise UsageError(
            f"invalid time {text!r}: it lies beyond the year 9999; epoch milliseconds are expected, not micro- or nano-"
        ) from None


def _counted_from_the_end(text: str) -> LogTime | None:
    """What is counted from the end of the log, or names one of its last days; None for everything else."""
    if text == "now":
        return LogTime(text=text, back=timedelta())
    if text.startswith("-"):
        return LogTime(text=text, back=parse_duration(text[1:]))
    on_a_day = _ON_A_DAY.fullmatch(text)
    if on_a_day is None or not text:
        return None
    day, clock = on_a_day.groups()
    return LogTime(
        text=text,
        days_back=_DAYS_BACK[day or "today"],
        clock=time.fromisoformat(clock.zfill(5) if clock.count(":") == 1 else clock.zfill(8)) if clock else time(),
    )


def parse_time(text: str, rule: str = RULE) -> datetime | LogTime:
    """Read a time.

    Args:
        text: what was typed.
        rule: what may be typed, for the message.

    >>> parse_time("2026-11-20T02:13")
    datetime.datetime(2026, 11, 20, 2, 13, tzinfo=datetime.timezone.utc)
    >>> parse_time("1795249940956").isoformat()
    '2026-11-21T08:32:20.956000+00:00'
    >>> parse_time("yesterday 08:34").resolve(datetime(2026, 11, 20, 3, tzinfo=UTC)).isoformat()
    '2026-11-19T08:34:00+00:00'

    Returns:
        The time in UTC, or what becomes one when the end of the log is known.

    Raises:
        UsageError: the text is no time.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return _from_digits(text, rule)
    try:
        counted = _counted_from_the_end(text.lower())
        if counted is not None:
            return counted
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError, UsageError):
        raise UsageError(f"invalid time {text!r}: write {rule}") from None


_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z\+*")


def is_run_id(text: str) -> bool:
    """Whether a text is the id of an audit, which is the time of its beginning in a form of its own.

    >>> is_run_id("20261120T023000.000123Z"), is_run_id("2026-11-20T02:30")
    (True, False)
    """
    return _RUN_ID.fullmatch(text.strip()) is not None


def parse_time_or_run(text: str) -> datetime | LogTime | str:
    """Read a time, or take the id of an audit as it is.

    Raises:
        UsageError: the text is neither.
    """
    return text.strip() if is_run_id(text) else parse_time(text)


def parse_absolute_time(text: str, rule: str = ABSOLUTE_RULE) -> datetime:
    """Read a time that must stand for itself, as in a file that knows nothing of a log's end.

    Args:
        text: what was typed.
        rule: what may be typed, for the message.

    Raises:
        UsageError: the text is no time, or is counted from the end of the log.
    """
    parsed = parse_time(text, rule)
    if isinstance(parsed, LogTime):
        raise UsageError(f"invalid time {text!r}: only the end of a log makes it one; write {rule}")
    return parsed
