"""Log records to decoded rows, which the workers write themselves.

A decoded row is *staged*: position and batch facts, and the columns of what it is: a commit, a group's record, one for
quarantine, or a control record. Each kind has files of its own, so that raw bytes never cross to the JVM and a table
reads only what it holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.log.dump import DumpFile
from coordinator_replay.log.reading import gather_records, read_file
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import SegmentPart
from coordinator_replay.pipeline.data_files import WRITTEN_SCHEMA, DataFiles, aside
from coordinator_replay.pipeline.tally import Ranges, Tally
from coordinator_replay.records.decoder import (
    COMMIT_COLUMNS,
    GROUP_COLUMNS,
    QUARANTINE_COLUMNS,
    Decoded,
    Rows,
    decode_records,
)

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

BATCH_EPOCH = "batch_epoch"
"""The leader epoch of a record's batch: commits have one of their own by that name."""

_NAMED = {"leader_epoch": BATCH_EPOCH}

KINDS = {
    "commit": COMMIT_COLUMNS,
    "record": GROUP_COLUMNS,
    "quarantine": pa.schema([("source", pa.string()), *QUARANTINE_COLUMNS]),
    "control": pa.schema([]),
}
"""What a record can be, and the columns that each kind has beside those of every staged row."""

STAGED = {
    kind: pa.schema(
        [
            *(LOG_RECORD.field(name).remove_metadata().with_name(_NAMED.get(name, name)) for name in _CARRIED),
            pa.field("file_id", pa.int32()),
            *(field.remove_metadata() for field in columns),
        ]
    )
    for kind, columns in KINDS.items()
}
"""The columns of each kind's files; file_id says which of the run's files a record came from, -1 for other forms."""

COVERAGE = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("file_id", pa.int32()),
        ("source", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int64()),
        ("skipped", pa.int64()),
        ("goes_back", pa.bool_()),
        ("note", pa.string()),
    ]
)
"""What a file of the dump covers, or (with ``note``) one thing to say about it."""

_TOLD = pa.schema([*WRITTEN_SCHEMA, *COVERAGE, ("tally", pa.string())])
"""What a task returns: a row for each file that it wrote, one for each thing to say about a file of the dump, and what
it counted."""

Kinded = tuple[str, pa.RecordBatch]
"""A batch of staged rows of one kind."""


def _staged(kind: str, carried: Sequence[pa.Array], file_id: int, columns: Sequence[pa.Array] = ()) -> Kinded:
    """A batch of staged rows of one kind."""
    files = pa.array(np.full(len(carried[0]), file_id, np.int32))
    return kind, pa.RecordBatch.from_arrays([*carried, files, *columns], schema=STAGED[kind])


def _carried(records: pa.RecordBatch, rows: Rows) -> list[pa.Array]:
    columns = [records.column(name) for name in _CARRIED]
    if len(rows) == records.num_rows:
        return columns
    taken = pa.array(rows)
    return [column.take(taken) for column in columns]


def _with_source(records: pa.RecordBatch, decoded: Decoded) -> list[pa.Array]:
    """Columns of quarantined rows, with the file and byte position they came from."""
    rows = pa.array(decoded.quarantine_rows)
    sources = records.column("source").take(rows).to_pylist()
    positions = records.column("source_position").take(rows).to_pylist()
    named = [
        source if position is None else f"{source}@{position}"
        for source, position in zip(sources, positions, strict=True)
    ]
    return [pa.array(named, pa.string()), *decoded.quarantine.columns]


def stage_records(records: pa.RecordBatch, file_id: int) -> Iterator[Kinded]:
    """Decode a batch of log records into staged rows: each record of the batch becomes exactly one row.

    Args:
        records: a batch in ``LOG_RECORD``.
        file_id: which of the run's files the records came from; −1 for other forms.
    """
    if records.num_rows == 0:
        return
    decoded = decode_records(records)
    if len(decoded.commit_rows):
        yield _staged("commit", _carried(records, decoded.commit_rows), file_id, decoded.commits.columns)
    if len(decoded.group_rows):
        yield _staged("record", _carried(records, decoded.group_rows), file_id, decoded.groups.columns)
    if len(decoded.quarantine_rows):
        carried = _carried(records, decoded.quarantine_rows)
        yield _staged("quarantine", carried, file_id, _with_source(records, decoded))
    control = np.flatnonzero(records.column("control_type").is_valid().to_numpy(zero_copy_only=False))
    if len(control):
        yield _staged("control", _carried(records, control), file_id)


def _coverage_rows(part: SegmentPart, file: DumpFile, file_id: int) -> Iterator[dict[str, object]]:
    about = {"log_partition": file.log_partition, "file_id": file_id, "source": file.uri}
    for note in part.notes:
        yield {**about, "note": f"{note.text.rstrip('.')} (byte {note.position})"}
    covered = part.coverage
    if covered is not None and covered.first_offset is not None:
        skipped = covered.skipped_records + covered.skipped_control_records
        yield {
            **about,
            "first_offset": covered.first_offset,
            "last_offset": covered.last_offset,
            "records": covered.records + covered.control_records + skipped,
            "skipped": skipped,
            "goes_back": covered.offsets_decrease,
        }


Skip = Mapping[int, Sequence[tuple[int, int]]]
"""Closed ranges of offsets that were audited before, by log partition."""


def _per_file(
    files: Sequence[DumpFile], read: Callable[[DumpFile, int], Iterator[pa.RecordBatch]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow over a range of positions in a list of files."""

    def read_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file_id in batch.column(0).to_pylist():
                yield from read(files[file_id], file_id)

    return read_files


def stage_file(
    file: DumpFile, file_id: int, said: list[dict[str, object]], skip: Skip = MappingProxyType({})
) -> Iterator[Kinded]:
    """Read and decode one file; what there is to say about it is added to ``said``."""

    def parts() -> Iterator[SegmentPart]:
        # A file that is not part of the log is read for what compaction has taken away since: all of it is wanted.
        ranges = skip.get(file.log_partition, ()) if file.is_current else ()
        for part in read_file(file, ranges):
            said.extend(_coverage_rows(part, file, file_id))
            yield part

    for records in gather_records(parts()):
        yield from stage_records(records, file_id)


def _raw_file(file: DumpFile, _file_id: int) -> Iterator[pa.RecordBatch]:
    for part in read_file(file):
        yield part.records


def read_segments(spark: SparkSession, files: Sequence[DumpFile]) -> DataFrame:
    """Segment files as log records, in the columns of ``LOG_RECORD``; one task a file.

    The files are opened by the Python workers, through pyarrow's filesystems.
    """
    ids = spark.range(0, len(files), 1, max(len(files), 1))
    schema = from_arrow_schema(LOG_RECORD, prefer_timestamp_ntz=False)
    return ids.mapInArrow(_per_file(list(files), _raw_file), schema)


class _Stage:
    """Writes and counts staged rows of one file of the dump, or of one task."""

    def __init__(self, folder: str, known: Ranges, file_id: int = -1) -> None:
        self.known = known
        self.file_id = file_id
        self.files = DataFiles({kind: aside(f"{folder}/{kind}", schema) for kind, schema in STAGED.items()})
        self.tally = Tally()

    def add(self, kind: str, rows: pa.RecordBatch) -> None:
        self.files.add(kind, rows)
        self.tally.add(kind, rows, self.known)

    def told(self, said: Sequence[dict[str, object]] = ()) -> Iterator[pa.RecordBatch]:
        """What the task returns."""
        rows = [{**asdict(file), "file_id": self.file_id} for file in self.files.close()]
        yield pa.RecordBatch.from_pylist([*rows, *said, {"tally": self.tally.text()}], schema=_TOLD)


def stage_segments(
    spark: SparkSession,
    files: Sequence[DumpFile],
    folder: str,
    skip: Skip = MappingProxyType({}),
    known: Ranges = MappingProxyType({}),
) -> DataFrame:
    """Read segment files, decode them and write staged rows, all in the same pass; one task a file.

    Args:
        spark: the session.
        files: what to read.
        folder: where the files of each kind go.
        skip: what need not be read; batches that lie wholly within are hopped over by their headers.
        known: positions that earlier runs have read, to be counted apart.

    Returns:
        in WRITTEN and COVERAGE, a row for each file that was written and for each thing to say, and tallies.
    """
    ranges, read = dict(skip), dict(known)  # read-only views can't be sent to workers

    def stage(file: DumpFile, file_id: int) -> Iterator[pa.RecordBatch]:
        said: list[dict[str, object]] = []
        staged = _Stage(folder, read, file_id)
        for kind, batch in stage_file(file, file_id, said, ranges):
            staged.add(kind, batch)
        yield from staged.told(said)

    ids = spark.range(0, len(files), 1, max(len(files), 1))
    return ids.mapInArrow(_per_file(list(files), stage), _told_type())


def _told_type() -> StructType:
    return from_arrow_schema(_TOLD, prefer_timestamp_ntz=False)


def stage_rows(log_records: DataFrame, folder: str) -> DataFrame:
    """Decode log records, in the columns of ``LOG_RECORD``, and write staged rows; returns as ``stage_segments``."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        staged = _Stage(folder, {})
        for batch in batches:
            for kind, rows in stage_records(batch, -1):
                staged.add(kind, rows)
        yield from staged.told()

    return log_records.mapInArrow(stage, _told_type())
