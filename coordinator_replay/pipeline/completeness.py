"""What the copies of a log partition prove: where nothing is missing, and from where on everything is known.

A copy is what one dump has of a log partition in one folder, or what a consumer has exported of it. Kafka's cleaner
removes a record where a later one of its key is in its offset map, a tombstone later on, and nothing at or behind the
base offset of the newest segment (``Cleaner.shouldRetainRecord``, ``LogCleanerManager.cleanableOffsets``). So with C
behind the last missing offset of a copy and B the base of its newest segment, everything is proven from the later of
the two on, and each key that has a record in the copy is proven from that record on.

Copies of several nights together have a history of ranges. A range goes on as long as newer copies have every offset
behind it. Where a newer copy lacks some, the cleaner was there in between: a new range begins, and what was known
holds up to the first offset that is missing. Offsets that no file of a copy covers are a gap, which proves nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from coordinator_replay.columns import Bools, Numbers, distinct
from coordinator_replay.store.scan import read_paths, rows_of
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table

COPIES = "log_copies"
"""The table of copies."""

LAST_OFFSET = int(np.iinfo(np.int64).max)
"""The largest offset that a record can have."""

NO_OFFSETS: Numbers = np.zeros(0, np.int64)

_BOUNDS = ("log_partition", "copy", "is_export", "covered_from_offset", "cleaned_to_offset", "end_offset")
"""The columns of the fields of ``CopyBounds`` but the last one."""
_RANGES = ("from_offset", "to_offset", "is_gap_before")
_SCHEMA = table(COPIES).arrow_schema(["run_id", *_BOUNDS, *_RANGES]).remove_metadata()


@dataclass(frozen=True, slots=True)
class CopyBounds:
    """What is known of a copy before its records are looked at.

    Attributes:
        name: its folder, or the input where it is an export.
        is_export: it was read through a consumer, which shows no control records.
        covered_from: the lowest offset that the run looked at in it.
        cleaned_to: the cleaner may have been at work below this offset, in a log that may go on behind the copy's end.
        end: the offset behind the last one that it covers.
        gaps: half-open ranges below the end that none of its files covers.
    """

    log_partition: int
    name: str
    is_export: bool
    covered_from: int
    cleaned_to: int
    end: int
    gaps: tuple[tuple[int, int], ...] = ()


class CopyOffsets(NamedTuple):
    """Where a copy has records, in any order.

    Attributes:
        records: offsets of records and control records, of those in quarantine, too, whose key is known.
        unreadable: offsets of records whose key can't be read: they may have been of any key.
    """

    records: Numbers = NO_OFFSETS
    unreadable: Numbers = NO_OFFSETS


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy with the offsets that it has.

    Attributes:
        starts: where ranges of offsets begin of which it has every one, in order.
        stops: where they end, not included.
        gap_before: before which of them an offset is missing that no file covers, or whose record can't be read.
    """

    run_id: str
    bounds: CopyBounds
    starts: Numbers
    stops: Numbers
    gap_before: Bools

    def has(self, offsets: Numbers) -> Bools:
        """Which offsets it has."""
        if not len(self.starts):
            return np.zeros(len(offsets), np.bool_)
        at = np.searchsorted(self.starts, offsets, "right") - 1
        has: Bools = (at >= 0) & (offsets < self.stops[at])
        return has

    def missing(self, since: int) -> list[tuple[int, int, bool]]:
        """Ranges of offsets from some offset on that it lacks: from, to, and whether no file covers them."""
        begins = np.append(self.starts, self.bounds.end)
        ends = np.append(min(self.bounds.covered_from, int(begins[0])), self.stops)
        is_gap = np.append(self.gap_before, False)
        [lacking] = np.nonzero((begins > ends) & (begins > since))
        return [(max(int(ends[at]), since), int(begins[at]), bool(is_gap[at])) for at in lacking.tolist()]

    def below(self, limit: int) -> "Copy":
        """The copy without what lies at or behind some offset."""
        kept = self.starts < limit
        starts, stops, gap_before = self.starts[kept], np.minimum(self.stops[kept], limit), self.gap_before[kept]
        if not kept.any():
            starts, stops, gap_before = np.array([limit]), np.array([limit]), np.zeros(1, np.bool_)
        bounds = replace(self.bounds, end=min(self.bounds.end, limit))
        return Copy(self.run_id, bounds, starts, stops, gap_before)

    def rows(self) -> pa.RecordBatch:
        """The copy as rows of ``log_copies``, without the cluster."""
        about = dict(zip(_BOUNDS, astuple(self.bounds), strict=False)) | {"run_id": self.run_id}
        ranges = pa.record_batch([self.starts, self.stops, self.gap_before], _RANGES)
        return conform(ranges, _SCHEMA, **about)


def copy_of(run_id: str, bounds: CopyBounds, offsets: CopyOffsets) -> Copy:
    """A copy by the offsets of its records.

    Args:
        run_id: the run that reads it.
        bounds: its folder, its end, and where the cleaner has been.
        offsets: of its records.
    """
    # No offset comes after the largest there is.
    records, unreadable = (distinct(one[(one >= bounds.covered_from) & (one < LAST_OFFSET)]) for one in offsets)
    end = max([bounds.end, *(int(one[-1]) + 1 for one in (records, unreadable) if len(one))])
    breaks = np.flatnonzero(records[1:] != records[:-1] + 1)
    starts = records[np.append(0, breaks + 1)] if len(records) else np.array([end], np.int64)
    stops = records[np.append(breaks, len(records) - 1)] + 1 if len(records) else np.array([end], np.int64)
    if stops[-1] < end:
        # Behind the last record there may be a gap, too: then an empty range at the end stands behind it.
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


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """A range of a log partition's history.

    Attributes:
        complete_from: the offset after the last one that is missing.
        exact_from: from where on everything is proven; None where nothing ever is.
        to_offset: the offset after the last one.
        copy: whose records below ``complete_from`` prove anything.
        begins_at: where the range before ends: the first offset that is missing; 0 for the first range.
        is_gap: what is missing there was in no copy, or in none from the beginning: it may have been anything.
    """

    complete_from: int
    exact_from: int | None
    to_offset: int
    copy: Copy
    begins_at: int = 0
    is_gap: bool = False

    @property
    def is_whole(self) -> bool:
        """Nothing is missing from the beginning of the log on."""
        return not self.complete_from and not self.is_gap


def without(copies: Mapping[int, Sequence[Copy]], lost_from: Mapping[int, int]) -> list[Copy]:
    """Copies without what the log has lost since.

    Args:
        copies: by log partition.
        lost_from: the first offset that was lost, for log partitions that were truncated.
    """
    return [
        copy if partition not in lost_from else copy.below(lost_from[partition])
        for partition, of_partition in copies.items()
        for copy in of_partition
        if copy.bounds.covered_from < lost_from.get(partition, copy.bounds.covered_from + 1)
    ]


def history_of(copies: Iterable[Copy]) -> list[HistoryRange]:
    """The history of a log partition by its copies, whatever order they were read in."""
    ranges: list[HistoryRange] = []
    for copy in sorted(copies, key=_age):
        _add(ranges, copy)
    return ranges


def _age(copy: Copy) -> tuple[int, int, int, str]:
    """Sorts copies by how far they go; of two that go as far, the one that lacks more comes last."""
    missing = sum(high - low for low, high, _ in copy.missing(0))
    return copy.bounds.end, missing, copy.bounds.covered_from, copy.run_id


def _add(ranges: list[HistoryRange], copy: Copy) -> None:
    """Continue the history with a copy, where the older ones end."""
    reached = ranges[-1].to_offset if ranges else 0
    bounds = copy.bounds
    missing = copy.missing(reached)
    if bounds.covered_from > reached and not bounds.is_export:
        missing = [(reached, bounds.covered_from, True), *missing]
    elif bounds.covered_from > reached:
        missing = [(reached, bounds.covered_from, bool(ranges)), *missing]
    if not missing:
        _continue(ranges, copy)
        return
    starts_over = not ranges or bounds.covered_from == 0
    gaps = [low for low, _, is_gap in missing if is_gap] if starts_over else [missing[0][0]]
    until = gaps[0] if gaps else bounds.end
    lacking = [(low, high) for low, high, is_gap in missing if not is_gap and high <= until]
    if lacking and starts_over:
        behind = lacking[-1][1]
        exact_from = None if gaps else _exact_from(bounds, behind)
        begins_at = lacking[0][0] if ranges else 0
        if ranges and ranges[-1].to_offset < begins_at:
            # The newer copy has all before the first offset that is missing.
            _extend(ranges, begins_at)
        ranges.append(HistoryRange(behind, exact_from, until, copy, begins_at))
    elif until > reached and ranges:
        _extend(ranges, until)
    elif until > reached:
        ranges.append(HistoryRange(0, 0, until, copy))
    for low, end in pairwise([*gaps, bounds.end]):
        behind = max(high for at, high, _ in missing if at < end)
        ranges.append(HistoryRange(behind, None, end, copy, begins_at=low, is_gap=True))


def _exact_from(bounds: CopyBounds, behind: int) -> int | None:
    """From where on everything is proven in a copy that lacks offsets below some offset; None where nothing ever is."""
    if bounds.cleaned_to > bounds.end:
        # A record may have been removed because of one behind the copy's end.
        return None
    # Offsets that are missing in the newest segment were cleaned elsewhere, so that nothing bounds the cleaner's work.
    return bounds.cleaned_to if behind <= bounds.cleaned_to else bounds.end


def _extend(ranges: list[HistoryRange], to_offset: int) -> None:
    ranges[-1] = replace(ranges[-1], to_offset=to_offset)


def _continue(ranges: list[HistoryRange], copy: Copy) -> None:
    """Add a copy that lacks no offset after the history's end: it extends it, and may prove more of the time before."""
    bounds = copy.bounds
    missing = copy.missing(0)
    is_from_start = bounds.covered_from == 0 and not any(is_gap for _, _, is_gap in missing)
    behind = missing[-1][1] if missing else 0
    exact_from = _exact_from(bounds, behind) if behind else 0
    if not is_from_start or exact_from is None:
        if ranges:
            _extend(ranges, bounds.end)
        return
    while ranges and (ranges[-1].exact_from is None or ranges[-1].exact_from >= exact_from):
        last = ranges[-1]
        if behind > last.begins_at and len(ranges) > 1:
            break
        ranges.pop()
    if not ranges:
        ranges.append(HistoryRange(behind, exact_from, bounds.end, copy))
    elif ranges[-1].exact_from is None or ranges[-1].exact_from > exact_from:
        # What older copies lacked without a trace was compacted away in this one, which covers it.
        ranges[-1] = HistoryRange(behind, exact_from, bounds.end, copy, ranges[-1].begins_at)
    else:
        _extend(ranges, bounds.end)


def read_copies(uris: Iterable[str]) -> dict[int, list[Copy]]:
    """The copies that earlier runs have read, by log partition.

    Args:
        uris: files of ``log_copies``.
    """
    rows = rows_of(read_paths(uris, _SCHEMA.names), _SCHEMA)
    about = ["run_id", *_BOUNDS]
    # One thread keeps the order.
    by_copy = rows.group_by(about, use_threads=False).aggregate([(name, "list") for name in _RANGES]).combine_chunks()
    ranges = zip(*(by_copy.column(f"{name}_list").combine_chunks() for name in _RANGES), strict=True)
    copies: dict[int, list[Copy]] = {}
    for row, of_copy in zip(by_copy.select(about).to_pylist(), ranges, strict=True):
        run_id, *bounds = row.values()
        starts, *others = (one.values.to_numpy(zero_copy_only=False) for one in of_copy)
        order = np.argsort(starts, kind="stable")
        copy = Copy(run_id, CopyBounds(*bounds), starts[order], *(one[order] for one in others))
        copies.setdefault(copy.bounds.log_partition, []).append(copy)
    return copies


@dataclass(slots=True)
class BucketCompleteness:
    """What the copies of a bucket's log partitions prove.

    Attributes:
        ranges: the history of each log partition.
        new: copies that this run has read.
    """

    ranges: Mapping[int, Sequence[HistoryRange]]
    new: Sequence[Copy] = field(default_factory=list)

    def open_partitions(self) -> Iterator[int]:
        """Log partitions of whose history anything is missing."""
        for partition, ranges in self.ranges.items():
            if len(ranges) != 1 or not ranges[0].is_whole:
                yield partition


def completeness(earlier: Mapping[int, Sequence[Copy]], new: Sequence[Copy]) -> BucketCompleteness:
    """What copies that earlier runs have read, and those of this one, prove together."""
    every: dict[int, list[Copy]] = {partition: list(copies) for partition, copies in earlier.items()}
    for copy in new:
        every.setdefault(copy.bounds.log_partition, []).append(copy)
    return BucketCompleteness({partition: history_of(copies) for partition, copies in sorted(every.items())}, new)
