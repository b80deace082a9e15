"""Points in time and durations as Python users give them, and their conversion to datetimes in UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from coordinator_replay.api import questions
from coordinator_replay.errors import UsageError
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.times import LogTime, end_of_day, is_run_id
from coordinator_replay.times import in_utc
from coordinator_replay.zones import start_of_day

if TYPE_CHECKING:
    from coordinator_replay.query.diff import Side

Time = datetime | date | LogTime | str | int
"""A point in time: a datetime (in UTC if it has no zone), a date, epoch milliseconds, or a text as on the command line,
such as ``2026-11-20T02:13``, ``-6h`` or ``yesterday 08:34``. A date means the start of the day in the zone of the
warehouse, and as the end of a time range the end of the day. A ``LogTime`` is the parsed form of a text like
``-6h``."""

Duration = timedelta | str
"""A duration, or a text as on the command line, such as ``3d``."""


class Moments:
    """Points in time in the log of a warehouse.

    Args:
        tables: the tables, with the end of the log and the user's time zone.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def at(self, moment: Time | None) -> datetime | None:
        """Convert a point in time to a datetime in UTC. None stays None.

        Raises:
            UsageError: the text is no time, or the time lies outside the years 1 to 9999.
        """
        match moment:
            case None:
                return None
            case datetime():
                return _within_calendar(moment, lambda: in_utc(moment))
            case date():
                return _within_calendar(moment, lambda: start_of_day(moment, self._tables.zone))
        return self._tables.resolve(moment if isinstance(moment, LogTime) else self._tables.read_time(str(moment)))

    def side(self, moment: Time | None) -> Side:
        """Return the first side of a comparison: the cluster at a point in time.

        If ``moment`` is the run id of an audit, the time is that of the latest record that the audit had read.
        """
        return self._of_run(moment) or questions.Side(self._tables, self.at(moment))

    def last_side(self, moment: Time | None) -> Side:
        """Return the second side of a comparison: the cluster at a point in time.

        If ``moment`` is the run id of an audit, the time is that of the latest record that the audit had read. For the
        end of the log (``now``), the last record is included.
        """
        return self._of_run(moment) or questions.Side(self._tables, self.up_to(moment))

    def _of_run(self, moment: Time | None) -> Side | None:
        is_run = isinstance(moment, str) and is_run_id(moment)
        return questions.side_of_run(self._tables, str(moment)) if is_run else None

    def end(self, moment: Time | None) -> datetime | None:
        """Convert the end of a time range to a datetime in UTC. The range does not include its end.

        A day without a time of day means the end of this day. Return None for the end of the log (``now``), so that the
        range has no end and includes the last record.
        """
        return self.up_to(self.with_whole_day(moment))

    def up_to(self, moment: Time | None) -> datetime | None:
        """Convert the end of a time range to a datetime in UTC.

        Return None for the end of the log (``now``), so that the range has no end and includes the last record.
        """
        parsed = self._tables.read_time(moment) if isinstance(moment, str) else moment
        return self._tables.resolve_end(parsed) if isinstance(parsed, LogTime) else self.at(parsed)

    def with_whole_day(self, moment: Time | None) -> Time | None:
        """Return the end of a time range. For a date without a time of day, return the end of this day."""
        if isinstance(moment, str):
            return self._tables.read_end_time(moment)
        if isinstance(moment, date) and not isinstance(moment, datetime):
            return _within_calendar(moment, lambda: end_of_day(moment, self._tables.zone))
        return moment


def _within_calendar(moment: date, convert: Callable[[], datetime]) -> datetime:
    """Call a function that converts a time to UTC, and return its result.

    Args:
        moment: the time before the conversion, for the error message.
        convert: the function.

    Raises:
        UsageError: the result lies outside the years 1 to 9999 in UTC.
    """
    try:
        return convert()
    except OverflowError:
        raise UsageError(f"invalid time {str(moment)!r}: in UTC, it lies outside the years 1 to 9999") from None
