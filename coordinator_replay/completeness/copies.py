"""Copies of a log partition: which offsets each copy has, and which it lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from coordinator_replay.columns import Bools, Numbers, distinct
from coordinator_replay.int64 import LARGEST_INT64

NO_OFFSETS: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class CopyBounds:
    """Bounds of a copy, known before its records are looked at.

    Attributes:
        name: folder of the copy, or the input if the copy is an export.
        is_export: whether the copy was read through a consumer, which sees no control records.
        covered_from: the lowest log offset that was read in the copy.
        cleaned_to: the cleaner may have removed records below this offset.
        end: the log offset after the last one that the copy covers.
        gaps: ranges of log offsets below ``end`` that none of the copy's files covers. Their ends are not included.
    """

    log_partition: int
    name: str
    is_export: bool
    covered_from: int
    cleaned_to: int
    end: int
    gaps: tuple[tuple[int, int], ...] = ()


class CopyOffsets(NamedTuple):
    """Log offsets of a copy's records, in any order.

    Attributes:
        records: offsets of records and control records, and of quarantined records whose key is known.
        unreadable: offsets of records whose key can't be read. Such a record may have had any key.
    """

    records: Numbers = NO_OFFSETS
    unreadable: Numbers = NO_OFFSETS


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a log partition, with the ranges in which the copy has every log offset.

    Attributes:
        starts: the first log offset of each range, in ascending order.
        stops: the end of each range, not included.
        gap_before: for each range, whether a gap lies before it. A gap is a log offset that no file covers, or whose
            record can't be read.
    """

    run_id: str
    bounds: CopyBounds
    starts: Numbers
    stops: Numbers
    gap_before: Bools

    def has(self, offsets: Numbers) -> Bools:
        """Return, for each log offset, whether the copy has it."""
        if not len(self.starts):
            return np.zeros(len(offsets), np.bool_)
        at = np.searchsorted(self.starts, offsets, "right") - 1
        has: Bools = (at >= 0) & (offsets < self.stops[at])
        return has

    def have_gap_between(self, offsets: Numbers, later: Numbers) -> Bools:
        """Return, for each pair of log offsets, whether a gap lies between the two.

        If the copy has no record at the later offset, also count gaps between this offset and the copy's next record.

        Args:
            offsets: offsets at which the copy has a record.
            later: a higher offset for each of ``offsets``.
        """
        gaps_to = np.append(0, np.cumsum(self.gap_before))
        first, last = (np.searchsorted(self.starts, of_pair, "right") for of_pair in (offsets, later))
        last = np.where(self.has(later), last, np.minimum(last + 1, len(self.starts)))
        have_gap: Bools = gaps_to[last] > gaps_to[first]
        return have_gap

    def missing(self, since: int) -> list[tuple[int, int, bool]]:
        """Return the ranges of log offsets that the copy lacks. Offsets below ``since`` don't count.

        Returns:
            For each range, three values: its first offset, its end (not included), and whether a gap lies in it.
        """
        begins = np.append(self.starts, self.bounds.end)
        ends = np.append(min(self.bounds.covered_from, int(begins[0])), self.stops)
        is_gap = np.append(self.gap_before, False)
        [lacking] = np.nonzero((begins > ends) & (begins > since))
        return [(max(int(ends[at]), since), int(begins[at]), bool(is_gap[at])) for at in lacking.tolist()]

    def below(self, limit: int) -> "Copy":
        """Return the copy without its records at or after log offset ``limit``."""
        kept = self.starts < limit
        starts, stops, gap_before = self.starts[kept], np.minimum(self.stops[kept], limit), self.gap_before[kept]
        if not kept.any():
            starts, stops, gap_before = np.array([limit]), np.array([limit]), np.zeros(1, np.bool_)
        bounds = replace(self.bounds, end=min(self.bounds.end, limit))
        return Copy(self.run_id, bounds, starts, stops, gap_before)


def copy_of(run_id: str, bounds: CopyBounds, offsets: CopyOffsets) -> Copy:
    """Make the ``Copy`` of a log partition from the log offsets of the copy's records.

    Offsets below ``bounds.covered_from`` are left out. If a record lies at or after ``bounds.end``, the end is raised.

    Args:
        run_id: the run that reads the copy.
        bounds: bounds of the copy.
        offsets: offsets of the copy's records.
    """
    # A record at the largest offset is left out: the end after it would be no valid offset.
    records, unreadable = (
        distinct(of_kind[(of_kind >= bounds.covered_from) & (of_kind < LARGEST_INT64)]) for of_kind in offsets
    )
    end = max([bounds.end, *(int(of_kind[-1]) + 1 for of_kind in (records, unreadable) if len(of_kind))])
    breaks = np.flatnonzero(records[1:] != records[:-1] + 1)
    starts = records[np.append(0, breaks + 1)] if len(records) else np.array([end], np.int64)
    stops = records[np.append(breaks, len(records) - 1)] + 1 if len(records) else np.array([end], np.int64)
    if stops[-1] < end:
        # If a gap lies after the last record, an empty range at the end follows the gap.
        starts, stops = np.append(starts, end), np.append(stops, end)
    before = np.append(bounds.covered_from, stops[:-1])
    gap_before = np.searchsorted(unreadable, starts) > np.searchsorted(unreadable, before)
    for low, high in bounds.gaps:
        gap_before |= (before < high) & (starts > low)
    if starts[-1] == stops[-1] and len(starts) > 1 and not gap_before[-1]:
        starts, stops, gap_before = starts[:-1], stops[:-1], gap_before[:-1]
    if bounds.end != end:
        bounds = replace(bounds, end=end)
    return Copy(run_id, bounds, starts, stops, gap_before)


def without(copies: Mapping[int, Sequence[Copy]], lost_from: Mapping[int, int]) -> list[Copy]:
    """Return the copies without the log offsets that were lost in a truncation.

    Leave out a copy if it would have no offset left.

    Args:
        copies: the copies by log partition.
        lost_from: for each truncated log partition, the first lost log offset.
    """
    return [
        copy if partition not in lost_from else copy.below(lost_from[partition])
        for partition, of_partition in copies.items()
        for copy in of_partition
        if copy.bounds.covered_from < lost_from.get(partition, copy.bounds.covered_from + 1)
    ]
