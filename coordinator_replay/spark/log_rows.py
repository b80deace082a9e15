"""The rows of the data source: a log record's position and producer, and the decoded record."""

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.records.decoded_rows import DECODED_ROW, decode_rows

_RENAMED = {"leader_epoch": "batch_leader_epoch"}
"""Columns of a log record whose name means something else in a decoded record: commits also have a leader epoch."""

_DECODED_LAST = ("error_class", "error_message", "key", "value")

_POSITION = [
    field.remove_metadata().with_name(_RENAMED.get(field.name, field.name))
    for field in LOG_RECORD
    if field.name not in _DECODED_LAST
]

LOG_ROW = pa.schema([*_POSITION, *DECODED_ROW, pa.field("key", pa.binary()), pa.field("value", pa.binary())])
"""Columns for one record of a log, or one damaged range of it: position and producer, the decoded record, its bytes.

The bytes of a decoded record are null unless the reader asked for them.
"""

_LOG_NAMES = {_RENAMED.get(name, name): name for name in LOG_RECORD.names}


def log_rows(records: pa.RecordBatch, schema: pa.Schema, *, with_bytes: bool) -> pa.RecordBatch:
    """Decode log records, and return them as rows of the data source.

    Args:
        records: a batch of records in ``LOG_RECORD``.
        schema: the columns to return; any fields of LOG_ROW.
        with_bytes: whether key and value of records that could be decoded are kept as well.
    """
    decoded = decode_rows(records)
    errors = decoded.column("error_class")

    def column(name: str) -> pa.Array:
        if name in DECODED_ROW.names:
            return decoded.column(name)
        array = records.column(_LOG_NAMES[name])
        if name not in ("key", "value") or with_bytes:
            return array
        if errors.null_count == len(errors):
            return pa.nulls(len(errors), array.type)
        return pc.if_else(pc.is_valid(errors), array, pa.scalar(None, array.type))

    return pa.RecordBatch.from_arrays([column(name) for name in schema.names], schema=schema)


def with_missing(records: pa.RecordBatch, missing: int) -> pa.RecordBatch:
    """Return log records with a number added to their column ``missing_before``.

    Args:
        records: the records of a segment.
        missing: number of log offsets without a record before this segment.
    """
    if not missing:
        return records
    place = records.schema.get_field_index("missing_before")
    return records.set_column(place, records.schema.field(place), pc.add(records.column(place), missing))
