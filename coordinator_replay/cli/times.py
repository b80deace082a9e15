"""Options that take times and durations: how they may be written is in ``query/times.py``."""

from datetime import UTC, datetime, timedelta

from coordinator_replay.cli.parsed import Parsed
from coordinator_replay.query.times import (
    ABSOLUTE_RULE,
    LogTime,
    parse_absolute_time,
    parse_duration,
    parse_time,
    parse_time_or_run,
)

CLOCK_RULE = f"{ABSOLUTE_RULE}, or now (by the clock of this machine)"
"""What may be typed where no log has been read yet."""


def _by_the_clock(text: str) -> datetime:
    return datetime.now(UTC) if text.strip().lower() == "now" else parse_absolute_time(text, CLOCK_RULE)


Time = datetime | LogTime
"""A time as a command takes it; the API resolves what is counted from the end of the log."""

TIME = Parsed("time", parse_time, LogTime)
"""A time."""

TIME_OR_RUN = Parsed("time or run id", parse_time_or_run, LogTime)
"""A time, or the run id of an audit for the end of the log as that one had read it."""

ABSOLUTE_TIME = Parsed("time", _by_the_clock)
"""A time where no log has been read yet: only full dates, and ``now`` by this machine's clock."""

DURATION = Parsed("duration", parse_duration, timedelta)

DURATION_MS = Parsed("duration", lambda text: round(parse_duration(text).total_seconds() * 1000))
"""A duration, as milliseconds."""
