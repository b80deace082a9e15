"""Exports as log records: rows in the columns of Spark's Kafka source, and JSON lines with the envelope of ``kcat -J``.

An export comes from a consumer, which sees no control records, producer ids or batches. So the columns about these are
null.
"""

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.arrow_times import shown
from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import TOPIC
from coordinator_replay.log.layout import OFFSET_LIMIT
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.store.writer import conform
from coordinator_replay.times import shown_ms

_KAFKA_SOURCE = ("key", "value", "partition", "offset")
KAFKA_ROW = (*_KAFKA_SOURCE, "topic", "timestamp")
"""The columns of Spark's Kafka source that are read."""

LINES = pa.schema([("line", pa.binary()), ("source", pa.string())])
"""Lines of an export, each with its file."""

_LARGEST_PARTITION = 2**31 - 1
_MALFORMED = {
    "error_class": "MalformedLine",
    "error_message": "the line is not an envelope with partition, offset and base64 key and payload",
}


def check_kafka_columns(columns: Mapping[str, str], where: str) -> None:
    """Check that a table can be read as Spark's Kafka source.

    Args:
        columns: the type of each column of the table.
        where: the table's path, for messages.

    Raises:
        InputError: a column is missing or of another type.
    """
    missing = [name for name in _KAFKA_SOURCE if name not in columns]
    if missing:
        raise InputError(
            f"{where}: the table lacks {', '.join(missing)}: expected are the columns of Spark's Kafka source "
            f"(key, value, topic, partition, offset, timestamp), found {', '.join(columns)}"
        )
    for name in ("key", "value"):
        if not columns[name].endswith("binary"):
            raise InputError(
                f"{where}: column {name} is of type {columns[name]}; it must be the record's bytes (binary)"
            )


def kafka_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return records of ``__consumer_offsets`` with the columns of ``LOG_RECORD``. Leave out records of other topics.

    Args:
        rows: records with some columns of KAFKA_ROW. A record with an impossible partition or offset, such as a
            negative one, gets an error class and an error message.
    """
    if "topic" in rows.schema.names:
        rows = rows.filter(pc.equal(rows.column("topic").cast(pa.string()), TOPIC))
    partition, offset = (_whole_numbers(rows.column(name)) for name in ("partition", "offset"))
    # A single impossible offset would make every later audit begin there.
    is_placed = pc.fill_null(
        pc.and_(
            pc.and_(pc.greater_equal(partition, 0), pc.less_equal(partition, _LARGEST_PARTITION)),
            pc.and_(pc.greater_equal(offset, 0), pc.less(offset, OFFSET_LIMIT)),
        ),
        False,
    )
    nowhere, no_text = pa.scalar(None, pa.int64()), pa.scalar(None, pa.string())
    values = {
        "log_partition": pc.if_else(is_placed, partition, nowhere).cast(pa.int32()),
        "log_offset": pc.if_else(is_placed, offset, nowhere),
        "error_class": pc.if_else(is_placed, no_text, "MalformedRow"),
        "error_message": pc.if_else(is_placed, no_text, "the row has no partition and offset that a log can have"),
    }
    at = rows.schema.get_field_index("timestamp")
    if at >= 0 and pa.types.is_timestamp(rows.schema.field(at).type):
        values["log_timestamp"] = shown(rows.column(at))
    return conform(rows, LOG_RECORD, **values)


def _whole_numbers(column: pa.Array) -> pa.Array:
    """Return a column as 64-bit integers.

    A value that is no integer becomes null.
    """
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64(), safe=False)
    return pa.array(map(_whole_number, column.to_pylist()), pa.int64())


def _whole_number(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def log_records(lines: pa.RecordBatch) -> pa.RecordBatch:
    """Parse lines of JSON into records of ``__consumer_offsets``, with the columns of ``LOG_RECORD``.

    A line that can't be parsed becomes a row with the class of the error and the bytes of the line. Leave out blank
    lines and records of other topics.

    Args:
        lines: the lines, with the columns of LINES.
    """
    both = zip(*(column.to_pylist() for column in lines.columns), strict=True)
    rows = [_row(line) | {"source": source} for line, source in both if line.strip()]
    return pa.RecordBatch.from_pylist([row for row in rows if row.pop("topic") == TOPIC], schema=LOG_RECORD)


def _row(line: bytes) -> dict[str, Any]:
    """Return a line as a row of ``LOG_RECORD``, with an additional field ``topic``.

    If the line can't be read, the row has only an error class and the line's bytes.
    """
    row: dict[str, Any] = {"topic": TOPIC}
    try:
        raw = orjson.loads(line)
        row["topic"] = _first(raw, str, "topic") or TOPIC
        partition, offset = _first(raw, int, "partition"), _first(raw, int, "offset")
        at_ms = shown_ms(_first(raw, int, "ts", "timestamp"))
        row["log_timestamp"] = None if at_ms is None else at_ms * 1000
        # A single impossible offset would make every later audit begin there.
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
    """Return the value of the first named field that has one; None if no named field has a value.

    Args:
        raw: a JSON object.
        kind: the type that the value must have.
        names: names of fields of the JSON object.

    Raises:
        ValueError: the value does not have the type ``kind``.
    """
    value = next((value for name in names if (value := raw.get(name)) is not None), None)
    if value is not None and type(value) is not kind:
        raise ValueError(value)
    return value
