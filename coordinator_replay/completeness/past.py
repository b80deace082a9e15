"""The past of log partitions in the tables: the time since which they are complete, and proofs of absence.

A missing offset may have held a record of any key. So it is not enough that the tables have no record of a key. Where
offsets are missing, two facts together prove that a key did not exist at a time:

- The time lies in a complete range, and no gap comes before this range.
- The cleaner can't have removed an earlier record of the key. The cleaner removes a record only if it finds a later
  record of the same key, and it has not worked at or after the range's ``exact_from_offset``. So this fact holds if the
  key's next record is at or after this offset, or if the key has no next record.

``LogPartition.proves_absence`` checks both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from coordinator_replay.answer_columns import column
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.times import later, moment_of_us

_RANGES = """list_transform(complete_ranges, lambda one: [
    one.from_offset, one.to_offset, epoch_us(one.from_timestamp), epoch_us(one.to_timestamp),
    one.exact_from_offset, epoch_us(one.exact_from_timestamp)])"""


def _ranges(rows: Sequence[Sequence[Any]] | None) -> tuple[CompleteRange, ...]:
    return tuple(
        CompleteRange(
            from_offset=first,
            to_offset=end,
            from_timestamp=moment_of_us(since),
            to_timestamp=moment_of_us(until),
            exact_from_offset=exact,
            exact_from_timestamp=moment_of_us(exact_since),
        )
        for first, end, since, until, exact, exact_since in rows or ()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPartition:
    """A row of ``log_partitions``, with the parts of a log partition that audits have read.

    Attributes:
        complete_from_offset: the log offset from which nothing is missing and everything is proven; None if there is no
            such offset before the end.
        complete_since: the time of ``complete_from_offset``. None if there is no such offset, or no such time is known.
        missing_offsets: number of log offsets below the end that have no record. Their records were compacted away, or
            lie in a gap.
        gaps: ranges of log offsets that no file covered.
    """

    log_partition: int
    first_offset: int | None
    end_offset: int | None
    end_timestamp: datetime | None
    complete_from_offset: int | None
    complete_since: datetime | None
    records: int | None
    missing_offsets: int = column(sql="coalesce(missing_offsets, 0)")
    ranges: Sequence[CompleteRange] = column(sql=_RANGES, read=_ranges)
    gaps: Sequence[tuple[int, int]] = column(
        sql="coalesce(list_transform(gaps, lambda one: [one.from_offset, one.to_offset]), [])"
    )

    @property
    def is_whole(self) -> bool:
        """Return whether no log offset of the log partition is missing, from the first one on."""
        return not self.missing_offsets and not self.gaps

    @property
    def below(self) -> int:
        """Return the number of log offsets below ``complete_from_offset``, or of all if there is no such offset."""
        end = self.end_offset if self.complete_from_offset is None else self.complete_from_offset
        return end or 0

    def proven_from(self, at: datetime) -> int | None:
        """Return the first log offset from which the log proves every key at a point in time.

        The cleaner has removed no record from this log offset on.

        Returns:
            The log offset; None if records may have been removed at every log offset.
        """
        if self.is_whole:
            return 0
        offsets = (span.proven_from(at, is_last=is_last) for span, is_last in self._provable())
        return min((offset for offset in offsets if offset is not None), default=None)

    def proven_to(self, proven_from: int) -> int:
        """Return the end of the range in which every key is proven from log offset ``proven_from`` on.

        Return 0 if there is no such range, or if no offset of the log partition is missing.
        """
        ends = (span.to_offset for span in self.ranges if span.exact_from_offset == proven_from)
        return 0 if self.is_whole else min(ends, default=0)

    def proves_absence(self, at: datetime, next_offset: int | None) -> bool:
        """Return whether a key without a record up to a point in time is proven not to have existed at that time.

        Args:
            at: the point in time.
            next_offset: log offset of the key's next record; None if the key has no later record.
        """
        proven_from = self.proven_from(at)
        return proven_from is not None and (next_offset is None or next_offset >= proven_from)

    def complete_at(self, at: datetime) -> list[CompleteRange]:
        """Return the ranges in which everything is proven at a point in time."""
        return [span for span, is_last in self._provable() if span.is_complete_at(at, is_last=is_last)]

    def begun_at(self, at: datetime) -> list[CompleteRange]:
        """Return the ranges that contain a point in time and that no gap precedes."""
        return [span for span, is_last in self._provable() if span.proven_from(at, is_last=is_last) is not None]

    def is_complete_at(self, at: datetime) -> bool:
        """Return whether everything is proven at a point in time."""
        return self.is_whole or bool(self.complete_at(at))

    def _provable(self) -> Iterator[tuple[CompleteRange, bool]]:
        """Yield each complete range that no gap precedes, and whether it is the last range of the log partition."""
        # After a gap, a key is open until its next record, because its last record may have been in the gap.
        gap = min((first for first, _ in self.gaps), default=None)
        for number, span in enumerate(self.ranges, 1):
            if gap is None or span.from_offset <= gap:
                yield span, number == len(self.ranges)

    def read_to(self, at: datetime) -> int:
        """Return the end of the range that contains a point in time, as a log offset.

        If the time is in a hole, the range after the hole counts. If there are no ranges, return 0.
        """
        parts = ((span, number == len(self.ranges)) for number, span in enumerate(self.ranges, 1))
        return next((span.to_offset for span, is_last in parts if not span.is_over(at, is_last=is_last)), 0)

    def has_hole_between(self, since: datetime | None, at: datetime) -> bool:
        """Return whether the log partition has a hole in a time range, or a gap at any time.

        Args:
            since: the beginning of the time range; None for the beginning of the log.
            at: the end of the time range.
        """
        if self.gaps:
            return True
        ends = [span.to_timestamp for span in self.ranges[:-1]]
        return any(end is None or (end <= at and (since is None or end >= since)) for end in ends)


class Completeness:
    """All log partitions of a cluster, with the ranges that audits have read.

    Attributes:
        partitions: the log partitions, by number.
    """

    def __init__(self, partitions: Mapping[int, LogPartition]) -> None:
        self.partitions = partitions

    @cached_property
    def is_whole(self) -> bool:
        """Return whether no log offset is missing in any log partition."""
        return all(row.is_whole for row in self.partitions.values())

    @property
    def log_end(self) -> datetime | None:
        """Return the latest timestamp of a record.

        Return None if no record has a timestamp.
        """
        return max((row.end_timestamp for row in self.partitions.values() if row.end_timestamp), default=None)

    def proofs(self, at: datetime) -> tuple[list[int], list[int], list[int]]:
        """Return the log partitions whose records can prove that a key did not exist at a time.

        Returns:
            Three lists of equal length: the log partition, the first proven log offset, and the end of the proven log
            offsets, not included. If no log offset is missing, this end is 0.
        """
        offsets = {number: (row.proven_from(at), row) for number, row in self.partitions.items()}
        proven = [
            (number, offset, row.proven_to(offset)) for number, (offset, row) in offsets.items() if offset is not None
        ]
        return [number for number, _, _ in proven], [start for _, start, _ in proven], [end for _, _, end in proven]

    def since(self, log_partitions: Iterable[int] | None = None) -> "CompleteSince":
        """Return the time since which some log partitions are complete.

        Args:
            log_partitions: the log partitions; None for all.
        """
        lacking = [row for row in self.some(log_partitions) if not row.is_whole]
        times = [row.complete_since for row in lacking]
        return CompleteSince(
            is_whole=not lacking, since=None if None in times else max((time for time in times if time), default=None)
        )

    def incomplete_from(self, start: datetime | None) -> list[int]:
        """Return the log partitions that may lack records from a time on.

        Args:
            start: the time; None for the start of the log.
        """
        return [number for number in self.partitions if not self.since([number]).has_all_from(start)]

    def some(self, log_partitions: Iterable[int] | None) -> list[LogPartition]:
        """Return the log partitions with these numbers. Numbers without a row are left out.

        Args:
            log_partitions: the numbers; None for all log partitions.
        """
        chosen = self.partitions if log_partitions is None else set(log_partitions)
        return [self.partitions[number] for number in chosen if number in self.partitions]

    def history_line(self) -> str:
        """Return a sentence on the time since which the log is complete, and on what is missing before."""
        count = len(self.partitions)
        where = f"in all {count} log partitions" if count != 1 else "in its log partition"
        if self.is_whole:
            return f"History is complete {where}; no offset is missing."
        lacking = [row for row in self.partitions.values() if not row.is_whole]
        with_gaps = [row for row in lacking if row.gaps]
        since = self.since([row.log_partition for row in lacking if row.complete_since is not None]).since
        only_at_end = [row for row in lacking if row.complete_since is None and not row.gaps]
        proven = count - len(with_gaps) - len(only_at_end)
        parts = []
        if proven:
            time = "" if since is None else _proven_since(since, self.log_end)
            parts.append(f"History is complete{time} {where if proven == count else f'in {proven} of {count}'}")
        if only_at_end:
            parts.append(f"in {len(only_at_end)} at the end of the log only")
        missing, below = (sum(row.missing_offsets for row in lacking), sum(row.below for row in lacking))
        parts.append(
            f"{missing:,} of {below:,} earlier offsets were compacted away{' or are in no dump' * bool(with_gaps)}"
        )
        if with_gaps:
            parts.append(f"{len(with_gaps)} of {count} log partitions have gaps, where nothing is proven")
        return f"{'; '.join(parts)}."


def _proven_since(since: datetime, log_end: datetime | None) -> str:
    time = shown_since(since, log_end)
    return f" since {time}" if time else " at the end of the log"


def shown_since(since: datetime, log_end: datetime | None) -> str:
    """Return the first full second from which the log is complete.

    Return an empty text if this second is after the log's end.

    >>> from datetime import UTC
    >>> since, end = datetime(2026, 11, 21, 8, 59, 54, 400_000, UTC), datetime(2026, 11, 21, 8, 59, 54, 700_000, UTC)
    >>> shown_since(since, end), shown_since(since, later(end, 500))
    ('', '2026-11-21T08:59:55Z')
    """
    shown = shown_second(since, is_rounded_up=True)
    return "" if log_end is not None and shown > shown_second(log_end) else shown


def shown_second(moment: datetime, *, is_rounded_up: bool = False) -> str:
    """Return a time as text, rounded down to a full second, or rounded up if ``is_rounded_up``.

    >>> shown_second(moment_of_us(1), is_rounded_up=True)
    '1970-01-01T00:00:01Z'
    """
    if is_rounded_up and moment.microsecond:
        moment = later(moment, 1000)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteSince:
    """The time since which some log partitions are complete.

    Attributes:
        is_whole: whether nothing is missing in these log partitions.
        since: the time since which all of these log partitions are complete. None if one of them has no such
            time.
    """

    is_whole: bool
    since: datetime | None

    def has_all_from(self, start: datetime | None) -> bool:
        """Return whether no record is missing from a time on.

        Args:
            start: the time; None for the start of the log.
        """
        if self.is_whole:
            return True
        return start is not None and self.since is not None and start >= self.since
