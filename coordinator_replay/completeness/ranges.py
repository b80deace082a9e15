"""Complete ranges: ranges of a log partition without a missing offset.

An audit finds them in copies (``history``). Questions read them from the table ``log_partitions`` (``past``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from coordinator_replay.times import LATEST

if TYPE_CHECKING:
    from coordinator_replay.completeness.copies import Copy


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRange:
    """A range of a log partition without a missing log offset, from ``from_offset`` to ``to_offset`` (not included).

    Attributes:
        exact_from_offset: the offset from which everything in the range is proven. Below it, the cleaner may have
            removed records, because the range has later records of their keys. None if nothing is proven.
        begins_at: the first missing offset before the range, which is the end of the range before; 0 for the first
            range.
        is_gap: whether no copy had the offsets that are missing before the range. Their records may have been of any
            key.
        copy: the copy from which the range was made. Its records below ``from_offset`` can prove values of their keys.
            None for a range from a table.
        from_timestamp: the highest timestamp of all records up to ``from_offset``; None if the records have no
            timestamps. ``to_timestamp`` and ``exact_from_timestamp`` are the same for the other two offsets.
    """

    from_offset: int
    to_offset: int
    exact_from_offset: int | None
    begins_at: int = 0
    is_gap: bool = False
    copy: "Copy | None" = None
    from_timestamp: datetime | None = None
    to_timestamp: datetime | None = None
    exact_from_timestamp: datetime | None = None

    @property
    def own_copy(self) -> "Copy":
        """Return the copy of the range.

        Raises:
            ValueError: the range was read from a table, so it has no copy.
        """
        if self.copy is None:
            raise ValueError("a range that a table has knows no copy")
        return self.copy

    @property
    def is_whole(self) -> bool:
        """Return whether no record of the log partition is missing up to the end of this range."""
        return not self.from_offset and not self.is_gap

    def is_complete_at(self, at: datetime, *, is_last: bool) -> bool:
        """Return whether the range proves the value of every key at a point in time.

        Args:
            at: the point in time.
            is_last: whether the range is the last one of its log partition. The last range has no end.
        """
        if self.exact_from_offset is None or self.is_over(at, is_last=is_last):
            return False
        if self.exact_from_offset == 0 or (is_last and at == LATEST):
            return True
        return self.exact_from_timestamp is not None and self._begins_by(at) and self.exact_from_timestamp <= at

    def proven_from(self, at: datetime, *, is_last: bool) -> int | None:
        """Return the first log offset from which the range proves the value of every key at a time.

        Return None if the range proves nothing about this time.

        Args:
            at: the time.
            is_last: whether the range is the last one of its log partition. The last range has no end.
        """
        if self.exact_from_offset is None or self.is_over(at, is_last=is_last):
            return None
        begins = self.exact_from_offset == 0 or self._begins_by(at) or (is_last and at == LATEST)
        return self.exact_from_offset if begins else None

    def _begins_by(self, at: datetime) -> bool:
        return self.from_offset == 0 or (self.from_timestamp is not None and self.from_timestamp <= at)

    def is_over(self, at: datetime, *, is_last: bool) -> bool:
        """Return whether the range ends at or before a point in time.

        Return False for the last range of a log partition, because it has no end.
        """
        return not is_last and (self.to_timestamp is None or self.to_timestamp <= at)


def are_longer(before: Sequence[CompleteRange], now: Sequence[CompleteRange]) -> bool:
    """Return whether all ranges still begin at the same log offsets after a new dump.

    Args:
        before: the ranges of earlier runs.
        now: the ranges with the new dump.
    """
    return _begins(before) == _begins(now)


def gaps_behind(before: Sequence[CompleteRange], end: int, now: Sequence[CompleteRange]) -> list[int]:
    """Return the indexes of the ranges that a new dump added after the ranges of earlier runs.

    Each added range must follow a gap in the log offsets, and this gap must begin at or after ``end``. Otherwise,
    return an empty list. Also return an empty list if there were no earlier ranges, or if an earlier range now begins
    at another log offset.

    Args:
        before: the ranges of earlier runs.
        end: the first log offset after the records of earlier runs.
        now: all ranges, including those of the new dump. The indexes are positions in this list.
    """
    count = len(before)
    are_behind = all(span.is_gap and span.begins_at >= end for span in now[count:])
    return list(range(count, len(now))) if before and are_behind and are_longer(before, now[:count]) else []


def _begins(ranges: Sequence[CompleteRange]) -> list[tuple[int, int | None]]:
    return [(span.from_offset, span.exact_from_offset) for span in ranges]
