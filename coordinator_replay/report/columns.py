"""What a page's script reads instead of rows: columns of plain data, small enough to travel in a page.

Moments are milliseconds since the page's start. Texts are told once, however often they occur.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

Columns = Mapping[str, Any]

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: datetime) -> int:
    """A moment as a datetime axis counts it."""
    return round(moment.timestamp() * 1000)


class Clock:
    """Moments as milliseconds since the start of a page, within its range.

    Args:
        start: where the page begins.
        end: where it ends.
    """

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start = start
        self.end = end
        self._length = self.since_start(end)

    def since_start(self, moment: datetime) -> int:
        """A moment, which may lie outside of the range."""
        return (moment - self.start) // _MILLISECOND

    def left(self, moment: datetime | None) -> int:
        """Where something begins; something without a known beginning begins with the page."""
        return 0 if moment is None or moment <= self.start else self._within(moment)

    def right(self, moment: datetime | None) -> int:
        """Where something ends; what has not ended reaches the end of the page."""
        return self._length if moment is None else 0 if moment <= self.start else self._within(moment)

    def _within(self, moment: datetime) -> int:
        return self._length if moment >= self.end else self.since_start(moment)


def columns(rows: Iterable[Mapping[str, Any]], names: Sequence[str], times: Sequence[str] = ()) -> Columns:
    """Rows as columns for the page's script.

    Args:
        rows: with values of all names: numbers, texts, or lists of numbers.
        names: the columns.
        times: those of them that are moments.
    """
    listed = list(rows)
    return {name: _column([row[name] for row in listed], is_time=name in times) for name in names}


def _column(values: list[Any], *, is_time: bool) -> Any:
    if is_time:
        return {"since_start": values}
    if not values or not isinstance(values[0], str):
        return {"values": values}
    texts = list(dict.fromkeys(values))
    places = {text: place for place, text in enumerate(texts)}
    return {"texts": texts, "at": list(map(places.__getitem__, values))}
