"""Rows of record batches (magic 2).

``Batches`` reads the batches of an ``EntryRun`` in groups. The records of a group become one Arrow batch. Compressed
batches are decompressed first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from coordinator_replay.log.compression import Codec, DecompressionError, decompress
from coordinator_replay.log.coverage import SegmentCoverage
from coordinator_replay.log.layout import BATCH_OVERHEAD, Attribute, HeaderField
from coordinator_replay.log.record_batch import (
    SHORTEST_RECORD,
    scan_records,
)
from coordinator_replay.log.rows import Damage, Records, SegmentRows, in_file_order
from coordinator_replay.log.schema import DamageClass
from coordinator_replay.log.walk import EntryRun

MOST_RECORDS = 1 << 17
"""Largest number of records in one Arrow batch."""


@dataclass(slots=True)
class _Group:
    """Batches whose records are read together.

    Attributes:
        data: bytes that have the uncompressed records of all batches.
        starts: position in ``data`` at which the records of each batch begin.
        ends: position in ``data`` at which the records of each batch end.
        headers: the headers of the batches.
        skipped_before: number of records of the file that were skipped before each batch.
        failures: class and text of the damage in each batch that can't be read, by the batch's index.
    """

    data: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    headers: np.ndarray
    skipped_before: np.ndarray
    failures: dict[int, tuple[DamageClass, str]]


class Batches:
    """A reader of the record batches of one file. It takes many consecutive batches at a time (``EntryRun``)."""

    def __init__(self, rows: SegmentRows, tally: SegmentCoverage, *, part_bytes: int, max_plain_bytes: int) -> None:
        self._rows = rows
        self._tally = tally
        self._part_bytes = part_bytes
        self._max_plain_bytes = max_plain_bytes

    def read(self, run: EntryRun) -> Iterator[pa.RecordBatch]:
        """Yield the rows of consecutive batches: their records, and a row for each batch whose records can't be read.

        Batches that earlier audits have read are counted, but yield no rows.
        """
        headers = run.headers
        firsts = headers[HeaderField.OFFSET]
        counts = headers[HeaderField.RECORD_COUNT]
        positions = headers[HeaderField.POSITION] + run.window.position
        lasts = firsts + np.maximum(headers[HeaderField.LAST_OFFSET_DELTA], 0)
        self._tally.see_epochs(headers[HeaderField.LEADER_EPOCH], firsts, lasts)
        self._tally.see(firsts, lasts, positions)
        self._tally.see_empty(positions[counts == 0])
        skipped_counts = np.where(run.skipped, counts, 0)
        skipped_before = np.cumsum(skipped_counts) - skipped_counts + self._tally.skipped
        self._tally.skipped += int(skipped_counts.sum())
        if run.skipped.any():
            kept = ~run.skipped
            headers, skipped_before = headers[:, kept], skipped_before[kept]
        for group in self._groups(run, headers, skipped_before):
            yield from self._read_group(run, group)

    def _groups(self, run: EntryRun, headers: np.ndarray, skipped_before: np.ndarray) -> Iterator[_Group]:
        codecs = headers[HeaderField.ATTRIBUTES] & Attribute.CODEC
        is_compressed = (codecs != Codec.NONE) & (headers[HeaderField.SIZE] > BATCH_OVERHEAD)
        if is_compressed.any():
            yield from self._plain_copies(run, headers, skipped_before)
            return
        starts = headers[HeaderField.POSITION] + BATCH_OVERHEAD
        ends = headers[HeaderField.POSITION] + headers[HeaderField.SIZE]
        for part in _cuts(np.minimum(headers[HeaderField.RECORD_COUNT], (ends - starts) // SHORTEST_RECORD)):
            group_headers, before = headers[:, part], skipped_before[part]
            yield _Group(run.window.data, starts[part], ends[part], group_headers, before, {})

    def _plain_copies(self, run: EntryRun, headers: np.ndarray, skipped_before: np.ndarray) -> Iterator[_Group]:
        first, size, records = 0, 0, 0
        bodies: list[memoryview] = []
        failures: dict[int, tuple[DamageClass, str]] = {}
        for index in range(headers.shape[1]):
            body, failure = self._plain(run, headers[:, index])
            claimed = min(int(headers[HeaderField.RECORD_COUNT, index]), len(body) // SHORTEST_RECORD)
            if bodies and (size + len(body) > self._part_bytes or records + claimed > MOST_RECORDS):
                part = slice(first, index)
                yield _joined(bodies, headers[:, part], skipped_before[part], failures)
                first, size, records, bodies, failures = index, 0, 0, [], {}
            if failure is not None:
                failures[index - first] = failure
            bodies.append(body)
            size += len(body)
            records += claimed
        yield _joined(bodies, headers[:, first:], skipped_before[first:], failures)

    def _plain(self, run: EntryRun, header: np.ndarray) -> tuple[memoryview, tuple[DamageClass, str] | None]:
        """Return the uncompressed records of a batch, and the damage.

        The damage is None if the records could be decompressed. Otherwise it has the class and text of the damage, and
        the returned records have no bytes.
        """
        start = int(header[HeaderField.POSITION])
        body = run.window.view[start + BATCH_OVERHEAD : start + int(header[HeaderField.SIZE])]
        codec = int(header[HeaderField.ATTRIBUTES]) & Attribute.CODEC
        if codec > max(Codec):
            return body[:0], (DamageClass.UNSUPPORTED_CODEC, f"Codec {codec} is unknown.")
        try:
            return (decompress(Codec(codec), body, self._max_plain_bytes) if len(body) else body), None
        except DecompressionError as error:
            return body[:0], (DamageClass.DECOMPRESSION_FAILED, f"{error}.")

    def _read_group(self, run: EntryRun, group: _Group) -> Iterator[pa.RecordBatch]:
        possible = (group.ends - group.starts) // SHORTEST_RECORD
        counts = group.headers[HeaderField.RECORD_COUNT]
        is_absurd = (counts < 0) | (counts > possible) | (group.headers[HeaderField.LAST_OFFSET_DELTA] < 0)
        for index in np.flatnonzero(is_absurd).tolist():
            text = f"{counts[index]} records can't be in {group.ends[index] - group.starts[index]} bytes."
            group.failures.setdefault(index, (DamageClass.MALFORMED_BATCH, text))
        counts = np.where(is_absurd, 0, counts)
        if len(counts) == 1 and counts[0] > MOST_RECORDS:
            yield from self._read_in_slices(run, group, int(counts[0]))
            return
        records, stops = _scan(run, group, group.starts, counts, np.full(len(counts), -1))
        for index in np.flatnonzero(stops != group.ends).tolist():
            text = f"The {counts[index]} records of a batch are malformed, or do not end where the batch ends."
            group.failures.setdefault(index, (DamageClass.MALFORMED_BATCH, text))
        parts = [self._records(group, records)] if len(records.offsets) else []
        if group.failures:
            self._tally.damaged += len(group.failures)
            parts.append(self._rows.damage([_damage(run, group, index) for index in sorted(group.failures)]))
        if parts:
            yield in_file_order(parts)

    def _read_in_slices(self, run: EntryRun, group: _Group, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch with more than ``MOST_RECORDS`` records, in slices.

        The batch is read twice: first to check that it is intact, then for its rows. If it is not intact, yield one row
        of damage instead.
        """
        most = MOST_RECORDS // 2  # while a slice is made, the caller still holds the slice before it
        for for_rows in (False, True):
            position, after, left = group.starts, np.array([-1]), count
            while left:
                wanted = np.array([min(left, most)])
                records, stops = _scan(run, group, position, wanted, after, whole=left <= most)
                if stops[0] < 0:
                    text = f"The {count} records of a batch are malformed, or do not end where the batch ends."
                    group.failures[0] = (DamageClass.MALFORMED_BATCH, text)
                    self._tally.damaged += 1
                    yield self._rows.damage([_damage(run, group, 0)])
                    return
                if for_rows:
                    yield self._records(group, records)
                after = records.offsets[-1:] - group.headers[HeaderField.OFFSET]
                position, left = stops, left - int(wanted[0])

    def _records(self, group: _Group, records: Records) -> pa.RecordBatch:
        missing_before = self._tally.count(records.offsets, records.counts, group.skipped_before)
        return self._rows.records(group.headers, records, missing_before)


def _scan(
    run: EntryRun,
    group: _Group,
    starts: np.ndarray,
    counts: np.ndarray,
    after_deltas: np.ndarray,
    *,
    whole: bool = True,
) -> tuple[Records, np.ndarray]:
    """Read some records of each batch.

    Return the records, and for each batch the position after the last record that was read. The position is -1 for a
    malformed batch, which yields no records.

    Args:
        run: the run of entries to which the batches belong.
        group: the batches.
        starts: for each batch, the position in the group's data where its records begin.
        counts: for each batch, the number of records to read.
        after_deltas: for each batch, a number that the offset delta of the first record to read must exceed.
        whole: whether the last record to read must end where the batch ends. If the record does not end there, the
            batch is malformed.
    """
    headers = group.headers
    is_append_time = (headers[HeaderField.ATTRIBUTES] & Attribute.LOG_APPEND_TIME) != 0
    times = np.where(is_append_time, headers[HeaderField.MAX_TIMESTAMP], headers[HeaderField.BASE_TIMESTAMP])
    limits = [starts, group.ends, counts, after_deltas, headers[HeaderField.LAST_OFFSET_DELTA]]
    positions = headers[HeaderField.POSITION] + run.window.position
    inherited = [headers[HeaderField.OFFSET], times, ~is_append_time, positions]
    batches = np.stack([*limits, np.full(len(starts), whole), *inherited])
    return scan_records(group.data, batches.astype(np.int64, order="C", copy=False))


def _cuts(counts: np.ndarray) -> Iterator[slice]:
    """Yield slices that cut a list of batches into groups of at most ``MOST_RECORDS`` records.

    A batch with more records is a group by itself.

    Args:
        counts: the number of records of each batch.
    """
    totals = np.cumsum(np.maximum(counts, 0))
    first, before = 0, 0
    while first < len(totals):
        stop = max(int(np.searchsorted(totals, before + MOST_RECORDS, "right")), first + 1)
        yield slice(first, stop)
        first, before = stop, int(totals[stop - 1])


def _joined(
    bodies: list[memoryview],
    headers: np.ndarray,
    skipped_before: np.ndarray,
    failures: dict[int, tuple[DamageClass, str]],
) -> _Group:
    arrays = [np.frombuffer(body, np.uint8) for body in bodies]
    # The compiled scan needs writable memory. A large body has it already and is not copied.
    data = arrays[0] if len(arrays) == 1 and arrays[0].flags.writeable else np.concatenate(arrays)
    ends = np.cumsum([len(array) for array in arrays])
    starts = np.concatenate([[0], ends[:-1]])
    return _Group(data, starts, ends, headers, skipped_before, failures)


def _damage(run: EntryRun, group: _Group, index: int) -> Damage:
    error_class, text = group.failures[index]
    start, size = int(group.headers[HeaderField.POSITION, index]), int(group.headers[HeaderField.SIZE, index])
    return Damage(
        error_class=error_class,
        message=text,
        position=start + run.window.position,
        size=size,
        offset=int(group.headers[HeaderField.OFFSET, index]),
        head=bytes(run.window.view[start : start + size]),
    )
