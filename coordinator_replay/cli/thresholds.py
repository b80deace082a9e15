"""Thresholds, as a user types them: ``--threshold stuck=15m``, ``--threshold storm-rebalances=20``."""

from coordinator_replay.analysis.findings.thresholds import THRESHOLD_NAMES
from coordinator_replay.cli.option_types import Parsed
from coordinator_replay.errors import UsageError
from coordinator_replay.query.times import parse_duration


def parse_threshold(text: str) -> tuple[str, int]:
    """Return the name and the value of a threshold that a user typed.

    If a threshold is a duration, its name may be typed without ``_ms``, and its value needs a unit.

    >>> parse_threshold("stuck=15m")
    ('stuck_ms', 900000)
    >>> parse_threshold("storm-rebalances=20")
    ('storm_rebalances', 20)

    Raises:
        UsageError: no threshold has that name, or its value is no number or duration.
    """
    written, is_there, value = text.partition("=")
    name = written.strip().replace("-", "_")
    if f"{name}_ms" in THRESHOLD_NAMES:
        name = f"{name}_ms"
    if not is_there or name not in THRESHOLD_NAMES:
        shown = ", ".join(name.removesuffix("_ms").replace("_", "-") for name in THRESHOLD_NAMES)
        raise UsageError(f"{text!r} is no threshold: write NAME=VALUE with one of {shown}")
    if name.endswith("_ms"):
        return name, round(parse_duration(value.strip()).total_seconds() * 1000)
    if not (value.strip().isascii() and value.strip().isdigit()):
        raise UsageError(f"{text!r}: {written.strip()} takes a whole number")
    return name, int(value)


THRESHOLD = Parsed("name=value", parse_threshold, tuple)
"""A threshold, as a field of Thresholds and its number."""
