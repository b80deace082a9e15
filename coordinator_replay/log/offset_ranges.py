"""The range of log offsets that a segment file can have, known from the names of files alone.

A broker names a segment by its base offset, and the next segment begins above all offsets in it. Compaction keeps this
order.
"""

from collections.abc import Sequence
from itertools import pairwise

from coordinator_replay.log.dump import PARTITION_FOLDER, SEGMENT_NAME, DumpFile


def offset_ranges(files: Sequence[DumpFile]) -> dict[int, tuple[int, int]]:
    """Return the range of log offsets that each segment can have, by the names of the files.

    The range is from the base offset of the segment to the base offset of the next segment in the folder. If the dump
    lacks the true next segment, the range is too long, never too short. The last segment of a folder has no range. A
    segment whose folder does not belong to a log partition has none either.

    Args:
        files: the files of a dump.

    Returns:
        The first log offset of each range and the offset after its last, by the segment's index in ``files``.
    """
    folders: dict[str, list[tuple[int, int]]] = {}
    for place, file in enumerate(files):
        folder, _, name = file.uri.rpartition("/")
        named = SEGMENT_NAME.match(name)
        if named and file.is_current and PARTITION_FOLDER.match(folder.rpartition("/")[2]):
            folders.setdefault(folder, []).append((int(named.group(1)), place))
    return {
        place: (base, following)
        for segments in folders.values()
        for (base, place), (following, _) in pairwise(sorted(segments))
        if base < following
    }
