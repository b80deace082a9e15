"""Data that a page's script reads, as columns. Columns take less space in the page than rows.

Times are milliseconds since the start of the page's time range. If several rows have the same text, the column has this
text only once. Numbers above 2^53 are stored as text, because JavaScript would round them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from coordinator_replay.times import EPOCH, later, milliseconds, moment_text, moments_in_zone
from coordinator_replay.zones import offsets_between

Columns = Mapping[str, Any]

EXACT = 2**53
"""JavaScript rounds larger integers."""


class Clock:
    """The time range and time zone of a page. Methods convert times to positions on the time axis, and to text.

    Args:
        start: start of the page's time range.
        end: end of the page's time range.
        zone: the zone of the times that the page shows.
    """

    def __init__(self, start: datetime, end: datetime, zone: tzinfo = UTC) -> None:
        self.start_ms = milliseconds(start)
        self.length = milliseconds(end) - self.start_ms
        self.zone = zone

    def text(self, moment: datetime) -> str:
        """Return a time as ISO-8601 text in the zone of the page."""
        return moment_text(moment, self.zone)

    def sentence(self, text: str) -> str:
        """Convert the times in a sentence from UTC to the zone of the page."""
        return moments_in_zone(text, self.zone)

    def as_data(self) -> Columns:
        """Return the time range and the time zone of the page, in the form that the page's script reads.

        All times and offsets from UTC are in milliseconds.
        """
        end_ms = self.start_ms + self.length
        # The figures can be moved beyond the range by its length.
        first, last = later(EPOCH, self.start_ms - self.length), later(EPOCH, end_ms + self.length)
        changes = offsets_between(self.zone, first, last)
        offsets = [[milliseconds(since), offset // timedelta(milliseconds=1)] for since, offset in changes]
        return {"start": self.start_ms, "end": end_ms, "zone": {"name": f"{self.zone}", "offsets": offsets}}

    def since_start(self, moment: datetime) -> int:
        """Return a time as milliseconds since the start of the page's time range; negative for an earlier time."""
        return milliseconds(moment) - self.start_ms

    def left(self, moment: datetime | int | None) -> int:
        """Return the position of a bar's left end, in milliseconds since the start of the page's time range.

        Return 0 if ``moment`` is None, or before the page's time range.

        Args:
            moment: time at which the bar begins: a datetime, or milliseconds since 1970. None if unknown.
        """
        return self.lefts([milliseconds(moment) if isinstance(moment, datetime) else moment])[0]

    def right(self, moment: datetime | int | None) -> int:
        """Return the position of a bar's right end, in milliseconds since the start of the page's time range.

        If ``moment`` is None, or after the page's time range, return the end of the page's time range.

        Args:
            moment: time at which the bar ends: a datetime, or milliseconds since 1970. None if unknown or still to
                come.
        """
        return self.rights([milliseconds(moment) if isinstance(moment, datetime) else moment])[0]

    def lefts(self, moments: Iterable[int | None]) -> list[int]:
        """Return the positions of the left ends of several bars, see ``left``.

        Args:
            moments: for each bar, the time at which it begins, in milliseconds since 1970; None if unknown.
        """
        return self._within(moments, 0)

    def rights(self, moments: Iterable[int | None]) -> list[int]:
        """Return the positions of the right ends of several bars, see ``right``.

        Args:
            moments: for each bar, the time at which it ends, in milliseconds since 1970; None if unknown or still to
                come.
        """
        return self._within(moments, self.length)

    def _within(self, moments: Iterable[int | None], unknown: int) -> list[int]:
        start, end, length = self.start_ms, self.start_ms + self.length, self.length
        return [unknown if at is None else 0 if at <= start else length if at >= end else at - start for at in moments]


def columns(rows: Iterable[Mapping[str, Any]], names: Sequence[str], times: Sequence[str] = ()) -> Columns:
    """Convert rows to columns, in the form that the page's script reads.

    Args:
        rows: rows with a value for each name: a number, a text, or a list of numbers.
        names: the columns.
        times: names of the columns that hold times.
    """
    listed = list(rows)
    return packed({name: [row[name] for row in listed] for name in names}, times)


def packed(values: Mapping[str, list[Any]], times: Sequence[str] = ()) -> Columns:
    """Convert columns to the form that the page's script reads.

    Args:
        values: the values of each column, by name.
        times: names of the columns that hold times.
    """
    return {name: _column(own, is_time=name in times) for name, own in values.items()}


def _exact(value: Any) -> Any:
    """Return a value in a form that JavaScript reads without rounding: integers beyond 2^53 become text."""
    if isinstance(value, list):
        return [_exact(element) for element in value]
    return str(value) if isinstance(value, int) and abs(value) > EXACT else value


def _column(values: list[Any], *, is_time: bool) -> Any:
    if is_time:
        return {"since_start": values}
    if not values or not isinstance(values[0], str):
        return {"values": [_exact(value) for value in values]}
    texts = list(dict.fromkeys(values))
    places = {text: place for place, text in enumerate(texts)}
    return {"texts": texts, "at": list(map(places.__getitem__, values))}
