"""Proofs about committed offsets from the history of log partitions, for many offsets at once.

A key is proven from each of its records to the next one, because the cleaner removes a record only for a later record
of its key. A key is open before its first record and across a gap. But where no offset of the log is missing, no key is
open.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from coordinator_replay.columns import Bools, Numbers, numbers_of
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.int64 import LARGEST_INT64


@dataclass(frozen=True, slots=True)
class OffsetProofs:
    """Proofs about committed offsets, in log partitions with missing records.

    Attributes:
        ranges: the complete ranges of each log partition with missing records. In all other log partitions, nothing is
            missing.
        times: the time of each range's ``begins_at`` and ``from_offset``, in microseconds since 1970. The key has the
            log partition and this log offset.
    """

    ranges: Mapping[int, Sequence[CompleteRange]] = field(default_factory=dict)
    times: Mapping[tuple[int, int], int | None] = field(default_factory=dict)

    def _in_ranges(self, partitions: Numbers, offsets: Numbers) -> Iterator[tuple[CompleteRange, Bools]]:
        """Yield each range, and which log offsets lie in the range or among the missing offsets before the range."""
        for partition, ranges in self.ranges.items():
            is_own = partitions == partition
            for number, span in enumerate(ranges):
                following = ranges[number + 1].begins_at if number + 1 < len(ranges) else LARGEST_INT64
                yield span, is_own & (offsets >= span.begins_at) & (offsets < following)

    def are_unproven(self, partitions: Numbers, offsets: Numbers) -> Bools:
        """Return, for each log offset, whether a key may have existed there without an earlier record in the log.

        The cleaner may have removed the earlier record. Return False for log partitions without missing records.

        Args:
            partitions: the log partition of each log offset.
            offsets: the log offsets.
        """
        unproven = np.zeros(len(offsets), np.bool_)
        for span, is_in in self._in_ranges(partitions, offsets):
            unproven |= is_in & (
                offsets < (LARGEST_INT64 if span.exact_from_offset is None else span.exact_from_offset)
            )
        return unproven

    def are_absent(self, partitions: Numbers, offsets: Numbers, first: Numbers, *, are_begins_open: Bools) -> Bools:
        """Return, for each row, whether it is proven that the row's group did not exist at the row's log offset.

        Args:
            partitions: the log partition of each row.
            offsets: the log offset of each row.
            first: for each row, the log offset of the first record that shows the group.
            are_begins_open: for each row, whether the group may have existed before that first record.
        """
        absent = np.ones(len(offsets), np.bool_)
        of_both = zip(self._in_ranges(partitions, offsets), self._in_ranges(partitions, first), strict=True)
        for (span, is_in), (_, has_first) in of_both:
            exact_from = LARGEST_INT64 if span.exact_from_offset is None else span.exact_from_offset
            is_open = (offsets + 1 < span.from_offset) | (first < exact_from) | (exact_from == LARGEST_INT64)
            is_begin_open = are_begins_open & has_first & (first >= exact_from)
            absent &= ~(is_in & (is_begin_open | (is_open & (offsets < exact_from))))
        return absent

    def have_gap(self, partitions: Numbers, begins: Numbers, ends: Numbers) -> Bools:
        """Return, for each range of log offsets, whether a gap lies in the range.

        Args:
            partitions: the log partition of each range.
            begins: the first log offset of each range.
            ends: the end of each range, not included.
        """
        gaps = np.zeros(len(begins), np.bool_)
        for partition, ranges in self.ranges.items():
            for span in ranges:
                if span.is_gap:
                    gaps |= (partitions == partition) & (begins < span.begins_at) & (ends > span.begins_at)
        return gaps

    def breaks(self) -> Iterator[tuple[int, CompleteRange]]:
        """Yield each complete range before which the cleaner removed records, with its log partition.

        Leave out the first range of a log partition, and ranges after a gap.
        """
        for partition, ranges in self.ranges.items():
            yield from ((partition, span) for span in ranges[1:] if not span.is_gap)

    def with_losses(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Return commits with the column ``lost_at`` filled in.

        ``lost_at`` is null if every newer copy of the log partition still has the commit's record. Otherwise it is the
        first log offset that is missing in the copy without this record.

        Args:
            events: commits with the columns log_partition, log_offset and lost_at.
        """
        breaks = list(self.breaks())
        if not breaks or not events.num_rows:
            return events
        partitions, offsets = (numbers_of(events.column(name), -1) for name in ("log_partition", "log_offset"))
        lost_at = np.full(len(offsets), LARGEST_INT64, np.int64)
        for partition, span in breaks:
            is_lost = (partitions == partition) & (offsets < span.begins_at) & (lost_at == LARGEST_INT64)
            is_lost[is_lost] = ~span.own_copy.has(offsets[is_lost])
            lost_at[is_lost] = span.begins_at
        place = events.schema.get_field_index("lost_at")
        column = pa.array(lost_at, pa.int64(), mask=lost_at == LARGEST_INT64)
        return events.set_column(place, events.schema.field(place), column)

    def committed_at(self, partition: int, offset: int) -> int | None:
        """Return the log offset from which a transactional commit is proven, although no dump has its marker.

        Return None if nothing proves that the transaction was committed.

        The cleaner removes aborted commits, and never works where a transaction is still open. So a commit that remains
        where the cleaner has worked is committed. This does not hold for an export, which has no markers, or across a
        gap.

        Args:
            partition: the log partition.
            offset: log offset of the commit.
        """
        for span in self.ranges.get(partition, ()):
            is_own = not span.is_gap and not span.own_copy.bounds.is_export and offset < span.from_offset
            if is_own and span.exact_from_offset is not None and span.own_copy.has(np.array([offset]))[0]:
                return span.from_offset
        return None


NOTHING_MISSING = OffsetProofs()
