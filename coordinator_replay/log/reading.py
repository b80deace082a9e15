"""One segment file of a dump as log records, on any file system.

The audit's decode stage, the command ``decode`` and the Spark data source all read segments with this module.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.errors import InputError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.io_metrics import IoMetrics, count
from coordinator_replay.log.coverage import NOTHING_SKIPPED, SkipRanges
from coordinator_replay.log.dump import GONE, DumpFile
from coordinator_replay.log.segment import SegmentPart, read_segment
from coordinator_replay.secret_text import without_secrets

BATCH_ROWS = 60_000
"""Number of records that are decoded at a time. With a smaller number, each record costs more time. A larger number
only costs memory."""

BATCH_BYTES = 8 << 20
"""Bytes of keys and values that are decoded at a time; as JSON they may take ten times as many."""


def read_file(file: DumpFile, skip: SkipRanges = NOTHING_SKIPPED) -> Iterator[SegmentPart]:
    """Yield the records of one segment file of a dump, in the parts of ``read_segment``.

    Args:
        file: the file; a path or a URI that pyarrow's filesystems know.
        skip: log offsets to leave out, see ``read_segment``.

    Raises:
        InputError: the file no longer exists.
    """
    filesystem, path = open_filesystem(file.uri)
    try:
        opened = filesystem.open_input_stream(path, compression=None)
    except FileNotFoundError as problem:
        raise InputError(f"{file.uri}: {GONE}") from problem
    with opened as stream:
        source = without_secrets(file.uri)
        for part in read_segment(stream, source=source, log_partition=file.log_partition, skip=skip):
            count(IoMetrics(records_read=part.records.num_rows))
            yield part
        count(IoMetrics(files_read=1, bytes_read=file.size))


def gather_records(parts: Iterable[SegmentPart]) -> Iterator[pa.RecordBatch]:
    """Yield the records of parts in fewer, larger batches, because each batch has a fixed cost.

    A batch ends when it has ``BATCH_ROWS`` rows or ``BATCH_BYTES`` of keys and values.
    """
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for part in parts:
        for records in bounded(part.records):
            if records.num_rows >= BATCH_ROWS // 2 and not gathered:
                yield records
                continue
            gathered.append(records)
            rows += records.num_rows
            size += _size(records)
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield pa.concat_batches(gathered)
                gathered, rows, size = [], 0, 0
    if rows:
        yield pa.concat_batches(gathered)


def bounded(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch of log records, cut into slices with at most BATCH_BYTES of keys and values.

    A larger record is a batch of its own.

    Args:
        records: rows of ``LOG_RECORD``.
    """
    if _size(records) <= BATCH_BYTES:
        yield records
        return
    lengths = [pc.binary_length(records.column(name)).fill_null(0).cast(pa.int64()) for name in ("key", "value")]
    ends = np.cumsum(pc.add(*lengths).to_numpy())
    start, before = 0, 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, before + BATCH_BYTES, "right")))
        yield records.slice(start, stop - start)
        start, before = stop, int(ends[stop - 1])


def _size(records: pa.RecordBatch) -> int:
    return int(records.column("key").nbytes + records.column("value").nbytes)
