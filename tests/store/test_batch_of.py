"""Rows of plain values as batches."""

import pyarrow as pa

from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.store.writer import batch_of
from coordinator_replay.times import moment_of_ms


def test_times_are_milliseconds_in_lists_of_structs_too():
    span = pa.struct([pa.field("since", TIMESTAMP), pa.field("count", pa.int64())])
    schema = pa.schema([("at", TIMESTAMP), ("spans", pa.list_(pa.field("element", span)))])
    rows = [
        {"at": 1_500, "spans": [{"since": 2_001, "count": 3}, {"since": None, "count": None}]},
        {"at": None, "spans": None},
        {"at": None, "spans": [{"since": moment_of_ms(4_002), "count": 0}]},
    ]
    batch = batch_of(rows, schema)
    assert batch.schema == schema
    assert batch.to_pylist() == [
        {
            "at": moment_of_ms(1_500),
            "spans": [{"since": moment_of_ms(2_001), "count": 3}, {"since": None, "count": None}],
        },
        {"at": None, "spans": None},
        {"at": None, "spans": [{"since": moment_of_ms(4_002), "count": 0}]},
    ]
