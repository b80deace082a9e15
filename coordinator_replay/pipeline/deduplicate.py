"""Deduplication: staged rows become rows of the record tables, one row for each position of the log.

If several copies have a record at a position, the record with the highest leader epoch is kept, because the log of the
newest leader counts. Each row gets ``missing_before``: the number of lower log offsets of its log partition at which no
dump had a record.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import Bools, Numbers, as_bools, distinct, numbers_of, some
from coordinator_replay.completeness.copies import CopyOffsets
from coordinator_replay.log.schema import DamageClass
from coordinator_replay.pipeline.bucket_files import BucketFiles, TableWriter
from coordinator_replay.pipeline.bucket_share import BucketShare
from coordinator_replay.pipeline.read.decode import STAGED, StagedFile
from coordinator_replay.pipeline.read.tally import BATCH_EPOCH, COMMIT, CONTROL, QUARANTINE, RECORD, Ranges, kinds_of
from coordinator_replay.records.damage import ErrorClass
from coordinator_replay.store.scan import read_paths
from coordinator_replay.tables.definition import table

OffsetsByCopy = dict[tuple[int, str], CopyOffsets]
"""The offsets at which a copy has records, by log partition and copy."""

RECORD_TABLES = {
    COMMIT: "offset_commits",
    RECORD: "group_records",
    QUARANTINE: "quarantine",
    CONTROL: "control_records",
}
"""The table for each category of staged rows (``decode.KINDS``)."""

NUMBERED = tuple(name for what, name in RECORD_TABLES.items() if what != QUARANTINE)
"""The tables with a column ``missing_before``."""

DAMAGE = pa.array([*map(str, DamageClass), "MalformedLine", "MalformedRow"], pa.string())
"""Error classes of damage: bytes of a segment, lines or rows that are no record and have no position."""

_NO_EPOCH = -(2**31)
_PLACE = ("log_partition", "log_offset")


@dataclass(slots=True)
class Deduplicated:
    """Counts of a bucket's records.

    Attributes:
        written: the number of records that are new to the tables, by category (a key of RECORD_TABLES).
        kinds: the number of the records in ``written``, by category and by Kafka's name of the record's kind. Records
            that could not be read are counted by error class.
        duplicates: number of records that were dropped, because another copy has them too.
        already: number of records that were dropped, because the tables had them already.
        positions: the number of positions that hold a record now, by log partition.
    """

    written: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    duplicates: int = 0
    already: int = 0
    positions: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Columns of a bucket's staged rows. Rows are numbered file by file, in the order of the dump.

    Attributes:
        starts: for each file, the number of its first row; after the last file, the count of all rows.
        has_place: for each row, whether it has a log partition and a log offset; False for damaged bytes.
        has_key: for each row, whether the key of the record could be decoded.
        identity: for each row about damaged bytes, a tuple that identifies the bytes (``_identity``), by row number.
    """

    partitions: Numbers
    offsets: Numbers
    epochs: Numbers
    is_quarantined: Bools
    has_place: Bools
    has_key: Bools
    starts: Sequence[int]
    identity: Mapping[int, tuple[Any, ...]]


_QUARANTINE_COLUMNS = ("error_class", "source", "key", "value", "kind")
"""Columns of quarantined rows that are read in addition to their position."""


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a tuple that identifies damaged bytes in a row of ``quarantine``.

    Damaged bytes of a segment are identified by the name of the file and the byte position. A malformed line or row is
    identified by its bytes.
    """
    name = (row["source"] or "").rstrip("/").rsplit("/", 1)[-1]
    is_placed = "@" in name
    bytes_ = (None, None) if is_placed else (row["key"], row["value"])
    return row["log_partition"], row["log_offset"], row["error_class"], name if is_placed else None, *bytes_


def _is_damage(batch: pa.RecordBatch) -> Bools:
    is_damage: Bools = pc.is_in(batch.column("error_class"), value_set=DAMAGE).to_numpy(zero_copy_only=False)
    return is_damage


def _have_key(batch: pa.RecordBatch) -> Bools:
    """Return, for each record in ``quarantine``, whether its key could be decoded.

    Also return True for a record of a kind that this release does not know. Brokers skip such records, too.
    """
    is_of_no_kind = pc.equal(batch.column("error_class"), str(ErrorClass.UNKNOWN_RECORD_TYPE))
    return as_bools(pc.or_(batch.column("kind").is_valid(), is_of_no_kind))


def _joined(parts: Sequence[npt.NDArray[Any]], kind: Any) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0, kind)


def _read(files: Sequence[StagedFile]) -> _Rows:
    columns: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in (*_PLACE, BATCH_EPOCH)}
    quarantined: list[npt.NDArray[np.bool_]] = []
    damaged: list[npt.NDArray[np.bool_]] = []
    keyed: list[npt.NDArray[np.bool_]] = []
    starts, identity = [0], {}
    for what, _, file, _ in files:
        rows = starts[-1]
        for batch in read_paths([file.path], [*columns, *(_QUARANTINE_COLUMNS if what == QUARANTINE else ())]):
            n = batch.num_rows
            for name, parts in columns.items():
                parts.append(numbers_of(batch.column(name), _NO_EPOCH if name == BATCH_EPOCH else -1))
            quarantined.append(np.full(n, what == QUARANTINE))
            is_damage = _is_damage(batch) if what == QUARANTINE else np.zeros(n, np.bool_)
            damaged.append(is_damage)
            keyed.append(_have_key(batch) if what == QUARANTINE else np.ones(n, np.bool_))
            for place in np.flatnonzero(is_damage).tolist():
                identity[rows + place] = _identity(batch.slice(place, 1).to_pylist()[0])
            rows += n
        starts.append(rows)
    partitions, offsets, epochs = (_joined(parts, np.int64) for parts in columns.values())
    has_place = (partitions >= 0) & (offsets >= 0) & ~_joined(damaged, np.bool_)
    is_quarantined, has_key = _joined(quarantined, np.bool_), _joined(keyed, np.bool_)
    return _Rows(partitions, offsets, epochs, is_quarantined, has_place, has_key, starts, identity)


def _best_copies(rows: _Rows) -> Bools:
    """Return, for each row, whether the row is kept if several copies have a record at its position.

    The row with the highest leader epoch is kept. If several rows have this epoch, the row of the first file is kept.
    Return False for a row without a position.
    """
    [placed] = np.nonzero(rows.has_place)
    partitions, offsets = rows.partitions[placed], rows.offsets[placed]
    keep = np.zeros(len(rows.partitions), np.bool_)
    is_next = (partitions[1:] > partitions[:-1]) | ((partitions[1:] == partitions[:-1]) & (offsets[1:] > offsets[:-1]))
    if is_next.all():
        keep[placed] = True
        return keep
    order = np.lexsort([placed, -rows.epochs[placed], offsets, partitions])
    in_order = np.stack([partitions[order], offsets[order]])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (in_order[:, 1:] != in_order[:, :-1]).any(axis=0)
    keep[placed[order[is_first]]] = True
    return keep


def _in_ranges(rows: _Rows, ranges: Ranges) -> Bools:
    is_in = np.zeros(len(rows.partitions), np.bool_)
    for partition, of_partition in ranges.items():
        is_own = rows.partitions == partition
        for start, end in of_partition:
            is_in |= is_own & (rows.offsets >= start) & (rows.offsets < end)
    return is_in & rows.has_place


def _are_lost(rows: pa.RecordBatch, lost_from: Mapping[int, int]) -> Bools:
    """Return, for each row of a table, whether an election has truncated the record of the row.

    Args:
        rows: the rows, with a log partition and a log offset.
        lost_from: the first log offset that an election truncated, by log partition.
    """
    partitions, offsets = (numbers_of(rows.column(name), -1) for name in _PLACE)
    lost = np.zeros(rows.num_rows, np.bool_)
    for partition, start in lost_from.items():
        lost |= (partitions == partition) & (offsets >= start)
    return lost


class _Existing:
    """Records that a bucket's tables already have, without records that an election truncated.

    Attributes:
        places: log offsets of the records in tables other than ``quarantine``, by log partition.
        quarantined: log offsets of the records in ``quarantine``, by log partition.
        identities: identities of the damaged bytes in ``quarantine``, see ``_identity``.

    Args:
        files: files of the bucket.
        positions: whether to read the log offsets of the records. If False, only ``identities`` is filled.
        lost_from: the first log offset that an election truncated, by log partition.
    """

    def __init__(self, files: BucketFiles, *, positions: bool, lost_from: Mapping[int, int]) -> None:
        self.lost_from = lost_from
        self.places: dict[int, Numbers] = {}
        self.quarantined: dict[int, Numbers] = {}
        self.identities = set(self._damage(files))
        if positions:
            by_table = {name: list(self._positions(files, name)) for name in RECORD_TABLES.values()}
            self.places = _by_partition([rows for name in NUMBERED for rows in by_table[name]])
            self.quarantined = _by_partition(by_table[RECORD_TABLES[QUARANTINE]])

    def _damage(self, files: BucketFiles) -> Iterator[tuple[Any, ...]]:
        uris = [file.uri for file in files.old(RECORD_TABLES[QUARANTINE])]
        for batch in read_paths(uris, [*_PLACE, *_QUARANTINE_COLUMNS]):
            is_kept = _is_damage(batch) & ~_are_lost(batch, self.lost_from)
            yield from map(_identity, some(batch, is_kept).to_pylist())

    def _positions(self, files: BucketFiles, name: str) -> Iterator[tuple[Numbers, Numbers]]:
        names = [*_PLACE, *(("error_class",) if name == RECORD_TABLES[QUARANTINE] else ())]
        for batch in read_paths([file.uri for file in files.old(name)], names):
            rows = some(batch, ~_is_damage(batch)) if "error_class" in batch.schema.names else batch
            partitions, offsets = (numbers_of(rows.column(name), -1) for name in _PLACE)
            is_placed = (partitions >= 0) & (offsets >= 0) & ~_are_lost(rows, self.lost_from)
            yield partitions[is_placed], offsets[is_placed]


def _by_partition(positions: Sequence[tuple[Numbers, Numbers]]) -> dict[int, Numbers]:
    """Return the sorted log offsets of each log partition, each log offset once."""
    if not positions:
        return {}
    partitions, offsets = (np.concatenate(columns) for columns in zip(*positions, strict=True))
    return {partition: distinct(offsets[partitions == partition]) for partition in np.unique(partitions).tolist()}


def _exist(rows: _Rows, existing: Mapping[int, Numbers]) -> Bools:
    """Return, for each row, whether the tables already have a row at its position."""
    is_there = np.zeros(len(rows.partitions), np.bool_)
    for partition, offsets in existing.items():
        [own] = np.nonzero((rows.partitions == partition) & rows.has_place)
        is_there[own] = np.isin(rows.offsets[own], offsets)
    return is_there


def offsets_by_copy(staged: Sequence[StagedFile]) -> OffsetsByCopy:
    """Return the log offsets of the records in a bucket's staged files, by copy of a log partition."""
    return _offsets(staged, _read(staged))


def _offsets(staged: Sequence[StagedFile], rows: _Rows) -> OffsetsByCopy:
    by_copy: dict[tuple[int, str], list[CopyOffsets]] = {}
    for number, (_, _, _, copy) in enumerate(staged):
        own = slice(rows.starts[number], rows.starts[number + 1])
        partitions, has_place, has_key, offsets = (
            column[own] for column in (rows.partitions, rows.has_place, rows.has_key, rows.offsets)
        )
        for partition in np.unique(partitions[has_place]).tolist():
            is_own = has_place & (partitions == partition)
            by_copy.setdefault((partition, copy), []).append(
                CopyOffsets(offsets[is_own & has_key], offsets[is_own & ~has_key])
            )
    return {key: CopyOffsets(*map(np.concatenate, zip(*parts, strict=True))) for key, parts in by_copy.items()}


@dataclass(frozen=True, slots=True)
class Deduplication:
    """Deduplication of the records of a bucket: each record is written to the tables once.

    Attributes:
        share: the bucket.
        files: the bucket's files of the record tables.
    """

    share: BucketShare
    files: BucketFiles

    def run(self, writer: TableWriter) -> tuple[Deduplicated, OffsetsByCopy]:
        """Write the new records.

        If the value of ``missing_before`` may change for records in the tables, write these records again.

        Returns:
            Counts of the records, and the log offsets at which each copy has records.
        """
        rows = _read(self.share.staged)
        existing = _Existing(self.files, positions=self.share.are_late, lost_from=self.share.lost_from)
        keep = _best_copies(rows)
        counts = Deduplicated(duplicates=int((rows.has_place & ~keep).sum()))
        is_already = self._are_already_read(rows, existing) & keep
        keep &= ~is_already
        counts.already = int(is_already.sum())
        self._keep_damage(rows, keep, existing, counts)
        numbers = self._numbers(rows, keep, existing)
        counts.positions = {partition: len(offsets) + self._before(partition) for partition, offsets in numbers.items()}
        self._write(rows, keep, numbers, writer, counts)
        if self.share.are_late and (self.share.lost_from or (keep & rows.has_place).any()):
            self._rewrite(rows, keep, numbers, writer)
        return counts, _offsets(self.share.staged, rows)

    def _are_already_read(self, rows: _Rows, existing: _Existing) -> Bools:
        if not self.share.are_late:
            return _in_ranges(rows, self.share.ranges)
        # A record that can be decoded now replaces the quarantined record at its position.
        again = _exist(rows, existing.quarantined) & rows.is_quarantined
        return _exist(rows, existing.places) | again

    def _keep_damage(self, rows: _Rows, keep: Bools, existing: _Existing, counts: Deduplicated) -> None:
        """Set ``keep`` to true for rows about damaged bytes that ``quarantine`` does not have yet.

        If several copies have the same damaged bytes of a segment, keep one of the rows. Also keep all records without
        a position that could not be decoded.
        """
        seen: set[tuple[Any, ...]] = set()
        for place, identity in rows.identity.items():
            if identity in existing.identities:
                counts.already += 1
            elif identity in seen and identity[3] is not None:
                counts.duplicates += 1
            else:
                seen.add(identity)
                keep[place] = True
        for place in np.flatnonzero(~rows.has_place & ~keep).tolist():
            # If the row is no damage, it is a record without a position that could not be decoded.
            keep[place] = place not in rows.identity

    def _numbers(self, rows: _Rows, keep: Bools, existing: _Existing) -> dict[int, Numbers]:
        """Return the sorted log offsets of records from which ``missing_before`` is computed, by log partition.

        If all new records come after the records of the tables, these are the log offsets of the new records.
        Otherwise they are the log offsets of all records.
        """
        new = keep & rows.has_place
        new_offsets = _by_partition([(rows.partitions[new], rows.offsets[new])])
        if not self.share.are_late:
            return new_offsets
        sources = (new_offsets, existing.places, existing.quarantined)
        return {
            partition: distinct(np.concatenate([offsets[partition] for offsets in sources if partition in offsets]))
            for partition in set().union(*sources)
        }

    def _missing(self, partitions: Numbers, offsets: Numbers, numbers: Mapping[int, Numbers]) -> Numbers:
        """Return, for each record, how many lower log offsets of its log partition have no record."""
        missing = np.zeros(len(offsets), np.int64)
        for partition in np.unique(partitions).tolist():
            [own] = np.nonzero(partitions == partition)
            missing[own] = offsets[own] - self._before(partition) - np.searchsorted(numbers[partition], offsets[own])
        return missing

    def _before(self, partition: int) -> int:
        """Return the number of records of a log partition that ``_numbers`` leaves out.

        ``_numbers`` leaves out the records that the tables have already, if all new records have higher log offsets.
        """
        return 0 if self.share.are_late else self.share.positions.get(partition, 0)

    def _write(
        self, rows: _Rows, keep: Bools, numbers: Mapping[int, Numbers], writer: TableWriter, counts: Deduplicated
    ) -> None:
        for number, (what, _, file, _) in enumerate(self.share.staged):
            start = rows.starts[number]
            kept = keep[start : rows.starts[number + 1]]
            counts.written[what] += int(kept.sum())
            if not kept.any():
                continue
            at = 0
            for batch in read_paths([file.path], STAGED[what].names):
                taken = some(batch, kept[at : at + batch.num_rows])
                at += batch.num_rows
                if taken.num_rows:
                    counts.kinds.update(_kinds(what, taken))
                    writer.add(RECORD_TABLES[what], self._numbered(taken, numbers) if what != QUARANTINE else taken)

    def _numbered(self, batch: pa.RecordBatch, numbers: Mapping[int, Numbers]) -> pa.RecordBatch:
        partitions, offsets = (numbers_of(batch.column(name)) for name in _PLACE)
        place = batch.schema.get_field_index("missing_before")
        missing = pa.array(self._missing(partitions, offsets, numbers))
        return batch.set_column(place, "missing_before", missing)

    def _rewrite(self, rows: _Rows, keep: Bools, numbers: Mapping[int, Numbers], writer: TableWriter) -> None:
        """Write all rows of the bucket's record tables again, with a new ``missing_before``.

        Leave out records that an election truncated, and records of ``quarantine`` that could be decoded now.
        """
        for name in RECORD_TABLES.values():
            old = self.files.old(name)
            self.files.remove(name)
            for file in old:
                for stored in read_paths([file.uri], _columns(name)):
                    batch = some(stored, ~_are_lost(stored, self.share.lost_from))
                    if name == RECORD_TABLES[QUARANTINE]:
                        writer.add(name, some(batch, ~self._are_replaced(batch, rows, keep)))
                    else:
                        writer.add(name, self._numbered(batch, numbers))

    @staticmethod
    def _are_replaced(batch: pa.RecordBatch, rows: _Rows, keep: Bools) -> Bools:
        new = keep & rows.has_place & ~rows.is_quarantined
        partitions, offsets = (numbers_of(batch.column(name), -1) for name in _PLACE)
        replaced = np.zeros(batch.num_rows, np.bool_)
        is_record = ~_is_damage(batch)
        for partition in np.unique(partitions).tolist():
            of_partition = rows.offsets[new & (rows.partitions == partition)]
            replaced |= is_record & (partitions == partition) & np.isin(offsets, of_partition)
        return replaced


def _kinds(what: str, rows: pa.RecordBatch) -> Counter[tuple[str, str | None]]:
    counts = pc.value_counts(kinds_of(what, rows))
    return Counter({(what, count["values"]): count["counts"] for count in counts.to_pylist()})


def _columns(name: str) -> list[str]:
    return list(table(name).file_schema().names)
