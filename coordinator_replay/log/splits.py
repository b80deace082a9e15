"""Splitting a large segment file for several tasks, each of which reads its bytes as if it had read those before.

A file is split between two batches of magic 2 whose checksums are right, never next to damage: so a split ends with a
whole batch, and damage is a row of the split that it lies in. What a reader of the whole file would know at that place
(the file's base offset, how many records came before) goes with the split, so that its rows are the same ones. Only
records of a batch that has the right checksum and still can't be read are counted as if they had been.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coordinator_replay.log.coverage import SkipRanges
from coordinator_replay.log.header import Field
from coordinator_replay.log.walk import Run, Walk
from coordinator_replay.log.window import (
    DEFAULT_MAX_BATCH_BYTES,
    DEFAULT_WINDOW_BYTES,
    Readable,
    SegmentFile,
    Window,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Some bytes of a segment file, from one batch to another.

    Attributes:
        start: the position of its first byte.
        stop: the position behind its last byte; None for the end of the file.
        base_offset: the offset that the file begins with; None where the split begins it.
        last_offset: the last offset before the split, -1 where there is none.
        records_before: how many records of the file come before.
    """

    start: int = 0
    stop: int | None = None
    base_offset: int | None = None
    last_offset: int = -1
    records_before: int = 0


WHOLE = Split()
"""A file in one piece."""


class LimitedFile:
    """The next so many bytes of a file."""

    def __init__(self, file: Readable, size: int) -> None:
        self._file = file
        self._left = size

    def readinto(self, memory: memoryview, /) -> int:
        """Fills memory from its begin, as a file does; nothing is left behind the last of the bytes."""
        count = self._file.readinto(memory[: self._left]) or 0
        self._left -= count
        return count


class _Splitter:
    """Looks for the places to split at, run by run."""

    def __init__(self, split_bytes: int) -> None:
        self._split_bytes = split_bytes
        self._base_offset: int | None = None
        self._records = 0
        self._current = WHOLE

    def split(self, run: Run) -> Iterator[Split]:
        """The splits that end in a run of batches."""
        headers = run.headers
        positions = headers[Field.POSITION] + run.window.position
        lasts = headers[Field.OFFSET] + np.maximum(headers[Field.LAST_OFFSET_DELTA], 0)
        records = self._records + np.cumsum(np.maximum(headers[Field.RECORD_COUNT], 0))
        if self._base_offset is None:
            self._base_offset = int(headers[Field.OFFSET, 0])
        at = self._next_place(positions, 1)
        while at < len(positions):
            position = int(positions[at])
            yield Split(
                start=self._current.start,
                stop=position,
                base_offset=self._current.base_offset,
                last_offset=self._current.last_offset,
                records_before=self._current.records_before,
            )
            self._current = Split(
                start=position,
                base_offset=self._base_offset,
                last_offset=int(lasts[at - 1]),
                records_before=int(records[at - 1]),
            )
            at = self._next_place(positions, at + 1)
        self._records = int(records[-1])

    def _next_place(self, positions: np.ndarray, at_least: int) -> int:
        """The first entry of a run, but for the one it begins with, that lies far enough on."""
        return max(int(np.searchsorted(positions, self._current.start + self._split_bytes)), at_least)

    def rest(self) -> Split:
        """The split that ends with the file."""
        return self._current


def split_segment(
    file: SegmentFile,
    *,
    split_bytes: int,
    window_bytes: int = DEFAULT_WINDOW_BYTES,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[Split]:
    """Split a segment file into parts of about so many bytes.

    All of the file is read and its checksums are looked at, its records are not. A gzip'ed file is one split, and so
    is what follows the first message of magic 0 or 1: how many records such a one holds stands only inside.

    Args:
        file: the file, from its begin.
        split_bytes: the least size of a split, but for the last.
        window_bytes: see ``read_segment``.
        max_batch_bytes: see ``read_segment``.
    """
    splitter = _Splitter(split_bytes)
    window = Window(file, window_bytes)
    if not window.is_gzipped:
        for found in Walk(window, max_batch_bytes=max_batch_bytes, skip=SkipRanges(()), verify=True):
            if isinstance(found, Run):
                if not found.are_batches:
                    break
                yield from splitter.split(found)
    yield splitter.rest()
