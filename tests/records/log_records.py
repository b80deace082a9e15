"""Batches of log records, as the decoder takes them, from plain keys and values."""

from collections.abc import Sequence

import pyarrow as pa


def batch(rows: Sequence[tuple[bytes | None, bytes | None]]) -> pa.RecordBatch:
    n = len(rows)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _ in rows], pa.binary()),
            "value": pa.array([value for _, value in rows], pa.binary()),
            "control_type": pa.nulls(n, pa.string()),
            "error_class": pa.nulls(n, pa.string()),
            "error_message": pa.nulls(n, pa.string()),
        }
    )
