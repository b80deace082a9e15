"""Decoded records of all kinds in one batch: a row for each log record, in the order of the log.

The audit separates the kinds, because each goes to a table of its own. This module is for people who read a log in a
DataFrame or in SQL: they want the same columns for all kinds. A column has the name and the meaning that it has in
``offset_commits``, ``group_records`` and ``quarantine``.
"""

import numpy as np
import pyarrow as pa

from coordinator_replay.records.decoder import (
    COMMIT_COLUMNS,
    GROUP_COLUMNS,
    QUARANTINE_COLUMNS,
    decode_records,
    in_log_order,
    one_batch,
)

_ERROR = [QUARANTINE_COLUMNS.field(name) for name in ("error_class", "error_message")]

DECODED_ROW = pa.schema(
    [*GROUP_COLUMNS, *(field for field in COMMIT_COLUMNS if field.name not in GROUP_COLUMNS.names), *_ERROR]
)
"""One decoded record of any kind.

An offset commit fills COMMIT_COLUMNS, another record GROUP_COLUMNS. Both fill kind and key_json, and value_json if the
record is no tombstone. In the row of a record that can't be decoded, only error_class and error_message are not null.
In the row of a control record, all columns are null.
"""

_OF_KEYS = ("kind", "key_version", "group_id", "member_id", "topic", "partition", "key_json")

DECODED_KEY = pa.schema([*(DECODED_ROW.field(name) for name in _OF_KEYS), *_ERROR])
"""The columns of DECODED_ROW that are read from the key, and the two columns of an error."""


def decode_rows(records: pa.RecordBatch) -> pa.RecordBatch:
    """Decode a batch of log records, row by row.

    Args:
        records: columns ``key``, ``value``, ``control_type``, ``error_class`` and ``error_message``, as
            ``decode_records`` takes them.

    Returns:
        A row for each record, in the same order, with the columns of DECODED_ROW.
    """
    decoded = decode_records(records, with_commit_json=True)
    parts = [
        (decoded.commit_rows, decoded.commits),
        (decoded.group_rows, decoded.groups),
        (decoded.quarantine_rows, decoded.quarantine.select([field.name for field in _ERROR])),
    ]
    control = pa.table({"error_class": pa.nulls(len(decoded.control_rows), pa.string())})
    none = np.empty(0, np.int64), DECODED_ROW.empty_table()
    _, rows = in_log_order([none, *((of, pa.table(part)) for of, part in parts), (decoded.control_rows, control)])
    return one_batch(rows)


def decode_columns(keys: pa.Array, values: pa.Array) -> pa.RecordBatch:
    """Decode a column of keys and a column of values to rows with the columns of DECODED_ROW."""
    nothing = {name: pa.nulls(len(keys), pa.string()) for name in ("control_type", "error_class", "error_message")}
    return decode_rows(pa.RecordBatch.from_pydict({"key": keys, "value": values, **nothing}))


def decode_keys(keys: pa.Array) -> pa.RecordBatch:
    """Decode keys without their values, row by row.

    Returns:
        A row for each key, in the same order, with the columns of DECODED_KEY.
    """
    # A key is read in the same way whatever its value is, and an absent value can't be damaged.
    return decode_columns(keys, pa.nulls(len(keys), pa.binary())).select(DECODED_KEY.names)
