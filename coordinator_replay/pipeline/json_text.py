"""JSON as the standard library writes it, in a tenth of its time."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from coordinator_replay.analysis.rows import ENCODE


def compact(row: Mapping[str, Any]) -> str:
    """A snapshot; its keys may be numbers."""
    try:
        return orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # A hostile log can bring numbers above 64 bits, which only the standard library writes.
        return json.dumps(row, separators=(",", ":"))


def encode(value: Any) -> str:
    """What ENCODE writes."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # What it does not take, the standard library may: numbers above 64 bits, half of a surrogate pair.
        return ENCODE(value)
