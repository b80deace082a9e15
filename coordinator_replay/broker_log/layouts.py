"""Parsing of log lines in several layouts. The result has the time and the message of a line.

Lines of text have the layout of Kafka's own ``log4j`` configuration (``[time] LEVEL message (logger)``) or of container
images (``time LEVEL message (logger) [thread]``). A time is local, ISO-8601 with a zone, or epoch milliseconds. A line
of JSON is one object, with the names that log4j's JSON templates, ECS, GELF and container runtimes use.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeGuard

from coordinator_replay.times import milliseconds

MOST_CHARACTERS = 1 << 16
"""Number of characters of the longest line that is parsed. No line of the coordinator about a group is longer."""

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?|\d{13}"
_HEAD = re.compile(rf"\s{{0,8}}\[?(?P<time>{_TIME})\]?\s{{1,8}}(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s{{1,8}}")
_LOGGER = re.compile(r"[\w.$]+")

_MESSAGES = ("message", "msg", "log", "short_message")
_TIMES = ("@timestamp", "timestamp", "timeMillis", "time", "instant", "ts")
_DEEPEST = 2
"""Number of JSON objects that may lie within each other: a container runtime may wrap a broker's line in an object."""

_FIRST_MS = 10**11
"""Numbers below this are seconds, because as milliseconds they would be times before 1974."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log.

    Attributes:
        time_ms: time of the line, in milliseconds since 1970; local time counts as if it were UTC.
        has_zone: whether the zone of the line's time is known, so that ``time_ms`` is in UTC.
        message: the message, without level, logger and thread.
        fields: the message as a JSON object; None if the line is not from the rebalancing log of a managed service.
    """

    time_ms: int
    has_zone: bool
    message: str
    fields: Mapping[str, Any] | None = None


def parse_line(text: str) -> LogLine | None:
    """Parse a line of any layout that this module knows.

    Args:
        text: the line without its line break.

    Returns:
        The line; None for other layouts, and for lines of more than ``MOST_CHARACTERS``.
    """
    return None if len(text) > MOST_CHARACTERS else _parse(text, 0)


def _parse(text: str, depth: int) -> LogLine | None:
    if depth < _DEEPEST and text.lstrip()[:1] == "{":
        return _json_line(text, depth)
    head = _HEAD.match(text)
    time = None if head is None else _time(head["time"])
    if head is None or time is None:
        return None
    return LogLine(*time, _without_logger(text[head.end() :].rstrip()))


def _without_logger(rest: str) -> str:
    """Return the message of a log line, without the names of the logger and the thread.

    Args:
        rest: the end of the line: the message, and the names if the layout puts them there.
    """
    without_thread = rest[: rest.rfind(" [")].rstrip() if rest.endswith("]") else rest
    for candidate in (rest, without_thread):
        at = candidate.rfind(" (")
        if candidate.endswith(")") and at >= 0 and _LOGGER.fullmatch(candidate, at + 2, len(candidate) - 1):
            return candidate[:at].rstrip()
    return rest


def _json_line(text: str, depth: int) -> LogLine | None:
    try:
        fields = json.loads(text)
        if "\\u" in text:
            # JSON can have half a surrogate pair, which no table can store.
            fields = json.loads(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    message = next((fields[name] for name in _MESSAGES if isinstance(fields.get(name), str | dict)), None)
    if isinstance(message, str) and (inner := _parse(message.rstrip("\r\n"), depth + 1)) is not None:
        return inner
    time = next((parsed for name in _TIMES if (parsed := _time(fields.get(name))) is not None), None)
    if message is None or time is None:
        return None
    if isinstance(message, dict):
        return LogLine(*time, json.dumps(message, sort_keys=True, ensure_ascii=False), message)
    return LogLine(*time, message)


def _time(value: object) -> tuple[int, bool] | None:
    """Return milliseconds since 1970, and whether they are in UTC. If not, they are local time.

    Return None if the value is not a time.
    """
    if isinstance(value, dict):
        seconds, nanos = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        return (seconds * 1000 + nanos // 1_000_000, True) if _is_int(seconds) and _is_int(nanos) else None
    if _is_int(value) or (isinstance(value, float) and isfinite(value)):
        return round(value * 1000 if abs(value) < _FIRST_MS else value), True
    return _written_time(value) if isinstance(value, str) else None


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def _written_time(text: str) -> tuple[int, bool] | None:
    if text.isascii() and text.isdigit():
        return (int(text), True) if len(text) == 13 else None
    try:
        at = datetime.fromisoformat(text.replace(" +", "+"))
    except ValueError:
        return None
    return milliseconds(at if at.tzinfo is not None else at.replace(tzinfo=UTC)), at.tzinfo is not None
