"""Time zones by name, as people type them."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from coordinator_replay.errors import UsageError

FARTHEST = timedelta(hours=14)
"""The largest offset from UTC that any time zone has or had."""

_STEP = timedelta(days=7)

_FIXED = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")

_HOURS: Mapping[str, float] = {
    "WET": 0,
    "WEST": 1,
    "CET": 1,
    "CEST": 2,
    "EET": 2,
    "EEST": 3,
    "EST": -5,
    "EDT": -4,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "JST": 9,
    "SGT": 8,
}
"""Abbreviations that mean only one zone. CST and BST, for example, mean several."""


def parse_zone(name: str) -> tzinfo:
    """Return a time zone by its name in the IANA database, by an abbreviation, or as ``+02:00``.

    >>> parse_zone("CEST").utcoffset(None)
    datetime.timedelta(seconds=7200)

    Raises:
        UsageError: there is no such zone.
    """
    name = name.strip()
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if name.upper() in _HOURS:
        return timezone(timedelta(hours=_HOURS[name.upper()]))
    fixed = _FIXED.fullmatch(name.upper())
    if fixed is not None:
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        if offset <= FARTHEST:
            return timezone(-offset if fixed[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as problem:
        raise UsageError(
            f"no time zone {name!r}: name one of the IANA database, as Europe/Berlin, or +02:00"
        ) from problem


class ClockChangeError(UsageError):
    """A local time exists twice or not at all, because the clocks of its zone were turned back or forward."""


def utc_of(local: datetime, zone: tzinfo) -> datetime:
    """Convert a local time, a datetime without a zone, to UTC.

    >>> utc_of(datetime(2026, 10, 25, 3), ZoneInfo("Europe/Berlin")).isoformat()
    '2026-10-25T02:00:00+00:00'

    Raises:
        ClockChangeError: the local time exists twice or not at all.
        OverflowError: the time lies outside the calendar in UTC.
    """
    offsets = [local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
    if offsets[0] == offsets[1]:
        return local.replace(tzinfo=timezone(offsets[0])).astimezone(UTC)
    choices = [local.replace(tzinfo=timezone(offset)) for offset in offsets]
    written = [f"{choice.isoformat()} ({choice.astimezone(UTC).replace(tzinfo=None)} UTC)" for choice in choices]
    is_twice = offsets[0] > offsets[1]
    what, turned = ("exists twice", "back") if is_twice else ("does not exist", "forward")
    raise ClockChangeError(
        f"{local} {what} in {zone}, because the clocks are turned {turned}: write {' or '.join(written)}"
    )


def start_of_day(day: date, zone: tzinfo) -> datetime:
    """Return the start of a day in a zone, in UTC.

    If clocks are turned back to midnight, the day starts at the first of the two midnights. If they are turned forward
    at midnight, the day starts at this change.

    >>> start_of_day(date(2026, 11, 1), ZoneInfo("America/Havana")).isoformat()
    '2026-11-01T04:00:00+00:00'
    """
    return datetime.combine(day, time(), zone).astimezone(UTC)


def offsets_between(zone: tzinfo, start: datetime, end: datetime) -> list[tuple[datetime, timedelta]]:
    """Return the offsets from UTC that a zone has in a time range, each with the time since which the offset holds.

    The first entry holds at ``start``. A change that is undone within a week may be missed.

    >>> changes = offsets_between(
    ...     ZoneInfo("Europe/Berlin"), *(datetime(2026, month, 1, tzinfo=UTC) for month in (3, 5))
    ... )
    >>> [(str(since), str(offset)) for since, offset in changes]
    [('2026-03-01 00:00:00+00:00', '1:00:00'), ('2026-03-29 01:00:00+00:00', '2:00:00')]
    """
    changes = [(start, _offset(zone, start))]
    at = start
    while at < end:
        following = at + min(_STEP, end - at)
        if _offset(zone, following) != changes[-1][1]:
            changes.append((_change(zone, at, following), _offset(zone, following)))
        at = following
    return changes


def _offset(zone: tzinfo, at: datetime) -> timedelta:
    try:
        return at.astimezone(zone).utcoffset() or timedelta()
    except OverflowError:
        # The time lies after the end of the calendar in that zone.
        return timedelta()


def _change(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """Return the time at which a zone's offset from UTC changed, to the second.

    The function searches for the change by halving the range.

    Args:
        zone: the time zone.
        before: a time before the change.
        after: a time after the change.
    """
    offset = _offset(zone, after)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        before, after = (before, middle) if _offset(zone, middle) == offset else (middle, after)
    return after.replace(microsecond=0)
