"""Log records to decoded rows, in one crossing from Spark to Python and back.

A decoded row is *staged*: position and batch facts at the top, and one nullable struct for each thing it can be, of
which just one is not null. Written once as Parquet, each table then reads only its own struct.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.log.dump import DumpFile, open_filesystem
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import SegmentPart, read_segment
from coordinator_replay.records.decoder import (
    COMMIT_COLUMNS,
    GROUP_COLUMNS,
    QUARANTINE_COLUMNS,
    Decoded,
    Rows,
    decode_records,
)

DECODE_ROWS = 60_000
"""How many records are decoded at a time; fewer cost more each, more only memory."""

_CARRIED = [
    "log_partition",
    "log_offset",
    "log_timestamp",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "is_transactional",
    "control_type",
    "missing_before",
]
"""Columns of a log record that every staged row keeps."""

COVERAGE = pa.schema(
    [
        ("source", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int64()),
        ("missing", pa.int64()),
        ("goes_back", pa.bool_()),
        ("note", pa.string()),
    ]
)
"""What a file covers, or (with ``note``) one thing to say about it."""

STRUCTS = {
    "commit": COMMIT_COLUMNS,
    "record": GROUP_COLUMNS,
    "quarantine": pa.schema([("source", pa.string()), *QUARANTINE_COLUMNS]),
    "coverage": COVERAGE,
}
"""The things a staged row can be; a row with none of them is a control record."""

STAGED = pa.schema(
    [
        *(LOG_RECORD.field(name).remove_metadata() for name in _CARRIED),
        pa.field("file_id", pa.int32()),
        *(pa.field(name, pa.struct(list(schema))) for name, schema in STRUCTS.items()),
    ]
)


def staged_type() -> StructType:
    """The Spark schema of staged rows."""
    return from_arrow_schema(STAGED, prefer_timestamp_ntz=False)


def _staged(carried: Sequence[pa.Array], file_id: int, **struct: pa.Array) -> pa.RecordBatch:
    """A batch of staged rows of one kind."""
    n = len(carried[0])
    columns = [*carried, pa.array(np.full(n, file_id, np.int32))]
    columns += [struct.get(name, pa.nulls(n, STAGED.field(name).type)) for name in STRUCTS]
    return pa.RecordBatch.from_arrays(columns, schema=STAGED)


def _struct(batch: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))


def _carried(records: pa.RecordBatch, rows: Rows) -> list[pa.Array]:
    columns = [records.column(name) for name in _CARRIED]
    if len(rows) == records.num_rows:
        return columns
    taken = pa.array(rows)
    return [column.take(taken) for column in columns]


def _with_source(records: pa.RecordBatch, decoded: Decoded) -> pa.StructArray:
    """Quarantined rows with the file and byte position they came from."""
    rows = pa.array(decoded.quarantine_rows)
    sources = records.column("source").take(rows).to_pylist()
    positions = records.column("source_position").take(rows).to_pylist()
    named = [
        source if position is None else f"{source}@{position}"
        for source, position in zip(sources, positions, strict=True)
    ]
    columns = [pa.array(named, pa.string()), *decoded.quarantine.columns]
    return pa.StructArray.from_arrays(columns, fields=list(STRUCTS["quarantine"]))


def stage_records(records: pa.RecordBatch, file_id: int) -> Iterator[pa.RecordBatch]:
    """Decode a batch of log records into staged rows: each record of the batch becomes exactly one row.

    Args:
        records: a batch in ``LOG_RECORD``.
        file_id: which of the run's files the records came from; −1 for other forms.
    """
    if records.num_rows == 0:
        return
    decoded = decode_records(records)
    if len(decoded.commit_rows):
        yield _staged(_carried(records, decoded.commit_rows), file_id, commit=_struct(decoded.commits))
    if len(decoded.group_rows):
        yield _staged(_carried(records, decoded.group_rows), file_id, record=_struct(decoded.groups))
    if len(decoded.quarantine_rows):
        yield _staged(_carried(records, decoded.quarantine_rows), file_id, quarantine=_with_source(records, decoded))
    control = np.flatnonzero(records.column("control_type").is_valid().to_numpy(zero_copy_only=False))
    if len(control):
        yield _staged(_carried(records, control), file_id)


def _coverage_rows(part: SegmentPart, file: DumpFile, file_id: int) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, object]] = [
        {"source": file.uri, "note": f"{note.text.rstrip('.')} (byte {note.position})"} for note in part.notes
    ]
    covered = part.coverage
    if covered is not None and covered.first_offset is not None:
        rows.append(
            {
                "source": file.uri,
                "first_offset": covered.first_offset,
                "last_offset": covered.last_offset,
                "records": covered.records + covered.control_records,
                "missing": covered.missing_offsets,
                "goes_back": covered.offsets_decrease,
            }
        )
    if not rows:
        return
    carried = [pa.nulls(len(rows), STAGED.field(name).type) for name in _CARRIED]
    carried[0] = pa.array([file.log_partition] * len(rows), pa.int32())
    struct = _struct(pa.RecordBatch.from_pylist(rows, schema=COVERAGE))
    yield _staged(carried, file_id, coverage=struct)


def _open_parts(file: DumpFile) -> Iterator[SegmentPart]:
    filesystem, path = open_filesystem(file.uri)
    with filesystem.open_input_stream(path, compression=None) as stream:
        yield from read_segment(stream, source=file.uri, log_partition=file.log_partition)


def _per_file(
    files: Sequence[DumpFile], read: Callable[[DumpFile, int], Iterator[pa.RecordBatch]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow over a range of positions in a list of files."""

    def read_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file_id in batch.column(0).to_pylist():
                yield from read(files[file_id], file_id)

    return read_files


def gather_records(parts: Iterable[SegmentPart]) -> Iterator[pa.RecordBatch]:
    """The records of parts in batches large enough that the cost of a batch does not show."""
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for part in parts:
        if part.records.num_rows >= DECODE_ROWS // 2 and not gathered:
            yield part.records
            continue
        gathered.append(part.records)
        rows += part.records.num_rows
        if rows >= DECODE_ROWS:
            yield pa.concat_batches(gathered)
            gathered, rows = [], 0
    if rows:
        yield pa.concat_batches(gathered)


def _stage_file(file: DumpFile, file_id: int) -> Iterator[pa.RecordBatch]:
    said: list[pa.RecordBatch] = []

    def parts() -> Iterator[SegmentPart]:
        for part in _open_parts(file):
            said.extend(_coverage_rows(part, file, file_id))
            yield part

    for records in gather_records(parts()):
        yield from stage_records(records, file_id)
    yield from said


def _raw_file(file: DumpFile, _file_id: int) -> Iterator[pa.RecordBatch]:
    for part in _open_parts(file):
        yield part.records


def read_segments(spark: SparkSession, files: Sequence[DumpFile]) -> DataFrame:
    """Segment files as log records, in the columns of ``LOG_RECORD``; one task a file.

    The files are opened by the Python workers, through pyarrow's filesystems.
    """
    ids = spark.range(0, len(files), 1, max(len(files), 1))
    schema = from_arrow_schema(LOG_RECORD, prefer_timestamp_ntz=False)
    return ids.mapInArrow(_per_file(list(files), _raw_file), schema)


def stage_segments(spark: SparkSession, files: Sequence[DumpFile]) -> DataFrame:
    """Segment files as staged rows: read and decoded in the same pass, so that raw bytes never cross to the JVM."""
    ids = spark.range(0, len(files), 1, max(len(files), 1))
    return ids.mapInArrow(_per_file(list(files), _stage_file), staged_type())


def _stage_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from stage_records(batch, -1)


def stage_rows(log_records: DataFrame) -> DataFrame:
    """Log records, in the columns of ``LOG_RECORD``, as staged rows."""
    return log_records.mapInArrow(_stage_batches, staged_type())
