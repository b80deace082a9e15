"""The number of log offsets that are missing before each file of a dump.

The column ``missing_before`` counts only from the first batch of its own file. If a log partition has several files,
offsets that are missing from earlier files count as well: a missing offset may have had a record of any group.
"""

from collections import defaultdict
from collections.abc import Sequence

import pyarrow.compute as pc

from coordinator_replay.log.dump import DumpFile
from coordinator_replay.log.reading import read_file


def missing_before_files(files: Sequence[DumpFile]) -> list[int]:
    """Return, for each file of a dump, how many log offsets are missing before the file.

    These are the log offsets from 0 up to the file's first batch at which no earlier file of the log partition has a
    record.

    To count records, the function reads each file without decoding its records. The last file of a log partition is
    read only up to its first records, because no file comes after it.

    Args:
        files: the files of a dump; files of the same log partition must not overlap.

    Returns:
        For each file, the number to add to the ``missing_before`` of its records; 0 for a file without records.
    """
    partitions: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, file in enumerate(files):
        base = _base_offset(file)
        if base is not None:
            partitions[file.log_partition].append((base, place))
    missing = [0] * len(files)
    for segments in partitions.values():
        records = 0
        in_order = sorted(segments)
        for base, place in in_order:
            missing[place] = base - records
            if place != in_order[-1][1]:
                records += _count(files[place])
    return missing


def _base_offset(file: DumpFile) -> int | None:
    """Return the log offset at which a file's first batch begins; None if the file has no records.

    The column ``missing_before`` of the file counts from this offset.
    """
    for part in read_file(file):
        missing = part.records.column("missing_before")
        if missing.null_count < len(missing):
            first = pc.index(missing.is_valid(), value=True).as_py()
            return int(part.records.column("log_offset")[first].as_py() - missing[first].as_py())
    return None


def _count(file: DumpFile) -> int:
    return sum(len(part.records) - part.records.column("missing_before").null_count for part in read_file(file))
