"""The log offsets of a segment file: which of them the file covers, and which of them earlier runs have read.

``SegmentCoverage`` counts while the file is read. ``SkipRanges`` has the log offsets that earlier runs have read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

_NO_EPOCH = -1
_MOST_EPOCHS = 1000
"""Largest number of leader epochs in a file. If there are more, no broker has written the headers."""


def note(text: str, position: int) -> str:
    """Return the text of a note, with the position in the file to which it refers.

    A note is a remark on something unusual that is not damage, such as batches without records.
    """
    return f"{text} (byte {position})"


class EpochStart(NamedTuple):
    """The first batch of a leader epoch. The batch before it has another leader epoch.

    Attributes:
        leader_epoch: leader epoch of the batch.
        after: the last log offset of the batch before; -1 if this batch is the first of the file.
        first: the first log offset of this batch.
    """

    leader_epoch: int
    after: int
    first: int


class SkipRanges:
    """Ranges of log offsets whose records earlier runs have read. Both ends of a range belong to it.

    A look-up is a binary search, so one object with many ranges can serve all files of a log partition.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]] = ()) -> None:
        merged: list[list[int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1][1] = max(last, merged[-1][1])
            elif first <= last:
                merged.append([first, last])
        self._firsts = np.array([first for first, _ in merged], np.int64)
        self._lasts = np.array([last for _, last in merged], np.int64)

    def cover(self, firsts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
        """Return, for each range of log offsets, whether earlier runs have read all of it.

        Args:
            firsts: the first log offset of each range.
            lasts: the last log offset of each range.
        """
        if not len(self._firsts):
            return np.zeros(len(firsts), np.bool_)
        nearest = np.searchsorted(self._firsts, firsts, "right") - 1
        inside: np.ndarray = (nearest >= 0) & (self._lasts[nearest] >= lasts) & (lasts >= firsts)
        return inside

    def have(self, offsets: np.ndarray) -> np.ndarray:
        """Return, for each log offset, whether earlier runs have read its record."""
        return self.cover(offsets, offsets)


NOTHING_SKIPPED = SkipRanges()


@dataclass(slots=True)
class SegmentCoverage:
    """The log offsets that a segment file covers, and counts of its records.

    Attributes:
        base_offset: the log offset that the file's first batch header claims; None if the file has no batches.
        first_offset: the lowest log offset that a batch header claims; None if the file has no batches.
        last_offset: the highest log offset that a batch header claims; None if the file has no batches. After
            compaction, the file may have no record at this offset: compaction does not change the claims of headers.
        records: number of records read.
        skipped: number of records that were skipped because earlier runs have read them. A skipped batch counts
            with the number of records in its header.
        damaged: number of damaged ranges of bytes; each has a row of its own.
    """

    base_offset: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    records: int = 0
    skipped: int = 0
    damaged: int = 0
    _previous_last: int = -1
    _epochs: list[EpochStart] = field(default_factory=list)
    _empty: int = 0
    _empty_at: int | None = None
    _decreases_at: int | None = None

    @property
    def epochs(self) -> list[EpochStart]:
        """Return where leader epochs begin in the file.

        Messages (magic 0 and 1) are left out, because they have no leader epoch. Epochs beyond ``_MOST_EPOCHS`` are
        left out too, see ``see_epochs``.
        """
        return [epoch for epoch in self._epochs if epoch.leader_epoch > _NO_EPOCH]

    def see(self, firsts: np.ndarray, lasts: np.ndarray, positions: np.ndarray) -> None:
        """Take note of the log offsets that the headers of some entries claim.

        Args:
            firsts: the first log offset of each entry.
            lasts: the last log offset of each entry.
            positions: position of each entry in the file.
        """
        if not len(firsts):
            return
        if self.base_offset is None:
            self.base_offset = int(firsts[0])
        before = np.concatenate([[self._previous_last], lasts[:-1]])
        decreasing = np.flatnonzero(firsts <= before)
        if len(decreasing) and self._decreases_at is None:
            self._decreases_at = int(positions[decreasing[0]])
        self._previous_last = int(lasts[-1])
        self.first_offset = min(int(firsts.min()), int(firsts[0]) if self.first_offset is None else self.first_offset)
        self.last_offset = max(int(lasts.max()), int(lasts[0]) if self.last_offset is None else self.last_offset)

    def see_epochs(self, epochs: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> None:
        """Take note of the leader epochs of some batches. Must be called before ``see`` for these batches.

        If the file would then have more than ``_MOST_EPOCHS`` epochs, add no epoch of these batches.
        """
        last_epoch = self._epochs[-1].leader_epoch if self._epochs else _NO_EPOCH
        changes = np.flatnonzero(np.diff(epochs, prepend=last_epoch))
        if len(changes) <= _MOST_EPOCHS - len(self._epochs):
            before = np.concatenate([[self._previous_last], lasts[:-1]])
            begins = zip(epochs[changes].tolist(), before[changes].tolist(), firsts[changes].tolist(), strict=True)
            self._epochs += [EpochStart(*begin) for begin in begins]

    def see_empty(self, positions: np.ndarray) -> None:
        """Count batches without records.

        Args:
            positions: positions of these batches in the file.
        """
        if len(positions) and self._empty_at is None:
            self._empty_at = int(positions[0])
        self._empty += len(positions)

    def count(self, offsets: np.ndarray, counts: np.ndarray, skipped_before: np.ndarray) -> np.ndarray:
        """Count records, and return the ``missing_before`` of each record.

        The ``missing_before`` of a record is the number of lower log offsets that have no record in the file. Offsets
        below the file's base offset don't count.

        Args:
            offsets: log offsets of the records.
            counts: number of records in each entry (batch or message).
            skipped_before: number of records of the file that were skipped before each entry.
        """
        first_expected = (self.base_offset or 0) + self.records
        expected = np.arange(first_expected, first_expected + len(offsets))
        if skipped_before[-1]:
            expected += np.repeat(skipped_before, counts)
        self.records += len(offsets)
        return offsets - expected

    def notes(self) -> list[str]:
        """Return notes on batches without records, and on log offsets that are lower than the one before."""
        notes = []
        if self._empty_at is not None:
            batches = "batch" if self._empty == 1 else "batches"
            text = f"{self._empty} empty {batches}: compaction removed the records and kept the offsets"
            notes.append(note(text, self._empty_at))
        if self._decreases_at is not None:
            text = "Offsets go back: parts of two copies, or damage; records are identified by their offset"
            notes.append(note(text, self._decreases_at))
        return notes
