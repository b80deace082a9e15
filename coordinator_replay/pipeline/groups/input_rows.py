"""Input rows of a replay: the rows of ``group_records``, sorted by DuckDB."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import starmap
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from coordinator_replay.engine.model import Record
from coordinator_replay.engine.offsets import COMMIT_KINDS
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.store.duckdb_connection import connected
from coordinator_replay.store.scan import BATCH_ROWS, reader_of
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table

RECORDS = (
    table("group_records")
    .arrow_schema(
        [
            *("group_id", "log_partition", "log_offset", "log_timestamp", "kind", "key_json", "value_json"),
            *("value_version", "missing_before", "record_bytes", "is_tombstone"),
        ]
    )
    .remove_metadata()
)
"""Columns of ``group_records`` that are read."""

UNREADABLE = ""
"""Placeholder for the JSON of a value that can't be read."""

QUARANTINED = ("group_id", "log_partition", "log_offset", "log_timestamp", "kind", "key_json")
"""Columns of ``quarantine`` that are read."""

_COMMITS = pa.array(sorted(COMMIT_KINDS))


class InputRow(NamedTuple):
    """A group record to replay.

    Attributes:
        timestamp_ms: time of the record; None if the record has no time.
        value_json: the value as JSON; None for a tombstone; UNREADABLE if the value can't be read.
        missing_before: number of lower log offsets of the record's log partition that have no record; 0 if the number
            is not known.
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
        """Return the record for the engine."""
        kind, key, value = self.kind, orjson.loads(self.key_json), None
        if self.value_json == UNREADABLE:
            place = self.log_partition, self.log_offset, self.timestamp_ms
            return Record(kind, key, None, *place, self.missing_before, is_readable=False)
        if self.value_json is not None:
            value = open_blobs(kind, orjson.loads(self.value_json))
        version = None if value is None else self.value_version
        # Positional arguments: keywords take twice as long, and this runs for every record.
        return Record(
            kind, key, value, self.log_partition, self.log_offset, self.timestamp_ms, self.missing_before, version
        )


AS_INPUT = """
SELECT group_id, log_partition, log_offset, epoch_ms(log_timestamp) AS timestamp_ms, kind, key_json, value_json,
    value_version, coalesce(missing_before, 0) AS missing_before, coalesce(record_bytes, 0) AS record_bytes
FROM records
"""
"""SQL for the columns of ``InputRow``."""


def unreadable_records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield group records whose key can be read and whose value can't, with the columns of RECORDS.

    Leave out commits, and records of kinds that this release does not know.

    Args:
        batches: rows of ``quarantine`` with the columns of QUARANTINED.
    """
    for batch in batches:
        rows = conform(batch, RECORDS, value_json=UNREADABLE)
        is_commit = pc.is_in(rows.column("kind"), value_set=_COMMITS)
        yield rows.filter(pc.and_(rows.column("kind").is_valid(), pc.invert(is_commit)))


@contextmanager
def group_records(batches: Iterable[pa.RecordBatch]) -> Iterator[DuckDBPyConnection]:
    """Yield a DuckDB connection with the table ``records``, which has the given rows.

    Args:
        batches: rows of ``group_records`` and ``unreadable_records``, which are read once.
    """
    with connected() as connection:
        connection.register("batches", reader_of(batches, RECORDS))
        connection.execute("CREATE TEMP TABLE records AS SELECT * FROM batches")
        yield connection


def groups_of(connection: DuckDBPyConnection) -> list[str]:
    """Return the groups of the rows of DuckDB's table ``records``, sorted."""
    rows = connection.execute("SELECT DISTINCT group_id FROM records ORDER BY group_id").fetchall()
    return [group_id for (group_id,) in rows]


def records_in_order(connection: DuckDBPyConnection) -> Iterator[InputRow]:
    """Yield the rows of DuckDB's table ``records``, sorted by group, log partition and log offset.

    Nothing else can use the connection until the last row has been yielded.
    """
    rows = connection.sql(f"{AS_INPUT} ORDER BY group_id, log_partition, log_offset")
    for batch in rows.to_arrow_reader(BATCH_ROWS):
        yield from input_rows(batch)


def input_rows(batch: pa.RecordBatch) -> Iterator[InputRow]:
    """Return rows that ``AS_INPUT`` has selected."""
    return starmap(InputRow, zip(*(column.to_pylist() for column in batch.columns), strict=True))
