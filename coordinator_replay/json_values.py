"""Conversion of values in answers to JSON, for the command line and for the Python API."""

import json
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from coordinator_replay.times import moment_text


def json_value(value: object) -> Any:
    """Convert a value to a type that JSON has.

    Times become ISO-8601 texts, bytes become hexadecimal texts, and dataclasses become objects. Infinite numbers, NaN,
    and values of all other types become texts.
    """
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    return str(value)


def json_text(value: object) -> str:
    """Return a value as one line of JSON. Characters outside ASCII are not escaped."""
    return json.dumps(json_value(value), ensure_ascii=False, separators=(",", ":"))
