"""One segment file of a dump as log records, opened wherever it lies.

The audit's decode stage, the command ``decode`` and the Spark data source all read segments through here.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from coordinator_replay.log.dump import DumpFile, open_filesystem
from coordinator_replay.log.segment import SegmentPart, read_segment
from coordinator_replay.log.splits import WHOLE, LimitedFile, Split, split_segment

BATCH_ROWS = 60_000
"""How many records are decoded at a time; fewer cost more each, more only memory."""


def read_file(file: DumpFile, skip: Sequence[tuple[int, int]] = (), split: Split = WHOLE) -> Iterator[SegmentPart]:
    """Read one segment file of a dump, or a split of it, in parts.

    Args:
        file: the file; a path or a URI that pyarrow's filesystems know.
        skip: closed ranges of offsets that are not wanted, see ``read_segment``.
        split: from ``split_file``; the whole file if left out.
    """
    filesystem, path = open_filesystem(file.uri)
    if split == WHOLE:
        with filesystem.open_input_stream(path, compression=None) as stream:
            yield from read_segment(stream, source=file.uri, log_partition=file.log_partition, skip=skip)
        return
    with filesystem.open_input_file(path) as opened:
        opened.seek(split.start)
        bytes_ = opened if split.stop is None else LimitedFile(opened, split.stop - split.start)
        yield from read_segment(bytes_, source=file.uri, log_partition=file.log_partition, skip=skip, split=split)


def split_file(file: DumpFile, split_bytes: int) -> Sequence[Split]:
    """The splits of a segment file; one that is not larger than a split is not opened.

    Args:
        file: the file.
        split_bytes: about how large a split is.
    """
    if file.size <= split_bytes:
        return [WHOLE]
    filesystem, path = open_filesystem(file.uri)
    with filesystem.open_input_stream(path, compression=None) as stream:
        return list(split_segment(stream, split_bytes=split_bytes))


def gather_records(parts: Iterable[SegmentPart]) -> Iterator[pa.RecordBatch]:
    """The records of parts in batches large enough that the cost of a batch does not show."""
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for part in parts:
        if part.records.num_rows >= BATCH_ROWS // 2 and not gathered:
            yield part.records
            continue
        gathered.append(part.records)
        rows += part.records.num_rows
        if rows >= BATCH_ROWS:
            yield pa.concat_batches(gathered)
            gathered, rows = [], 0
    if rows:
        yield pa.concat_batches(gathered)
