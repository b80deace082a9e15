"""The stage *decode*, which decodes the records of a dump into staged rows.

There are four categories of staged rows: commit, group record, control record and quarantine (KINDS). A row has the
position of the record, facts about its batch, and the columns of its category. Each category has its own files in each
bucket. The tasks read and write the files themselves, so raw bytes never go through the JVM.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import Bools, Numbers, numbers_of, some
from coordinator_replay.completeness.anchors import Anchor, Comparison, choose
from coordinator_replay.completeness.same_log import LogCopy
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.log.coverage import SegmentCoverage, SkipRanges
from coordinator_replay.log.dump import DumpFile, base_offset
from coordinator_replay.log.reading import bounded, gather_records, read_file
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import SegmentPart
from coordinator_replay.pipeline.read.anchors import candidates, compare
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.pipeline.read.look_up import around, folder_of, read_epochs, read_topic_id
from coordinator_replay.pipeline.read.tally import (
    BATCH_EPOCH,
    COMMIT,
    CONTROL,
    QUARANTINE,
    RECORD,
    Audited,
    Ranges,
    Tally,
    audited_in,
    is_audited,
)
from coordinator_replay.records.columnar import Rows
from coordinator_replay.records.decoder import (
    COMMIT_COLUMNS,
    GROUP_COLUMNS,
    QUARANTINE_COLUMNS,
    Decoded,
    decode_records,
)
from coordinator_replay.secret_text import without_secrets
from coordinator_replay.store.layout import NO_BUCKET
from coordinator_replay.store.scan import Batches
from coordinator_replay.store.writer import DataFile, FileWriter, staged_part

_CARRIED = [
    *("log_partition", "log_offset", "log_timestamp", "leader_epoch", "producer_id", "producer_epoch"),
    *("is_transactional", "control_type", "missing_before"),
]
"""Columns of a log record that every staged row keeps."""

_NAMED = {"leader_epoch": BATCH_EPOCH}

KINDS = {
    COMMIT: COMMIT_COLUMNS,
    RECORD: GROUP_COLUMNS,
    QUARANTINE: pa.schema([("source", pa.string()), *QUARANTINE_COLUMNS]),
    CONTROL: pa.schema([]),
}
"""The four categories of staged rows, each with the columns that only this category has."""

STAGED = {
    kind: pa.schema(
        [
            *(LOG_RECORD.field(name).remove_metadata().with_name(_NAMED.get(name, name)) for name in _CARRIED),
            *(field.remove_metadata() for field in columns),
        ]
    )
    for kind, columns in KINDS.items()
}
"""All columns of staged rows, by category of rows (a key of KINDS)."""

Skip = Mapping[int, Sequence[tuple[int, int]]]
"""Closed ranges of offsets that were audited before, by log partition."""


class StagedFile(NamedTuple):
    """A file of staged rows.

    Attributes:
        what: the category of the file's rows: commit, group record, control record or quarantine (a key of KINDS).
        bucket: the bucket of the records.
        copy: the copy of the log partition from which the records were read.
    """

    what: str
    bucket: int
    file: DataFile
    copy: str = ""


@dataclass(frozen=True, slots=True)
class FileShare:
    """A file of the dump to decode.

    Attributes:
        file: the file.
        skip: ranges of log offsets that need not be read. A batch that lies entirely within a range is skipped by its
            header.
        audited: log offsets of the file's log partition that earlier runs have read. Records at these log offsets are
            counted separately.
        anchors: records that earlier runs have kept, to recognise the log by (``completeness.anchors``).
        limit: the first log offset whose record is no longer part of the log; None if all records are part of it.
        metadata: the file ``partition.metadata`` with the topic's id; None if this task does not read it.
        checkpoint: the file ``leader-epoch-checkpoint``; None if this task does not read it.
    """

    file: DumpFile
    skip: Sequence[tuple[int, int]]
    audited: Ranges
    anchors: Sequence[Anchor] = ()
    limit: int | None = None
    metadata: str | None = None
    checkpoint: str | None = None


@dataclass(slots=True)
class DecodedFile:
    """Decoded records of some files, or of a task's share of rows.

    Attributes:
        files: the staged files.
        tally: counts of all records; a record that several copies have counts once for each copy.
        extents: the log offsets that each segment covers.
        notes: sentences about the files for the user.
        anchors: a few records by log partition. The next run looks for them in its dump to recognise the log.
        parts: for each segment, or each log partition of an export, comparisons with such records of earlier runs. For
            a segment, also the topic id and the leader epochs.
    """

    files: list[StagedFile] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    extents: list[Extent] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    anchors: dict[int, list[Anchor]] = field(default_factory=dict)
    parts: list[LogCopy] = field(default_factory=list)


def _staged(kind: str, carried: Sequence[pa.Array], columns: Sequence[pa.Array] = ()) -> tuple[str, pa.RecordBatch]:
    """Return the category of staged rows, and the rows as a batch.

    Args:
        kind: the category, a key of KINDS.
        carried: the values of the columns that all categories have.
        columns: the values of the columns that only this category has.
    """
    return kind, pa.RecordBatch.from_arrays([*carried, *columns], schema=STAGED[kind])


def _carried(records: pa.RecordBatch, rows: Rows) -> list[pa.Array]:
    columns = [records.column(name) for name in _CARRIED]
    if len(rows) == records.num_rows:
        return columns
    taken = pa.array(rows)
    return [column.take(taken) for column in columns]


def _with_source(records: pa.RecordBatch, decoded: Decoded) -> list[pa.Array]:
    """Return the columns of rows for ``quarantine``, with the file and the byte position of each record."""
    rows = pa.array(decoded.quarantine_rows)
    taken = records.column("source").take(rows).dictionary_encode()
    named = [None if name is None else without_secrets(name) for name in taken.dictionary.to_pylist()]
    sources = [None if place is None else named[place] for place in taken.indices.to_pylist()]
    positions = records.column("source_position").take(rows).to_pylist()
    named = [
        source if position is None else f"{source}@{position}"
        for source, position in zip(sources, positions, strict=True)
    ]
    return [pa.array(named, pa.string()), *decoded.quarantine.columns]


def decode_batch(records: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Decode a batch of log records into staged rows.

    Each record of the batch becomes exactly one row.

    Args:
        records: a batch in ``LOG_RECORD``.

    Yields:
        The category of the rows (a key of KINDS), and the rows with the columns of STAGED for this category.
    """
    if records.num_rows == 0:
        return
    decoded = decode_records(records)
    if len(decoded.commit_rows):
        yield _staged(COMMIT, _carried(records, decoded.commit_rows), decoded.commits.columns)
    if len(decoded.group_rows):
        yield _staged(RECORD, _carried(records, decoded.group_rows), decoded.groups.columns)
    if len(decoded.quarantine_rows):
        carried = _carried(records, decoded.quarantine_rows)
        yield _staged(QUARANTINE, carried, _with_source(records, decoded))
    if len(decoded.control_rows):
        yield _staged(CONTROL, _carried(records, decoded.control_rows))


class _Stager:
    """A writer of the staged rows of one task, which also counts them.

    Args:
        folder: the folder for staged files.
        audited: log offsets that earlier runs have read, by log partition.
        buckets: number of buckets of the warehouse.

    Attributes:
        copy: the copy of a log partition from which the rows are read.
    """

    def __init__(self, folder: str, audited: Audited, buckets: int) -> None:
        self.folder = folder
        self.copy = ""
        self.audited = audited
        self.buckets = buckets
        self.writer = FileWriter()
        self.done = DecodedFile()

    def add(self, records: pa.RecordBatch) -> None:
        """Decode log records, and write commits, group records, control records and quarantine to their own files."""
        for partition, anchors in candidates(records):
            self.done.anchors[partition] = choose([*self.done.anchors.get(partition, ()), *anchors])
        for what, rows in decode_batch(records):
            self.done.tally.add(what, rows, self.audited)
            partitions = numbers_of(rows.column("log_partition"), -1)
            of_rows = np.where(partitions < 0, NO_BUCKET, partitions % self.buckets)
            for bucket in sorted(pc.unique(pa.array(of_rows)).to_pylist()):
                self._write(what, bucket, some(rows, of_rows == bucket))

    def _write(self, what: str, bucket: int, rows: pa.RecordBatch) -> None:
        self.writer.add(staged_part(f"{what} {bucket} {self.copy}", f"{self.folder}/{what}", STAGED[what]), rows)

    def close(self) -> DecodedFile:
        """Finish the staged files, and return them with the counts of the task."""
        for file in self.writer.close():
            what, bucket, copy = file.part.split(" ", 2)
            self.done.files.append(StagedFile(what, int(bucket), file, copy))
        return self.done


def _unread(records: pa.RecordBatch, audited: Audited) -> int:
    """Return the number of records at log offsets that no earlier run has read. Damaged bytes are no records."""
    is_record = records.column("error_class").is_null().to_numpy(zero_copy_only=False)
    return int((is_record & ~is_audited(records, audited)).sum())


@dataclass(slots=True)
class _Counts:
    """Counts of a file's records.

    Attributes:
        passed: number of records that were read only to compare them with anchors (``completeness.anchors``).
        left_out: number of records that an election has truncated.
        unread: number of records at log offsets that no earlier run has read.
    """

    passed: int = 0
    left_out: int = 0
    unread: int = 0


def _cover(done: DecodedFile, covered: SegmentCoverage, share: FileShare, counts: _Counts) -> None:
    """Add the log offsets that a segment covers to the result of the task."""
    file, base = share.file, base_offset(share.file)
    limit = LARGEST_INT64 if share.limit is None else share.limit
    if covered.first_offset is None or covered.last_offset is None:
        return
    first = covered.first_offset if base is None else min(base, covered.first_offset)
    if first >= limit:
        return
    done.extents.append(
        Extent(
            log_partition=file.log_partition,
            first_offset=first,
            last_offset=min(covered.last_offset, limit - 1),
            records=covered.records + covered.skipped - counts.left_out,
            skipped=covered.skipped + counts.passed,
            unread=counts.unread,
            copy=copy_name(file),
            damaged=covered.damaged,
        )
    )


def copy_name(file: DumpFile) -> str:
    """Return the name of the copy that a file belongs to.

    This is the folder of the file. A file that is no longer in the log is a copy of its own, named by its URI.
    """
    return file.uri.rpartition("/")[0] if file.is_current else file.uri


def _are_within(records: pa.RecordBatch, offsets: Numbers, ranges: SkipRanges) -> Bools:
    """Return, for each record, whether the record lies in the ranges of log offsets.

    A damaged record counts as outside.
    """
    is_within: Bools = ranges.have(offsets)
    if is_within.any():
        is_within &= records.column("error_class").is_null().to_numpy(zero_copy_only=False)
    return is_within


def _read(
    share: FileShare, passed_over: SkipRanges, hops: SkipRanges, audited: Audited, done: DecodedFile
) -> Iterator[SegmentPart]:
    """Yield the parts of a segment file, and compare its records with the records that earlier runs kept (anchors).

    Leave out records in ``passed_over``, and records from ``share.limit`` on.

    Args:
        share: the file with the ranges to skip.
        passed_over: ranges of log offsets whose records are not returned.
        hops: ranges of log offsets that are not even read. The anchors lie outside these ranges.
        audited: log offsets that earlier runs have read.
        done: takes the notes on the file.
    """
    file, counts, compared = share.file, _Counts(), list[Comparison]()
    limit = LARGEST_INT64 if share.limit is None else share.limit
    for part in read_file(file, hops):
        records = part.records
        compared += compare(records, {file.log_partition: share.anchors})
        offsets = numbers_of(records.column("log_offset"), -1)
        is_passed, is_out = _are_within(records, offsets, passed_over), offsets >= limit
        kept = some(records, ~is_passed & ~is_out)
        counts.passed += int(is_passed.sum())
        counts.left_out += int((is_out & ~is_passed).sum())
        counts.unread += _unread(kept, audited)
        done.notes += [f"{file.uri}: {note}" for note in part.notes]
        if part.coverage is not None:
            _cover(done, part.coverage, share, counts)
            topic_id = None if share.metadata is None else read_topic_id(share.metadata)
            # A file that is no longer in the log may be of a branch that the log has left.
            epochs = part.coverage.epochs if file.is_current else []
            checkpoint = [] if share.checkpoint is None else read_epochs(share.checkpoint)
            done.parts.append(LogCopy(folder_of(file), file.log_partition, compared, topic_id, epochs, checkpoint))
        yield replace(part, records=kept)


def decode_files(files: Sequence[FileShare], folder: str, buckets: int) -> DecodedFile:
    """Decode segment files, one after the other, and write the decoded rows to staged files.

    Args:
        files: the files in the order of the dump, each with the log offsets that earlier runs have read.
        folder: the folder for staged files.
        buckets: number of buckets of the warehouse.
    """
    audited = audited_in({partition: ranges for file in files for partition, ranges in file.audited.items()})
    stager = _Stager(folder, audited, buckets)
    for stager.copy, of_copy in groupby(files, key=lambda file: copy_name(file.file)):
        shares = list(of_copy)
        # A file that is no longer part of the log may have records that compaction has removed since.
        skip = shares[0].skip if shares[0].file.is_current else ()
        hops = around(skip, (anchor.log_offset for anchor in shares[0].anchors))
        ranges = SkipRanges(skip), SkipRanges(hops), audited
        for records in gather_records(part for share in shares for part in _read(share, *ranges, stager.done)):
            stager.add(records)
    return stager.close()


def decode_rows(
    batches: Batches,
    folder: str,
    buckets: int,
    audited: Ranges = MappingProxyType({}),
    anchors: Mapping[int, Sequence[Anchor]] = MappingProxyType({}),
) -> DecodedFile:
    """Decode log records, and write the decoded rows to staged files.

    Args:
        batches: the log records, with the columns of ``LOG_RECORD``.
        folder: the folder for staged files.
        buckets: number of buckets of the warehouse.
        audited: ranges of log offsets that earlier runs have read, by log partition.
        anchors: records that earlier runs have kept to recognise the log by, by log partition.
    """
    stager = _Stager(folder, audited_in(audited), buckets)
    compared: list[Comparison] = []
    for batch in batches:
        for records in bounded(batch):
            compared += compare(records, anchors)
            stager.add(records)
    for partition in stager.done.tally.log_partitions:
        stager.done.parts.append(
            LogCopy("", partition, [comparison for comparison in compared if comparison.log_partition == partition])
        )
    return stager.close()
