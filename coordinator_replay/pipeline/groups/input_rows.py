"""Group records as a replay takes them: sorted rows of ``group_records``, and what becomes of each."""

from collections.abc import Iterator
from itertools import starmap
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.engine.model import Record
from coordinator_replay.pipeline.columns import NONE, array_of, numbers_of
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.store.duckdb_connection import connected
from coordinator_replay.store.scan import BATCH_ROWS, Batches

RECORD_COLUMNS = (
    *("group_id", "log_partition", "log_offset", "log_timestamp", "kind", "key_json", "value_json"),
    *("value_version", "missing_before", "record_bytes"),
)
"""What is read of ``group_records``."""


class InputRow(NamedTuple):
    """A group record to replay.

    Attributes:
        timestamp_ms: None where the record has no time.
        value_json: None for a tombstone.
        missing_before: offsets before it in its log partition at which no record stood.
    """

    group_id: str
    log_partition: int
    log_offset: int
    timestamp_ms: int | None
    kind: str
    key_json: str
    value_json: str | None
    value_version: int | None
    missing_before: int
    record_bytes: int

    def record(self) -> Record:
        """The record as the engine takes it."""
        kind, key, value = self.kind, orjson.loads(self.key_json), None
        if self.value_json is not None:
            value = open_blobs(kind, orjson.loads(self.value_json))
        version = None if value is None else self.value_version
        # By place: with names it takes twice as long, and this is done for every record.
        return Record(
            kind, key, value, self.log_partition, self.log_offset, self.timestamp_ms, self.missing_before, version
        )


def sort_records(batches: Batches, schema: pa.Schema) -> Batches:
    """Group records sorted by group, log partition and log offset; what does not fit into memory goes to disk.

    Args:
        batches: rows of ``group_records``, at least RECORD_COLUMNS.
        schema: of the batches.
    """
    with connected() as connection:
        connection.register("records", pa.RecordBatchReader.from_batches(schema, batches))
        names = ", ".join(RECORD_COLUMNS)
        rows = connection.sql(
            f"SELECT {names} FROM records ORDER BY group_id, log_partition, log_offset"  # noqa: S608 - our own names
        )
        yield from rows.to_arrow_reader(BATCH_ROWS)


def input_rows(batches: Batches) -> Iterator[InputRow]:
    """Rows to replay.

    Args:
        batches: in RECORD_COLUMNS.
    """
    for batch in batches:
        at = numbers_of(batch.column("log_timestamp"), NONE)
        columns = {
            "timestamp_ms": array_of(np.where(at == NONE, NONE, np.floor_divide(at, 1000)), pa.int64()).to_pylist(),
            "missing_before": pc.fill_null(batch.column("missing_before"), 0).to_pylist(),
            "record_bytes": pc.fill_null(batch.column("record_bytes"), 0).to_pylist(),
        }
        every = (columns[name] if name in columns else batch.column(name).to_pylist() for name in InputRow._fields)
        yield from starmap(InputRow, zip(*every, strict=True))
