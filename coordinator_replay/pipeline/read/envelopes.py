"""Exports in JSON lines as log records: the envelope of ``kcat -J``, with key and payload in base64."""

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

from coordinator_replay.log.dump import TOPIC
from coordinator_replay.log.header import OFFSET_LIMIT
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.times import shown_ms

LINES = pa.schema([("line", pa.binary()), ("source", pa.string())])
"""Lines of an export, each with the file that it is of."""

_LARGEST_PARTITION = 2**31 - 1
_MALFORMED = {
    "error_class": "MalformedLine",
    "error_message": "the line is not an envelope with partition, offset and base64 key and payload",
}


def log_records(lines: pa.RecordBatch) -> pa.RecordBatch:
    """The records of ``__consumer_offsets`` among some lines, in ``LOG_RECORD``.

    Lines that can't be read become damage rows with the line's own bytes, blank ones none.

    Args:
        lines: in LINES.
    """
    both = zip(*(column.to_pylist() for column in lines.columns), strict=True)
    rows = [_row(line) | {"source": source} for line, source in both if line.strip()]
    return pa.RecordBatch.from_pylist([row for row in rows if row.pop("topic") == TOPIC], schema=LOG_RECORD)


def _row(line: bytes) -> dict[str, Any]:
    """A line as a row of ``LOG_RECORD``, and of which topic it is."""
    row: dict[str, Any] = {"topic": TOPIC}
    try:
        raw = orjson.loads(line)
        row["topic"] = _first(raw, str, "topic") or TOPIC
        partition, offset = _first(raw, int, "partition"), _first(raw, int, "offset")
        at_ms = shown_ms(_first(raw, int, "ts", "timestamp"))
        row["log_timestamp"] = None if at_ms is None else at_ms * 1000
        # A single offset beyond any log would be where every later audit begins.
        if (
            partition is None
            or offset is None
            or not (0 <= partition <= _LARGEST_PARTITION and 0 <= offset < OFFSET_LIMIT)
        ):
            raise ValueError(partition, offset)
        row |= {"log_partition": partition, "log_offset": offset}
        texts = {"key": _first(raw, str, "key"), "value": _first(raw, str, "payload", "value")}
        return row | {
            name: None if text is None else base64.b64decode(text, validate=True) for name, text in texts.items()
        }
    except (ValueError, TypeError, AttributeError):
        return row | {"value": line, **_MALFORMED}


def _first(raw: Mapping[str, Any], kind: type, *names: str) -> Any:
    """The first of some fields that has a value.

    Raises:
        ValueError: it is of another type.
    """
    value = next((value for name in names if (value := raw.get(name)) is not None), None)
    if value is not None and type(value) is not kind:
        raise ValueError(value)
    return value
