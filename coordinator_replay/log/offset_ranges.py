"""The range of offsets that a segment file can have, known from the names of files alone.

A broker names a segment by its base offset, and the next segment begins above all offsets in it. Compaction keeps this
order.
"""

from collections.abc import Sequence
from itertools import pairwise

from coordinator_replay.log.dump import PARTITION_FOLDER, SEGMENT_NAME, DumpFile


def offset_ranges(files: Sequence[DumpFile]) -> dict[int, tuple[int, int]]:
    """Return the largest range that each file can cover: from its base offset to the base offset of the next file.

    A segment has a range only if its folder belongs to a log partition, and another segment follows it in the folder.
    If a dump lacks the next segments, a range is longer than its file, never shorter.

    Args:
        files: the files of a dump.

    Returns:
        The ranges, by index in ``files``. The end of a range is not included.
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
