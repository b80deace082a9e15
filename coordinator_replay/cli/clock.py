"""The clock of this machine, which tells how long ago a log ended."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)
