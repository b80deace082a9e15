"""The batches of a segment file by their headers, without their records: places to cut a file at."""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coordinator_replay.log.coverage import NOTHING_SKIPPED
from coordinator_replay.log.layout import Attribute, HeaderField
from coordinator_replay.log.walk import EntryRun, Walk
from coordinator_replay.log.window import DEFAULT_MAX_BATCH_BYTES, DEFAULT_WINDOW_BYTES, FileWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpans:
    """Some batches or messages of a file by their headers; arrays of the same length.

    Attributes:
        base_offsets: Base offset; of a compressed message, whose first offset is hidden within, -1.
        last_offsets: Last offset.
        positions: Byte position in the file.
        sizes: Bytes, header included.
        record_counts: Number of records; of a compressed message -1.
        is_control: Whether it is a control batch.
    """

    base_offsets: np.ndarray
    last_offsets: np.ndarray
    positions: np.ndarray
    sizes: np.ndarray
    record_counts: np.ndarray
    is_control: np.ndarray


def walk_batches(data: bytes | memoryview, *, window_bytes: int = DEFAULT_WINDOW_BYTES) -> Iterator[BatchSpans]:
    """Hops from header to header without reading records; damage is stepped over silently."""
    window = FileWindow(io.BytesIO(data), window_bytes)
    for piece in Walk(window, max_batch_bytes=DEFAULT_MAX_BATCH_BYTES, skip=NOTHING_SKIPPED):
        if isinstance(piece, EntryRun):
            headers = piece.headers
            offsets = headers[HeaderField.OFFSET]
            hidden = (headers[HeaderField.MAGIC] < 2) & ((headers[HeaderField.ATTRIBUTES] & Attribute.CODEC) != 0)
            counts = headers[HeaderField.RECORD_COUNT] if piece.are_batches else np.ones_like(offsets)
            yield BatchSpans(
                base_offsets=np.where(hidden, -1, offsets),
                last_offsets=offsets + headers[HeaderField.LAST_OFFSET_DELTA],
                positions=headers[HeaderField.POSITION] + window.position,
                sizes=headers[HeaderField.SIZE].copy(),
                record_counts=np.where(hidden, -1, counts),
                is_control=(headers[HeaderField.ATTRIBUTES] & Attribute.CONTROL) != 0,
            )
