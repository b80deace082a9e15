"""Decoded records as one batch: a row for each log record, in the order of the log, whatever kind of record it is.

The audit keeps kinds apart, since each goes to a table of its own. People who read a log in a DataFrame or in SQL want
one row shape; this is it. A column has the name and the meaning that it has in ``offset_commits``, ``group_records``
and ``quarantine``.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from coordinator_replay.records.columnar import Rows
from coordinator_replay.records.decoder import (
    COMMIT_COLUMNS,
    GROUP_COLUMNS,
    QUARANTINE_COLUMNS,
    decode_records,
)

_ERROR = [QUARANTINE_COLUMNS.field(name) for name in ("error_class", "error_message")]

DECODED_ROW = pa.schema(
    [*GROUP_COLUMNS, *(field for field in COMMIT_COLUMNS if field.name not in GROUP_COLUMNS.names), *_ERROR]
)
"""One decoded record of any kind.

Offset commits fill the columns of ``offset_commits``, every record fills kind, key_json and value_json. Of a record
that can't be decoded all is null but the last two, of a control record everything.
"""

_OF_KEYS = ("kind", "key_version", "group_id", "member_id", "topic", "partition", "key_json")

DECODED_KEY = pa.schema([*(DECODED_ROW.field(name) for name in _OF_KEYS), *_ERROR])
"""The columns that a key alone fills."""

Part = tuple[Rows, pa.RecordBatch]
"""Some rows of a batch by their places in it, and what they were decoded to."""


def decode_rows(records: pa.RecordBatch) -> pa.RecordBatch:
    """Decode a batch of log records, row by row.

    Args:
        records: columns ``key``, ``value``, ``control_type``, ``error_class`` and ``error_message``, as
            ``decode_records`` takes them.

    Returns:
        as many rows in the same order, in DECODED_ROW.
    """
    decoded = decode_records(records, with_commit_json=True)
    parts = [
        (decoded.commit_rows, decoded.commits),
        (decoded.group_rows, decoded.groups),
        (decoded.quarantine_rows, decoded.quarantine.select([field.name for field in _ERROR])),
    ]
    nothing = pa.RecordBatch.from_arrays([pa.nulls(len(decoded.control_rows))], names=["error_class"])
    present = [part for part in [*parts, (decoded.control_rows, nothing)] if len(part[0])]
    order = _order_of(present, records.num_rows)
    columns = [_column(field, present, order) for field in DECODED_ROW]
    return pa.RecordBatch.from_arrays(columns, schema=DECODED_ROW)


def decode_keys(keys: pa.Array) -> pa.RecordBatch:
    """Decode keys without their values, row by row.

    Returns:
        as many rows in the same order, in DECODED_KEY.
    """
    # A key is read in the same way whatever its value is; without one, nothing else can be wrong.
    nothing = {name: pa.nulls(len(keys), pa.string()) for name in ("control_type", "error_class", "error_message")}
    records = pa.RecordBatch.from_pydict({"key": keys, "value": pa.nulls(len(keys), pa.binary()), **nothing})
    return decode_rows(records).select(DECODED_KEY.names)


def _order_of(parts: Sequence[Part], count: int) -> pa.Array | None:
    """Which row of the parts laid end to end comes first, second, …; None where they are in order."""
    if len(parts) <= 1:
        return None
    order = np.empty(count, np.int64)
    order[np.concatenate([rows for rows, _ in parts])] = np.arange(count)
    return pa.array(order)


def _column(field: pa.Field, parts: Sequence[Part], order: pa.Array | None) -> pa.Array:
    """One column of all parts, in the order of the log."""
    if not any(field.name in batch.schema.names for _, batch in parts):
        return pa.nulls(sum(len(rows) for rows, _ in parts), field.type)
    chunks = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(rows), field.type)
        for rows, batch in parts
    ]
    if order is None:
        return chunks[0]
    return pa.concat_arrays(chunks).take(order)
