"""Proofs of groups by the history of their log partition: where it breaks, and from where on a group is complete.

A group is complete at an offset if no key of it is open there. Behind the last missing offset a key is open as long as
its first record is still to come: the cleaner may have removed an earlier one for it. So a group is proven from the
later of two offsets on. One is behind the last missing offset. The other is behind the first record of the last key
that appears in the part that the cleaner may have been at work in.
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
    """A place at which the history of a group begins, or breaks.

    Attributes:
        offset: the first offset that is missing; 0 where the history begins.
        at_ms: the time up to which no record is missing; None where no record has it.
        is_gap: what is missing was in no copy: it may have been anything.
        proven_from: from where on the group is proven; None where nothing but its records proves it.
        proven_ms: the time of that.
        number: of the range that begins here.
    """

    offset: int
    at_ms: int | None
    is_gap: bool
    proven_from: int | None
    proven_ms: int | None
    number: int


@dataclass(frozen=True, slots=True)
class GroupProofs:
    """Proofs of the groups of log partitions of which records are missing.

    Attributes:
        ranges: the history of each such log partition.
        times: for each of its ranges, the times of its beginning, and from when on nothing is missing.
        appearances: for a group, log partition and range, where the last key appears that may have been there before.
        new: the gaps behind what earlier runs have read, by log partition; groups pass them as they go on.
        confirmed: for a group, log partition and range that begins where records are missing, the records below that
            its own copy has.
    """

    ranges: Mapping[int, Sequence[CompleteRange]] = field(default_factory=dict)
    times: Mapping[tuple[int, int], tuple[int | None, int | None]] = field(default_factory=dict)
    appearances: Mapping[Part, tuple[int, int | None]] = field(default_factory=dict)
    new: Mapping[int, Sequence[Break]] = field(default_factory=dict)
    confirmed: Mapping[Part, Sequence[Record]] = field(default_factory=dict)

    def breaks(self, group_id: str, log_partition: int) -> list[Break]:
        """Return where the history of a group begins and breaks, oldest first; nothing where no record is missing."""
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
        """Return what a group begins with that appears behind what earlier runs have read, and the gaps behind that.

        Args:
            log_partition: the log partition.
            first_offset: of the group's first record.
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
        """Yield the ranges that begin where records are missing, and which records they go on from.

        Args:
            log_partition: the log partition.
            offsets: of records in it.

        Yields:
            number of the range, and which of the records stand below its beginning and in its own copy.
        """
        for number, span in enumerate(self.ranges.get(log_partition, ())):
            if number and not span.is_gap:
                yield number, (offsets < span.begins_at) & span.own_copy.has(offsets)
