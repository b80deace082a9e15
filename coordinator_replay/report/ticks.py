"""Ticks of axes: round times in the zone of a page, and round numbers."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from coordinator_replay.report.columns import Clock
from coordinator_replay.times import EPOCH, later, milliseconds, round_length

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


def time_ticks(clock: Clock, most: int) -> Sequence[tuple[int, str]]:
    """Return the ticks of a time axis, at round times such as full hours.

    Args:
        clock: time range and time zone of the page.
        most: largest number of intervals into which the ticks divide the axis.

    Returns:
        For each tick, its time in milliseconds since the start of the page's time range, and its label.
    """
    step = round_length(timedelta(milliseconds=clock.length), most)
    midnight = EPOCH.replace(tzinfo=None)
    local = midnight - (midnight - _local(clock, 0)) // step * step
    ticks: dict[int, str] = {}
    while local <= _local(clock, clock.length):
        at = milliseconds(local.replace(tzinfo=clock.zone)) - clock.start_ms
        if 0 <= at <= clock.length:
            # If clocks are set forward, a tick within the missing hour has another label.
            ticks[at] = _label(_local(clock, at), step // timedelta(milliseconds=1))
        local += step
    return list(ticks.items())


def _local(clock: Clock, at: int) -> datetime:
    return later(EPOCH, clock.start_ms + at).astimezone(clock.zone).replace(tzinfo=None)


def _label(local: datetime, step: int) -> str:
    if step < _SECOND:
        return f"{local:%H:%M:%S}.{local.microsecond // 1000:03}"
    if step < _MINUTE:
        return f"{local:%H:%M:%S}"
    return f"{local:%H:%M}" if step < _HOUR else f"{local:%m-%d %H:%M}" if step < _DAY else f"{local:%Y-%m-%d}"


def number_ticks(low: float, high: float, most: int) -> Sequence[float]:
    """Return round numbers at equal distances within a range.

    Args:
        low: the lowest number that a tick may have.
        high: the highest number that a tick may have.
        most: largest number of steps from ``low`` to ``high``.

    >>> number_ticks(0, 13, 4), number_ticks(-0.3, 0.7, 5), number_ticks(5, 5, 3)
    ([0.0, 5.0, 10.0], [-0.2, 0.0, 0.2, 0.4, 0.6], [5.0])
    """
    if high <= low:
        return [low * 1.0]
    size = 1.0
    while size * most < high - low:
        size *= 10
    while size * most >= 10 * (high - low):
        size /= 10
    step = next(size * part for part in (0.1, 0.2, 0.5, 1) if size * part * most >= high - low)
    first = -(-low // step)
    return [round((first + place) * step, 9) for place in range(int((high - first * step) // step) + 1)]
