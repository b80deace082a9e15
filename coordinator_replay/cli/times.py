"""Options that take times and durations: how they may be written is in ``query/times.py``."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import click

from coordinator_replay.errors import UsageError
from coordinator_replay.query.times import ABSOLUTE_RULE, LogTime, parse_absolute_time, parse_duration, parse_time

CLOCK_RULE = f"{ABSOLUTE_RULE}, or now (by the clock of this machine)"
"""What may be typed where no log has been read yet."""


def _written(value: object) -> str:
    """What was typed; a configuration file can hold a time as TOML's own type."""
    return value.isoformat() if isinstance(value, date | time) else str(value)


class Time(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Option type of a time; what is counted from the end of the log is resolved when the warehouse is open."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime | LogTime:
        """What was typed, or stands in the configuration."""
        if isinstance(value, LogTime):
            return value
        try:
            return parse_time(_written(value))
        except UsageError as problem:
            self.fail(str(problem), param, ctx)


class AbsoluteTime(click.ParamType):  # type: ignore[type-arg]  # as above
    """Option type of a time where no log has been read yet: only full dates, and ``now`` by this machine's clock."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """What was typed, or stands in the configuration."""
        try:
            written = _written(value)
            return datetime.now(UTC) if written.strip().lower() == "now" else parse_absolute_time(written, CLOCK_RULE)
        except UsageError as problem:
            self.fail(str(problem), param, ctx)


class Duration(click.ParamType):  # type: ignore[type-arg]  # as above
    """Option type of a duration."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """What was typed, or stands in the configuration."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(str(value))
        except UsageError as problem:
            self.fail(str(problem), param, ctx)


TIME = Time()
ABSOLUTE_TIME = AbsoluteTime()
DURATION = Duration()
