"""Proofs about groups: where records of a group may be missing, and from which log offset on the group is proven.

A group is proven at a log offset if the log shows the value of each of its keys there. After missing offsets, the value
of a key is not known until the key's next record, because the cleaner may have removed an earlier record of the key. So
after missing records, a group is proven from the higher of two log offsets on:

- the log offset after the last missing record;
- the first log offset by which each key of the group has had a record again. A key does not count if its first record
  after the missing records is at or after the ``exact_from_offset`` of the range. The cleaner has not reached this
  record, so it has removed no earlier record because of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator_replay.columns import Bools, Numbers
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.engine.model import Record
from coordinator_replay.times import latest_ms

Part = tuple[str, int, int]
"""A group, its log partition, and the number of a range of its history."""


class Break(NamedTuple):
    """A place in a group's history before which records are missing, or the beginning of the history.

    Attributes:
        offset: the first missing log offset; 0 at the beginning of the history.
        at_ms: the time up to which no record is missing; None if no record has a time.
        is_gap: whether no copy had the missing records. Such a record may have had any key.
        proven_from: the log offset from which the group is proven; None if only the group's own records can prove it.
        proven_ms: the time of ``proven_from``.
        number: index of the range of log offsets that begins here.
    """

    offset: int
    at_ms: int | None
    is_gap: bool
    proven_from: int | None
    proven_ms: int | None
    number: int


@dataclass(frozen=True, slots=True)
class GroupProofs:
    """Facts that prove the states of groups, for log partitions with missing records.

    Attributes:
        ranges: for each log partition, the ranges of log offsets without missing records.
        times: for each range, the times of ``begins_at`` and ``from_offset``.
        appearances: for each group in a range (``Part``), the log offset and the time by which each key of the group
            has had a record.
        new: for each log partition, the gaps after the log offsets that earlier runs have read.
        confirmed: for each ``Part``, the group's records from before the range that are still in the copy from which
            the range comes.
    """

    ranges: Mapping[int, Sequence[CompleteRange]] = field(default_factory=dict)
    times: Mapping[tuple[int, int], tuple[int | None, int | None]] = field(default_factory=dict)
    appearances: Mapping[Part, tuple[int, int | None]] = field(default_factory=dict)
    new: Mapping[int, Sequence[Break]] = field(default_factory=dict)
    confirmed: Mapping[Part, Sequence[Record]] = field(default_factory=dict)

    def breaks(self, group_id: str, log_partition: int) -> list[Break]:
        """Return the beginning of a group's history, and the places where records are missing, oldest first.

        If no record of the log partition is missing, return an empty list.
        """
        breaks = []
        for number, span in enumerate(self.ranges.get(log_partition, ())):
            begins_ms, complete_ms = self.times[log_partition, number]
            proven_from, proven_ms = span.from_offset, complete_ms
            last = self.appearances.get((group_id, log_partition, number))
            if last is not None:
                proven_from, proven_ms = last[0] + 1, latest_ms(last[1], complete_ms)
            is_provable = span.exact_from_offset is not None
            breaks.append(
                Break(span.begins_at, begins_ms, span.is_gap, proven_from if is_provable else None, proven_ms, number)
            )
        return breaks

    def after(self, log_partition: int, first_offset: int) -> list[Break]:
        """Return the beginning of a group's history, and the gaps after it, oldest first.

        Call this for a group whose records no earlier run has read. If no record of the log partition is missing,
        return an empty list.

        Args:
            log_partition: number of the log partition.
            first_offset: log offset of the group's first record.
        """
        ranges = self.ranges.get(log_partition, ())
        if not ranges:
            return []
        behind = [span for span in self.new.get(log_partition, ()) if span.offset > first_offset]
        number = len(ranges) - 1 - len(behind)
        proven_from = None if ranges[number].exact_from_offset is None else ranges[number].from_offset
        _, proven_ms = self.times.get((log_partition, number), (None, None))
        return [Break(0, None, ranges[number].is_gap, proven_from, proven_ms, number), *behind]

    def confirmed_in(self, log_partition: int, offsets: Numbers) -> Iterator[tuple[int, Bools]]:
        """Find the records that the copies of a log partition still have before missing log offsets.

        Each range of the log partition but the first follows missing log offsets. The copy from which the range was
        made may still have some records before these log offsets.

        Args:
            log_partition: number of the log partition.
            offsets: log offsets of records in the log partition.

        Yields:
            The index of a range, and an array with an entry for each of ``offsets``: whether the log offset is before
            the missing ones, and the range's copy has a record there. Ranges after a gap are left out.
        """
        for number, span in enumerate(self.ranges.get(log_partition, ())):
            if number and not span.is_gap:
                yield number, (offsets < span.begins_at) & span.own_copy.has(offsets)
