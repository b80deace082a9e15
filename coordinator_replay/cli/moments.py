"""Moments and durations as people type them.

A moment is ISO-8601 (without zone: UTC), epoch milliseconds, ``now``, or so long before now (``-6h``, ``-1d12h``).
A duration is the same without the sign (``3d``).
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from coordinator_replay.errors import UsageError

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

_FEWEST_DIGITS = 12
"""Epoch milliseconds have 12 digits from 1973 on; shorter numbers are seconds, or dates without dashes."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    >>> parse_duration("1d12h")
    datetime.timedelta(days=1, seconds=43200)

    Raises:
        UsageError: the text is no duration.
    """
    if not _DURATION.fullmatch(text):
        raise UsageError(f"{text!r} is no duration: write a number and a unit (w, d, h, m, s, ms), as 3d or 1h30m")
    try:
        return sum((int(number) * _UNITS[unit] for number, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        raise UsageError(f"{text!r} is too long a duration") from None


def _from_digits(text: str) -> datetime:
    if len(text) < _FEWEST_DIGITS:
        raise UsageError(
            f"{text!r} is too small for epoch milliseconds: write {text}000 if these are seconds, "
            f"and a date with dashes (2026-11-20)"
        )
    try:
        return _EPOCH + timedelta(milliseconds=int(text))
    except OverflowError:
        raise UsageError(
            f"{text!r} lies beyond the year 9999: epoch milliseconds are meant, not micro- or nano-"
        ) from None


def parse_moment(text: str, now: datetime | None = None) -> datetime:
    """Read a moment.

    >>> parse_moment("2026-11-20T02:13")
    datetime.datetime(2026, 11, 20, 2, 13, tzinfo=datetime.timezone.utc)
    >>> parse_moment("1795249940956").isoformat()
    '2026-11-21T08:32:20.956000+00:00'

    Args:
        text: what was typed.
        now: what relative moments count from; the clock if None.

    Returns:
        The moment in UTC.

    Raises:
        UsageError: the text is no moment.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return _from_digits(text)
    try:
        if text.startswith("-") or text == "now":
            back = timedelta() if text == "now" else parse_duration(text[1:])
            return (now or datetime.now(UTC)) - back
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError, UsageError):
        raise UsageError(
            f"{text!r} is no moment: write 2026-11-20T02:13:00Z (without zone it is UTC), epoch milliseconds, "
            f"-6h for six hours ago, or now"
        ) from None


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Option type of a moment."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """What was typed, or stands in the configuration, as a moment in UTC."""
        try:
            # A configuration file can hold a moment as TOML's own type.
            return parse_moment(value.isoformat() if isinstance(value, datetime) else str(value))
        except UsageError as problem:
            self.fail(str(problem), param, ctx)


class Duration(click.ParamType):  # type: ignore[type-arg]  # as above
    """Option type of a duration."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """What was typed, or stands in the configuration, as a duration."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(str(value))
        except UsageError as problem:
            self.fail(str(problem), param, ctx)


MOMENT = Moment()
DURATION = Duration()
