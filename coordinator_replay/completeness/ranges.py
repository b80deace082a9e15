"""Complete ranges: offsets of a log partition of which none is missing, for those who find them and those who ask."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from coordinator_replay.times import LATEST

if TYPE_CHECKING:
    from coordinator_replay.completeness.copies import Copy


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRange:
    """Offsets of which none is missing: from ``from_offset`` up to ``to_offset``, which is not included.

    Attributes:
        exact_from_offset: everything is proven from here on; before it the cleaner may have replaced records by later
            ones of this range. None where nothing is proven.
        begins_at: the end of the range before, which is the first missing offset; 0 for the first range.
        is_gap: the missing offsets were in no copy, or in none from the beginning: they may have been anything.
        copy: its records below ``from_offset`` prove something; None for a range that a table has.
        from_timestamp: the running maximum of the records' timestamps there; None where they carry none.
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
        """Return the copy that proves something; the run that finds a range has it, and no table."""
        if self.copy is None:
            raise ValueError("a range that a table has knows no copy")
        return self.copy

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is missing from the beginning of the log on."""
        return not self.from_offset and not self.is_gap

    def is_complete_at(self, at: datetime, *, is_last: bool) -> bool:
        """Return whether everything is proven at a point in time; the last range of a log partition never ends."""
        if self.exact_from_offset is None or self.is_over(at, is_last=is_last):
            return False
        if self.exact_from_offset == 0 or (is_last and at == LATEST):
            return True
        return self.exact_from_timestamp is not None and self._begins_by(at) and self.exact_from_timestamp <= at

    def proven_from(self, at: datetime, *, is_last: bool) -> int | None:
        """Return the offset from which on everything is proven that decides about a time; None if nothing is."""
        if self.exact_from_offset is None or self.is_over(at, is_last=is_last):
            return None
        begins = self.exact_from_offset == 0 or self._begins_by(at) or (is_last and at == LATEST)
        return self.exact_from_offset if begins else None

    def _begins_by(self, at: datetime) -> bool:
        return self.from_offset == 0 or (self.from_timestamp is not None and self.from_timestamp <= at)

    def is_over(self, at: datetime, *, is_last: bool) -> bool:
        """Return whether it ends before a point in time; the last one of a log partition never does."""
        return not is_last and (self.to_timestamp is None or self.to_timestamp <= at)


def are_longer(before: Sequence[CompleteRange], now: Sequence[CompleteRange]) -> bool:
    """Return whether ranges begin where those of before did, and at most the last one goes on."""
    return _begins(before) == _begins(now)


def gaps_behind(before: Sequence[CompleteRange], end: int, now: Sequence[CompleteRange]) -> list[int]:
    """Return the numbers of the ranges that begin with a gap behind an end; none where anything before it changed.

    Args:
        before: the ranges of earlier runs.
        end: of what they have read.
        now: the ranges of now.
    """
    count = len(before)
    are_behind = all(span.is_gap and span.begins_at >= end for span in now[count:])
    return list(range(count, len(now))) if before and are_behind and are_longer(before, now[:count]) else []


def _begins(ranges: Sequence[CompleteRange]) -> list[tuple[int, int | None]]:
    return [(span.from_offset, span.exact_from_offset) for span in ranges]
