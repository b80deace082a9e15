"""A segment file as columns: ``read_segment``.

A file is read through a window that slides over it, so memory depends on the window and the largest batch, not on the
file. For the same reason, rows are yielded in parts of limited size (``batches.MOST_RECORDS``).
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from coordinator_replay.log.batches import Batches
from coordinator_replay.log.compression import DEFAULT_LIMIT_BYTES
from coordinator_replay.log.coverage import NOTHING_SKIPPED, SegmentCoverage, SkipRanges, note
from coordinator_replay.log.header import is_plausible
from coordinator_replay.log.layout import OFFSET_LIMIT, SHORTEST_HEADER
from coordinator_replay.log.messages import Messages
from coordinator_replay.log.rows import Damage, SegmentRows
from coordinator_replay.log.schema import LOG_RECORD, DamageClass
from coordinator_replay.log.walk import EntryRun, Walk
from coordinator_replay.log.window import (
    DEFAULT_MAX_BATCH_BYTES,
    DEFAULT_WINDOW_BYTES,
    FileWindow,
    Readable,
)

_MOST_DAMAGES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """The rows of a range of a segment file. The last part has no rows, but the counts of the whole file.

    Attributes:
        records: rows of ``LOG_RECORD``: records, and damaged ranges between them, in file order.
        notes: remarks on the whole file; only in the last part, else empty.
        coverage: the log offsets that the file covers, and counts of its records; only in the last part, else None.
    """

    records: pa.RecordBatch
    notes: tuple[str, ...] = ()
    coverage: SegmentCoverage | None = None


def read_segment(
    file: Readable,
    *,
    source: str,
    log_partition: int,
    window_bytes: int = DEFAULT_WINDOW_BYTES,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    max_plain_bytes: int = DEFAULT_LIMIT_BYTES,
    skip: SkipRanges = NOTHING_SKIPPED,
) -> Iterator[SegmentPart]:
    """Yield the records of a segment file, plain or gzip'ed, in parts.

    Bytes that can't be read become rows of damage.

    Args:
        file: anything with ``readinto``; it is read from its current position to its end.
        source: the name of the file in the rows.
        log_partition: the partition that the file belongs to.
        window_bytes: number of bytes of the file in memory at once, unless a batch is larger.
        max_batch_bytes: a larger batch is damage.
        max_plain_bytes: a batch that decompresses to more is damage.
        skip: ranges of log offsets whose records earlier runs have read. A batch that lies inside one range is skipped
            without a check of its checksum, but the coverage counts it. Messages of magic 0 and 1 are read, and left
            out afterwards.

    Yields:
        The records in parts, then one last part with notes and coverage instead of rows. Bad bytes raise no error;
        errors from reading ``file`` pass through.
    """
    window = FileWindow(file, window_bytes)
    rows = SegmentRows(source, log_partition)
    tally = SegmentCoverage()
    batches = Batches(rows, tally, part_bytes=window_bytes, max_plain_bytes=max_plain_bytes)
    messages = Messages(rows, tally, skip, part_bytes=window_bytes, max_plain_bytes=max_plain_bytes)
    notes: list[str] = []
    walk = Walk(window, max_batch_bytes=max_batch_bytes, skip=skip)
    for piece in _gather(walk, window_bytes):
        match piece:
            case EntryRun():
                for part in (batches if piece.are_batches else messages).read(piece):
                    yield SegmentPart(records=part)
            case list():
                tally.damaged += len(piece)
                yield SegmentPart(records=rows.damage(piece))
            case str():
                notes.append(piece)
    end = window.position + len(window.data)
    if window.failure is not None:
        tally.damaged += 1
        yield SegmentPart(records=rows.damage([_broken_gzip(end, window.failure)]))
    if window.is_cut:
        notes.append(note("The gzip'ed file lacks its end", end))
    yield SegmentPart(
        records=pa.RecordBatch.from_pylist([], schema=LOG_RECORD),
        notes=(*notes, *tally.notes()),
        coverage=tally,
    )


def looks_like_segment(first_bytes: bytes) -> bool:
    """Return whether a file looks like a segment, by the first bytes of its plain form.

    An empty file is an empty segment. A hundred bytes are enough for the check.
    """
    if not any(first_bytes):  # empty, or created at its full size and not written yet
        return True
    if len(first_bytes) < SHORTEST_HEADER:
        return False
    (offset,) = struct.unpack_from(">q", first_bytes)
    return 0 <= offset < OFFSET_LIMIT and is_plausible(memoryview(first_bytes), 0)


def _gather(walk: Iterable[EntryRun | Damage | str], part_bytes: int) -> Iterator[EntryRun | list[Damage] | str]:
    """Yield what a walk over a segment file finds, with consecutive damaged ranges gathered in lists.

    Args:
        walk: the walk.
        part_bytes: a list ends when the stored bytes of its damaged ranges reach this number.
    """
    damages: list[Damage] = []
    kept_bytes = 0
    for piece in walk:
        if isinstance(piece, Damage):
            damages.append(piece)
            kept_bytes += len(piece.head or b"")
        if damages and (not isinstance(piece, Damage) or len(damages) == _MOST_DAMAGES or kept_bytes >= part_bytes):
            yield damages
            damages, kept_bytes = [], 0
        if not isinstance(piece, Damage):
            yield piece
    if damages:
        yield damages


def _broken_gzip(position: int, failure: str) -> Damage:
    return Damage(
        error_class=DamageClass.DECOMPRESSION_FAILED,
        message=f"The gzip'ed file can't be read beyond this place: {failure}.",
        position=position,
        size=0,
        offset=None,
        head=None,
    )
