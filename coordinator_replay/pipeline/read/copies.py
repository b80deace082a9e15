"""Copies of log partitions in a dump: which log offsets each copy has, and which copies must be read again."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from coordinator_replay.completeness.copies import CopyBounds
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.log.dump import Dump, DumpFile, base_offset
from coordinator_replay.pipeline.read.decode import copy_name
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.pipeline.read.tally import Ranges, Tally


@dataclass(frozen=True, slots=True)
class DumpCopy:
    """A copy of a log partition in a dump.

    Methods take the end of earlier runs as ``end``. This is the log offset after the highest log offset that earlier
    runs have read. It is None if no earlier run has read the log partition.

    Attributes:
        source: name of the copy in the staged files.
        bounds: the log offsets at which the copy begins and ends, and its gaps.
        files: files of the copy; none for an export.
        unread: number of the copy's records at log offsets that no earlier run has read.
        skipped: number of the copy's records that this run did not read, because earlier runs have read them.
        is_late: whether the copy has unread records at lower log offsets than ``end``.
        unpaired: base offsets of segments that the copy lacks, though it has the segment's index or snapshot file.
        has_last_batch: whether the newest segment of the copy has a batch.
    """

    source: str
    bounds: CopyBounds
    files: Sequence[DumpFile]
    unread: int
    skipped: int
    is_late: bool = False
    unpaired: Sequence[int] = ()
    has_last_batch: bool = True

    def lacks_new_offsets(self, end: int | None) -> bool:
        """Return whether the cleaner has removed records of the copy at ``end`` or after it.

        Args:
            end: the log offset after the last record that earlier runs have read; None if they have read none.
        """
        return end is not None and self.bounds.end > end and self.unread < self.bounds.end - end

    def is_older(self, end: int | None) -> bool:
        """Return whether the copy ends at a lower log offset than earlier runs have read (``end``)."""
        return end is not None and self.bounds.end < end

    def may_have_below(self, end: int | None) -> bool:
        """Return whether the copy may have records below ``end`` that must be read.

        Return False if the copy begins at ``end`` or after it. Otherwise, return True in three cases:

        - The cleaner has removed records at ``end`` or after it.
        - The copy ends before ``end``.
        - The copy has records below ``end`` that no earlier run has read.

        Args:
            end: the log offset after the last record that earlier runs have read; None if they have read none.
        """
        if end is None or self.bounds.covered_from >= end:
            return False
        return self.lacks_new_offsets(end) or self.is_older(end) or self.is_late

    def below(self, limit: int | None) -> "DumpCopy":
        """Return the copy cut off at a log offset.

        Args:
            limit: the first log offset to leave out; None to return the whole copy.
        """
        if limit is None:
            return self
        bounds = self.bounds
        return replace(
            self,
            bounds=replace(
                bounds,
                covered_from=min(bounds.covered_from, limit),
                end=min(bounds.end, limit),
                gaps=tuple((low, min(high, limit)) for low, high in bounds.gaps if low < limit),
            ),
        )

    def as_gaps(self) -> "DumpCopy":
        """Return the copy with all log offsets marked as a gap: no missing record counts as removed by the cleaner."""
        return replace(self, bounds=replace(self.bounds, gaps=(*self.bounds.gaps, (0, LARGEST_INT64))))

    def has_news(self, end: int | None) -> bool:
        """Return whether the copy has records that no earlier run has read, or ends at a log offset other than ``end``.

        Args:
            end: the log offset after the last record that earlier runs have read; None if they have read none.
        """
        # An older copy whose parts were all skipped was not read, so it shows nothing.
        is_passed_over = self.bounds.covered_from > self.bounds.end
        return end is None or self.unread > 0 or (self.bounds.end != end and not is_passed_over)

    def as_read_whole(self) -> "DumpCopy":
        """Return the copy, marked as read from its first to its last record."""
        return replace(self, skipped=0, bounds=replace(self.bounds, covered_from=_first_offset(self.files, ())))


def _base_offsets(files: Sequence[DumpFile]) -> list[int]:
    """Return the base offsets of segments, which are in the file names. A larger number becomes LARGEST_INT64."""
    return [min(base, LARGEST_INT64) for file in files if (base := base_offset(file)) is not None]


def _first_offset(files: Sequence[DumpFile], extents: Sequence[Extent]) -> int:
    """Return the lowest log offset that files cover.

    Args:
        files: the files. Names of segments show their first log offsets.
        extents: the log offsets of the files' batches, which count if no name shows a log offset.
    """
    named = _base_offsets(files)
    return min([*named, *(extent.first_offset for extent in extents if not named)], default=0)


def segment_copies(dump: Dump, extents: Sequence[Extent], ends: Mapping[int, int]) -> list[DumpCopy]:
    """Put the segments of a dump together to copies of log partitions, and return these copies.

    Args:
        dump: the dump.
        extents: the log offsets that each file covers, including files that were not opened.
        ends: the log offset after the highest log offset that earlier runs have read, by log partition.
    """
    by_copy: dict[tuple[int, str], list[DumpFile]] = {}
    for file in dump.segments:
        by_copy.setdefault((file.log_partition, copy_name(file)), []).append(file)
    covered: dict[tuple[int, str], list[Extent]] = {}
    for extent in extents:
        covered.setdefault((extent.log_partition, extent.copy), []).append(extent)
    return [
        _segment_copy(
            key, number, of_copy, covered.get(key, ()), ends.get(key[0]), dump.indexed.get(key[1], frozenset())
        )
        for number, (key, of_copy) in enumerate(sorted(by_copy.items()))
    ]


def gaps_of(copies: Sequence[DumpCopy], uncovered: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return ranges of log offsets whose segment is missing in a dump, though the dump has the segment's index file.

    Where the index file is missing as well, the cleaner has merged segments, and no range is returned.

    Args:
        copies: the copies of the dump.
        uncovered: ranges of log offsets between files, as tuples of log partition, first log offset, end (not
            included).
    """
    unpaired: dict[int, list[int]] = {}
    for copy in copies:
        unpaired.setdefault(copy.bounds.log_partition, []).extend(copy.unpaired)
    for bases in unpaired.values():
        bases.sort()
    return [
        (partition, low, high)
        for partition, low, high in uncovered
        if bisect_left(bases := unpaired.get(partition, []), low) < bisect_left(bases, high)
    ]


def _segment_copy(
    key: tuple[int, str],
    number: int,
    files: Sequence[DumpFile],
    extents: Sequence[Extent],
    end: int | None,
    indexed: Collection[int],
) -> DumpCopy:
    bases = sorted(_base_offsets(files))
    reached = max([*bases, *(extent.last_offset + 1 for extent in extents)], default=0)
    skipped = sum(extent.skipped for extent in extents)
    first = _first_offset(files, extents)
    unpaired = tuple(sorted({min(base, LARGEST_INT64) for base in indexed}.difference(bases)))
    lost = [(base, bases[place]) for base in unpaired if (place := bisect_right(bases, base)) < len(bases)]
    damaged = [
        (extent.first_offset, min(extent.last_offset, LARGEST_INT64 - 1) + 1) for extent in extents if extent.damaged
    ]
    bounds = CopyBounds(
        log_partition=key[0],
        name=str(number),
        is_export=False,
        covered_from=max(first, end or 0) if skipped else first,
        # The log went on after a deleted file, so the cleaner may have cleaned all of it.
        cleaned_to=max(bases, default=reached) if any(file.is_current for file in files) else LARGEST_INT64,
        end=min(reached, LARGEST_INT64),
        gaps=(*lost, *damaged),
    )
    unread = sum(extent.unread for extent in extents)
    # If a file has more unread records than offsets after the end, some of these records lie below the end.
    is_late = end is not None and any(extent.unread > max(extent.last_offset + 1 - end, 0) for extent in extents)
    has_last_batch = any(extent.last_offset + 1 == reached for extent in extents)
    return DumpCopy(key[1], bounds, files, unread, skipped, is_late, unpaired, has_last_batch)


def export_copies(tally: Tally, ends: Mapping[int, int]) -> list[DumpCopy]:
    """Return the copies in an export that a consumer made, one for each log partition.

    Args:
        tally: counts of all records of the export.
        ends: the log offset after the highest log offset that earlier runs have read, by log partition.
    """
    unread = {partition: count.records for partition, count in tally.by_partition(only_new=True).items()}
    return [
        _export_copy(partition, count.low, count.high + 1, unread.get(partition, 0), ends.get(partition))
        for partition, count in sorted(tally.by_partition().items())
        if count.low is not None and count.high is not None
    ]


def _export_copy(partition: int, low: int, end: int, unread: int, reached: int | None) -> DumpCopy:
    continues = reached is not None and low >= reached
    bounds = CopyBounds(
        log_partition=partition,
        name="0",
        is_export=True,
        covered_from=reached or 0 if continues else 0,
        cleaned_to=min(end, LARGEST_INT64),
        end=min(end, LARGEST_INT64),
    )
    return DumpCopy("", bounds, (), unread, 0)


def passed_over(
    copies: Sequence[DumpCopy], ends: Mapping[int, int], complete: Ranges
) -> Iterator[tuple[DumpCopy, Mapping[int, Sequence[tuple[int, int]]]]]:
    """Yield copies that must be read from their first record on.

    Normally a run skips records at log offsets that earlier runs have read. A copy is read from its first record on in
    these cases:

    - The cleaner has removed records of the copy after the end of earlier runs.
    - The copy has records at log offsets for which earlier copies had no file.
    - The copy ends before the end of earlier runs, and records may be missing from what earlier runs have read.

    Each copy comes with the range of log offsets that this run has already read, by log partition.

    Args:
        copies: the copies of a dump.
        ends: the log offset after the highest log offset that earlier runs have read, by log partition.
        complete: ranges of log offsets without a missing record, by log partition, as tuples of first log offset and
            end (not included).
    """
    for copy in copies:
        partition = copy.bounds.log_partition
        end = ends.get(partition)
        if not copy.skipped or end is None:
            continue
        if copy.lacks_new_offsets(end) or copy.is_late:
            yield copy, {partition: [(end, LARGEST_INT64)]}
        elif copy.is_older(end):
            ranges = [(low, high - 1) for low, high in complete.get(partition, ())]
            first = _first_offset(copy.files, ())
            if not any(low <= first and high >= copy.bounds.end - 1 for low, high in ranges):
                # Only the records of the older copy show which offsets of a complete range the copy has.
                yield copy, {partition: [(end, LARGEST_INT64)]}
