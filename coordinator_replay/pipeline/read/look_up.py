"""Look-ups in segment files that show whether a dump comes from the same log as the records of earlier runs."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator_replay.completeness.anchors import Anchor, Comparison
from coordinator_replay.completeness.same_log import (
    EarlierLog,
    LogComparison,
    LogCopy,
    check_topic,
    comparison_by_anchors,
)
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.log.coverage import SkipRanges
from coordinator_replay.log.dump import Dump, DumpFile
from coordinator_replay.log.reading import read_file
from coordinator_replay.pipeline.read.anchors import compare
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import TableFile

_TOPIC_ID = re.compile(r"^topic_id:\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LookUp:
    """A file that is opened only to compare some of its records with records of earlier runs, the anchors.

    The comparison shows whether the file comes from the same log (``completeness.anchors``).
    """

    file: DumpFile
    anchors: Sequence[Anchor]


def look_up(share: LookUp) -> list[Comparison]:
    """Compare records of a file with the records that earlier runs kept (anchors). Read only batches with anchors."""
    wanted = [anchor.log_offset for anchor in share.anchors]
    comparisons: list[Comparison] = []
    for part in read_file(share.file, SkipRanges(around([(0, wanted[-1] + 1)], wanted))):
        comparisons += compare(part.records, {share.file.log_partition: share.anchors})
    return comparisons


def around(skip: Sequence[tuple[int, int]], offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return ranges of log offsets without some single log offsets. A range includes both of its ends.

    Args:
        skip: the ranges.
        offsets: the log offsets to leave out.

    >>> around([(0, 9), (20, 29)], [0, 5, 12])
    [(1, 4), (6, 9), (20, 29)]
    """
    rest = []
    wanted = sorted(offsets)
    for low, high in skip:
        start = low
        for offset in wanted[bisect_left(wanted, low) : bisect_right(wanted, high)]:
            rest.append((start, offset - 1))
            start = offset + 1
        rest.append((start, high))
    return [(low, high) for low, high in rest if low <= high]


def companions(dump: Dump, files: Iterable[DumpFile], name: str) -> dict[str, str]:
    """Return the files with a certain name, such as ``partition.metadata``, in the folders of segments.

    Args:
        dump: the dump.
        files: some segments of the dump.
        name: the name.

    Returns:
        For each folder with such a file, the URI of the file. The key is the URI of one segment of the folder.
    """
    folders = {folder_of(file): file.uri for file in files}
    named = ((uri, f"{folder}/{name}") for folder, uri in folders.items())
    return {uri: companion for uri, companion in named if companion in dump.companions}


def folder_of(file: DumpFile) -> str:
    """Return the folder that a file lies in."""
    return file.uri.rpartition("/")[0]


def read_topic_id(uri: str) -> str | None:
    """Return the topic's id in a file ``partition.metadata`` (``PartitionMetadataFile``).

    Return None if the file can't be read or has no id.
    """
    match = _TOPIC_ID.search(_text(uri))
    return None if match is None else match.group(1)


def read_epochs(uri: str) -> list[tuple[int, int]]:
    """Return the leader epochs in a file ``leader-epoch-checkpoint``, each with its first log offset.

    Return an empty list if the file can't be read.

    The file has a version, the number of entries, and a line with epoch and log offset for each entry
    (``LeaderEpochCheckpointFile``).
    """
    lines = [line.split() for line in _text(uri).splitlines()]
    try:
        entries = [(int(epoch), int(start)) for epoch, start in lines[2:]]
        return entries if lines[0] == ["0"] and int(lines[1][0]) == len(entries) else []
    except (ValueError, IndexError):
        return []


def _text(uri: str) -> str:
    filesystem, path = open_filesystem(uri)
    try:
        with filesystem.open_input_stream(path) as stream:
            return bytes(stream.read(1 << 16)).decode("ascii", "replace")
    except OSError:
        return ""


Look = Callable[[Sequence[LookUp]], Sequence[Sequence[Comparison]]]
"""A function that looks records up in files."""


def compare_logs(
    copies: Sequence[LogCopy],
    earlier: Mapping[int, EarlierLog],
    unopened: Sequence[tuple[DumpFile, Extent]],
    look: Look,
) -> LogComparison:
    """Return whether a dump comes from the same log as the records of earlier runs.

    Earlier runs kept some records, the anchors (``completeness.anchors``). The dump comes from the same log if it has
    the same records at the log offsets of the anchors. Open further files if the opened files don't decide this.

    Args:
        copies: the copies of log partitions in the dump. Comparisons from further files are added to them.
        earlier: the log as earlier runs know it, by log partition.
        unopened: files of the dump that were not opened, with the log offsets that their names show.
        look: a function that compares anchors with the records in a file.

    Raises:
        InputError: the dump comes from another log, or it is not known which of two different logs counts.
    """
    # First open the file with the newest anchors. If it does not decide, open all files with anchors.
    copies = [copy for copy in copies if copy.log_partition in earlier]
    for copy in copies:
        check_topic(copy, earlier[copy.log_partition])
    for newest_only in (True, False):
        shares = [(copy, share) for copy in copies for share in _to_look_up(copy, earlier, unopened, newest_only)]
        for (copy, _), comparisons in zip(shares, look([share for _, share in shares]), strict=True):
            copy.compared += comparisons
    return comparison_by_anchors(copies, earlier)


def _to_look_up(
    copy: LogCopy, earlier: Mapping[int, EarlierLog], unopened: Sequence[tuple[DumpFile, Extent]], newest_only: bool
) -> list[LookUp]:
    """Return the files in which to look for anchors; an empty list if no further comparison is needed.

    An anchor is a record that earlier runs kept, to recognise the log by.

    Args:
        copy: the copy.
        earlier: the log as earlier runs know it, by log partition.
        unopened: files of the dump that were not opened.
        newest_only: whether to open only the file with the newest anchors.
    """
    if copy.has_newest or (newest_only and copy.compared):
        return []
    done = {found.anchor.log_offset for found in copy.compared}
    anchors = [anchor for anchor in earlier[copy.log_partition].anchors if anchor.log_offset not in done]
    shares = []
    for file, extent in sorted(unopened, key=lambda pair: -pair[1].first_offset):
        within = [anchor for anchor in anchors if extent.first_offset <= anchor.log_offset <= extent.last_offset]
        if within and (folder_of(file), file.log_partition) == copy.key:
            shares.append(LookUp(file, within))
    return shares[:1] if newest_only else shares


def earlier_logs(files: Sequence[TableFile]) -> dict[int, EarlierLog]:
    """Return the facts by which earlier runs recognise the log, by log partition.

    These are the anchors (records that earlier runs kept), the topic id, and the log offset at which the log ended.

    Args:
        files: the cluster's files of table ``log_partitions``.
    """
    return {
        row["log_partition"]: EarlierLog(
            [Anchor(**anchor) for anchor in row["anchors"] or ()], row["topic_id"], row["end_offset"]
        )
        for batch in read_table(files, ["log_partition", "anchors", "topic_id", "end_offset"])
        for row in batch.to_pylist()
    }
