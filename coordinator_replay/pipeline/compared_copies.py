"""The stage that compares the copies of a log partition with each other and with the records of earlier runs.

The stage runs only for log partitions whose copies may come from leaders with different leader epochs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import NONE, numbers_of, some
from coordinator_replay.completeness.copies import CopyBounds, CopyOffsets, copy_of
from coordinator_replay.completeness.lost_tail import (
    NO_EPOCH,
    Divergence,
    LogRecords,
    SegmentCopy,
    divergence,
    last_epoch,
)
from coordinator_replay.completeness.same_log import EarlierLog, LogCopy
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.log.coverage import EpochStart
from coordinator_replay.pipeline.deduplicate import RECORD_TABLES, offsets_by_copy
from coordinator_replay.pipeline.read.copies import DumpCopy
from coordinator_replay.pipeline.read.decode import STAGED, StagedFile
from coordinator_replay.pipeline.read.tally import BATCH_EPOCH, COMMIT, CONTROL, RECORD
from coordinator_replay.pipeline.stored_copies import COPIES, read_copies
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.store.scan import read_paths, reader_of
from coordinator_replay.store.snapshot import TableFile

_PLACE = ("log_partition", "log_offset", "log_timestamp", "producer_id", BATCH_EPOCH)
_READ = {
    COMMIT: (
        *(*_PLACE, "is_transactional", "group_id", "topic", "partition", "committed_offset", "metadata"),
        *("commit_timestamp", "expire_timestamp", "topic_id", "is_tombstone", "value_version", "record_bytes"),
    ),
    RECORD: (*_PLACE, "is_transactional", "kind", "key_json", "value_json", "value_version", "record_bytes"),
    CONTROL: (*_PLACE, "producer_epoch", "control_type"),
}
_SCHEMAS = {what: pa.schema([STAGED[what].field(name) for name in names]) for what, names in _READ.items()}

_RECORDS = f"""
WITH every AS (
    SELECT log_offset, hash('commit', group_id, topic, partition) AS key, hash(committed_offset, metadata,
        commit_timestamp, expire_timestamp, topic_id, is_tombstone, value_version, record_bytes) AS content,
        log_timestamp, producer_id, is_transactional, {BATCH_EPOCH} AS epoch
    FROM commits
    UNION ALL
    SELECT log_offset, hash('record', kind, key_json), hash(value_json, value_version, record_bytes),
        log_timestamp, producer_id, is_transactional, {BATCH_EPOCH}
    FROM records
    UNION ALL
    SELECT log_offset, hash('marker', log_offset), hash(control_type, producer_id, producer_epoch),
        log_timestamp, producer_id, NULL, {BATCH_EPOCH}
    FROM markers
), decisions AS (
    SELECT producer_id, log_offset AS decided_at, control_type, {BATCH_EPOCH} AS decided_epoch FROM markers
), decided AS (
    SELECT every.*, CASE
        WHEN NOT is_transactional THEN log_offset WHEN is_transactional AND control_type = 'COMMIT' THEN decided_at
    END AS decided, decided_epoch
    FROM every ASOF LEFT JOIN decisions
        ON every.producer_id = decisions.producer_id AND every.log_offset < decisions.decided_at
)
SELECT log_offset, key, content, log_timestamp, decided,
    CASE WHEN decided > log_offset THEN decided_epoch ELSE epoch END AS epoch
FROM decided ORDER BY log_offset
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class ComparedCopy:
    """A copy of a log partition, from a dump.

    Attributes:
        source: name of the copy in the staged files.
        bounds: the log offsets at which the copy begins and ends, and its gaps.
        is_moment: whether all files of the copy were copied at the same time, as far as their names show.
        starts: the log offsets at which leader epochs begin in the copy.
        checkpoint: leader epochs and their first log offsets, from the file ``leader-epoch-checkpoint`` beside the
            segments.
    """

    source: str
    bounds: CopyBounds
    is_moment: bool
    starts: Sequence[EpochStart] = ()
    checkpoint: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class CopiesShare:
    """A log partition whose copies are compared.

    Attributes:
        copies: the copies in the dump.
        staged: staged files of the log partition's bucket, from this run.
        tables: files of the bucket in the warehouse, by table; none if no earlier run has read the log partition.
        log: facts about the log partition from earlier runs; None if no earlier run has read the log partition.
    """

    log_partition: int
    copies: Sequence[ComparedCopy]
    staged: Sequence[StagedFile]
    tables: Mapping[str, Sequence[str]]
    log: EarlierLog | None = None

    @property
    def size(self) -> int:
        """Return a rough measure of the work on the share, by which shares are sorted."""
        return sum(staged.file.size for staged in self.staged)


def share_of(
    partition: int,
    copies: Sequence[DumpCopy],
    parts: Mapping[str, LogCopy],
    staged: Sequence[StagedFile],
    tables: Iterable[TableFile],
    log: EarlierLog | None,
) -> CopiesShare:
    """Return the input to compare the copies of a log partition.

    Args:
        partition: the log partition.
        copies: the copies in the dump, read from their beginning.
        parts: facts from the headers and checkpoints of the copies, by folder. A copy of ``.log.deleted`` files has no
            entry.
        staged: staged files of the log partition's bucket, from this run.
        tables: files of the bucket in the warehouse's tables; not used if ``log`` is None.
        log: facts about the log partition from earlier runs; None if no earlier run has read the partition.
    """
    by_table: dict[str, list[str]] = {}
    for file in tables:
        by_table.setdefault(file.table, []).append(file.uri)
    compared = []
    for copy in copies:
        part = parts.get(copy.source, LogCopy(copy.source, partition))
        # A swap file was copied later than the files beside it. A file that is not current is a copy of its own.
        is_moment = all(file.is_current and ".swap" not in file.uri for file in copy.files)
        compared.append(ComparedCopy(copy.source, copy.bounds, is_moment, part.epochs, part.checkpoint))
    return CopiesShare(partition, compared, staged, {} if log is None else by_table, log)


def compare_copies(share: CopiesShare) -> list[Divergence]:
    """Return the divergences between copies of a log partition, and between the copies and the records of earlier runs.

    Two copies diverge at a log offset if they are the same below it and have different records from there on.
    """
    return list(_divergences(share))


def _divergences(share: CopiesShare) -> Iterator[Divergence]:
    records: dict[str | None, LogRecords] = {}
    if share.log is not None:
        records[None] = _stored_records(share, share.log)
    records |= {copy.source: _staged_records(share, copy.source) for copy in share.copies}
    offsets = offsets_by_copy(share.staged)
    copies = [
        _segment_copy(copy, offsets.get((share.log_partition, copy.source), CopyOffsets()), records[copy.source])
        for copy in share.copies
    ]
    if share.log is not None and (newest := _newest_stored(share, share.log, records[None])) is not None:
        copies.append(newest)
    for copy in copies:
        for name, others in records.items():
            if name != copy.name and (found := divergence(copy, others, name)) is not None:
                yield found


def _segment_copy(compared: ComparedCopy, offsets: CopyOffsets, records: LogRecords) -> SegmentCopy:
    copy = copy_of("", compared.bounds, offsets)
    epochs = [start.leader_epoch for start in compared.starts] + [epoch for epoch, _ in compared.checkpoint]
    leader_epoch = last_epoch(copy, records, max(epochs, default=NO_EPOCH))
    return SegmentCopy(
        compared.source, copy, records, leader_epoch, compared.is_moment, compared.starts, compared.checkpoint
    )


def _newest_stored(share: CopiesShare, log: EarlierLog, stored: LogRecords) -> SegmentCopy | None:
    """Return the copy with the highest end among the copies that earlier runs have read.

    Return None in these cases:

    - No earlier run has read a copy.
    - The copy with the highest end is an export.
    - The cleaner may have removed records of this copy because of records after the copy's end.
    """
    copies = read_copies(share.tables.get(COPIES, ())).get(share.log_partition, [])
    copy = max(copies, key=lambda copy: copy.bounds.end, default=None)
    if copy is None or copy.bounds.is_export or copy.bounds.cleaned_to > copy.bounds.end:
        return None
    own = copy.has(stored.offsets)
    records = LogRecords(*(column[own] for column in astuple(stored)))
    return SegmentCopy(None, copy, records, last_epoch(copy, records, log.leader_epoch or NO_EPOCH))


def _staged_records(share: CopiesShare, source: str) -> LogRecords:
    def batches(what: str) -> Iterator[pa.RecordBatch]:
        paths = (staged.file.path for staged in share.staged if staged.what == what and staged.copy == source)
        return read_paths(paths, _READ[what])

    rows = _rows(share.log_partition, {what: batches(what) for what in _READ})
    epochs = numbers_of(rows.column("epoch").combine_chunks(), NO_EPOCH)
    return _records(rows, epochs, np.where(epochs < 0, LARGEST_INT64, epochs))


def _stored_records(share: CopiesShare, log: EarlierLog) -> LogRecords:
    where = pc.field("log_partition") == share.log_partition
    tables = {
        what: read_paths(share.tables.get(RECORD_TABLES[what], ()), names, where) for what, names in _READ.items()
    }
    rows = _rows(share.log_partition, tables)
    offsets, decided = (numbers_of(rows.column(name).combine_chunks(), NONE) for name in ("log_offset", "decided"))
    return _records(rows, *log.epochs_at(np.where(decided == NONE, offsets, decided)))


def _rows(partition: int, batches: Mapping[str, Iterable[pa.RecordBatch]]) -> pa.Table:
    def own(what: str) -> Iterator[pa.RecordBatch]:
        for batch in batches[what]:
            yield some(batch, numbers_of(batch.column("log_partition"), -1) == partition)

    commits, records, markers = (reader_of(own(what), _SCHEMAS[what]) for what in (COMMIT, RECORD, CONTROL))
    # The statement reads markers twice, so they can't be a stream.
    return select(_RECORDS, {}, commits=commits, records=records, markers=markers.read_all())


def _records(rows: pa.Table, lowest: np.ndarray, highest: np.ndarray) -> LogRecords:
    offsets, keys, contents, times, decided, _ = (column.combine_chunks() for column in rows.columns)
    return LogRecords(
        offsets=numbers_of(offsets),
        keys=keys.to_numpy().view(np.int64),
        contents=contents.to_numpy().view(np.int64),
        times=numbers_of(times, NONE),
        decided=numbers_of(decided, LARGEST_INT64),
        lowest_epochs=lowest,
        highest_epochs=highest,
    )
