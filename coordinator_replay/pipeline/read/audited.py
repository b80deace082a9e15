"""The parts of a dump that earlier runs have not read.

The name of a file shows whether a run has read the whole file. The header of a batch shows whether a run has read the
batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_replay.listing import counted
from coordinator_replay.log.coverage import SkipRanges
from coordinator_replay.log.dump import DumpFile
from coordinator_replay.log.offset_ranges import offset_ranges
from coordinator_replay.pipeline.read.decode import copy_name
from coordinator_replay.pipeline.read.extents import Extent


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """The parts of a dump that no earlier run has read.

    Attributes:
        files: the files with log offsets that no earlier run has read.
        skip: ranges of log offsets that earlier runs have read, by log partition. A range includes both of its ends.
        unopened: the other files, each with its log offsets as the names of the files show them.
    """

    files: list[DumpFile]
    skip: Mapping[int, Sequence[tuple[int, int]]]
    unopened: list[tuple[DumpFile, Extent]]

    def note(self, opened: Iterable[Extent]) -> str | None:
        """Return a sentence for the user about files and records that were not read; None if all were read.

        Args:
            opened: the log offsets of the opened files, with the number of skipped records.
        """
        hopped = sum(extent.skipped for extent in opened)
        parts = []
        if self.unopened:
            size = sum(file.size for file, _ in self.unopened)
            parts.append(f"{counted(len(self.unopened), 'file')} of {size:,} bytes not opened")
        if hopped:
            parts.append(f"{counted(hopped, 'record')} of opened files skipped")
        if not parts:
            return None
        return f"{' and '.join(parts)}: earlier runs have read these offsets; --full reads them again"


def unread_files(files: Sequence[DumpFile], audited: Mapping[int, Sequence[tuple[int, int]]]) -> UnreadFiles:
    """Return the parts of a dump that no earlier run has read.

    Files that are no longer part of the log, such as ``.log.deleted`` files, are read in full.

    Args:
        files: the segments of the dump.
        audited: ranges of log offsets that earlier runs have read, by log partition, as tuples of first log offset and
            end (not included).
    """
    skip = {p: [(start, end - 1) for start, end in ranges] for p, ranges in audited.items()}
    covering = {p: SkipRanges(ranges) for p, ranges in skip.items()}
    named = offset_ranges(files)
    unread = UnreadFiles([], skip, [])
    for place, file in enumerate(files):
        ranges, named_range = covering.get(file.log_partition), named.get(place)
        if ranges is None or named_range is None or not _covers(ranges, *named_range):
            unread.files.append(file)
        else:
            unread.unopened.append((file, _extent(file, *named_range)))
    return unread


def _covers(ranges: SkipRanges, start: int, end: int) -> bool:
    return bool(ranges.cover(np.array([start]), np.array([end - 1]))[0])


def _extent(file: DumpFile, start: int, end: int) -> Extent:
    """Return the log offsets of a file that was not opened.

    The number of its records is estimated: one for each log offset.

    Args:
        file: the file.
        start: the first log offset.
        end: the log offset after the last one.
    """
    return Extent(
        log_partition=file.log_partition,
        first_offset=start,
        last_offset=end - 1,
        records=end - start,
        skipped=end - start,
        copy=copy_name(file),
    )
