"""Whether a dump is of the log that earlier runs have read, by the records at the offsets of their anchors.

Two logs that diverge stay different. So the newest anchor that the dump has decides for all below it; where another
record stands there, older ones show whether it was ever the same log. A leader that was elected without the newest
records begins a higher leader epoch, and what it lacked is lost (KIP-101).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator_replay.errors import InputError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.log.coverage import EpochStart, SkipRanges
from coordinator_replay.log.dump import LEADER_EPOCHS, PARTITION_METADATA, Dump, DumpFile
from coordinator_replay.log.reading import read_file
from coordinator_replay.pipeline.read.anchors import Anchor, Comparison, choose, compare
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import TableFile

_CHOOSE = "audit segments of the newest leader into a new warehouse, or under a name of their own: --cluster NAME"

_TOPIC_ID = re.compile(r"^topic_id:\s*(\S+)\s*$", re.MULTILINE)
_NO_OFFSET = -1
_WAY_OUT = (
    "the dump is of another cluster, or the topic was created again; nothing was written; audit it under a name of "
    "its own: --cluster NAME"
)


@dataclass(frozen=True, slots=True)
class EarlierLog:
    """What earlier runs have kept of a log partition.

    Attributes:
        anchors: by offset.
        topic_id: of the topic; None where no dump had it.
        end_offset: the offset after the last one that they have read.
    """

    anchors: Sequence[Anchor]
    topic_id: str | None = None
    end_offset: int | None = None

    def columns(self) -> dict[str, Any]:
        """Return what ``log_partitions`` keeps of it for the next run."""
        return {"topic_id": self.topic_id, "anchors": [anchor.row() for anchor in self.anchors]}


@dataclass(slots=True)
class LogCopy:
    """The files of a log partition in one folder, or its records in an export, which has no folder; or a part of these.

    Attributes:
        folder: where the files lie; empty for an export.
        compared: its records at offsets of anchors.
        topic_id: of the topic, from ``partition.metadata``; None where the dump doesn't have it.
        epochs: where leader epochs begin in its files.
    """

    folder: str
    log_partition: int
    compared: list[Comparison] = field(default_factory=list)
    topic_id: str | None = None
    epochs: list[EpochStart] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        """Return what identifies it."""
        return self.folder, self.log_partition

    @property
    def matched(self) -> int:
        """Return the newest offset at which it has the record of earlier runs.

        Below all offsets where there is none.
        """
        return max(
            (comparison.anchor.log_offset for comparison in self.compared if comparison.is_same), default=_NO_OFFSET
        )

    @property
    def diverged(self) -> Comparison | None:
        """Return the first comparison above that with another record."""
        others = [comparison for comparison in self.compared if comparison.anchor.log_offset > self.matched]
        return min(others, key=lambda other: other.anchor.log_offset, default=None)

    @property
    def is_settled(self) -> bool:
        """Return whether it has the record of earlier runs at the newest anchor that was compared."""
        return self.matched > _NO_OFFSET and self.diverged is None

    @property
    def place(self) -> str:
        """Return where it is, for a sentence."""
        return self.folder or "the export"


class Truncation(NamedTuple):
    """A log partition that lost its newest records at an election of a leader.

    Attributes:
        from_offset: what earlier runs had read from there on counts no more.
        until_offset: at the latest, the log diverged there; the same offset where that is certain.
        end_offset: the offset after the last one that earlier runs had read; None where no run has kept it.
        leader_epoch: of the leader that was elected.
    """

    log_partition: int
    from_offset: int
    until_offset: int
    end_offset: int | None
    leader_epoch: int

    @property
    def note(self) -> str:
        """Return a sentence about it."""
        if self.from_offset == self.until_offset:
            where = f"from offset {self.from_offset} on"
        else:
            where = f"from some offset between {self.from_offset} and {self.until_offset} on"
        end = "" if self.end_offset is None else f" to {self.end_offset}"
        return (
            f"log partition {self.log_partition} was truncated by the election of a leader (leader epoch "
            f"{self.leader_epoch}): {where} this dump has other records than earlier audits; what they had read from "
            f"offset {self.from_offset}{end} was lost and counts no more"
        )


class StaleCopy(NamedTuple):
    """A copy that lacks an election: an older dump, or a replica that had not caught up.

    Attributes:
        from_offset: its records from there on are not part of the log.
        leader_epoch: of the log's records there.
    """

    copy: LogCopy
    from_offset: int
    leader_epoch: int

    @property
    def note(self) -> str:
        """Return a sentence about it."""
        return (
            f"{self.copy.place}: records of log partition {self.copy.log_partition} from offset {self.from_offset} on "
            f"are left out: an election truncated the log there, and the records that count are of leader epoch "
            f"{self.leader_epoch}"
        )


@dataclass(slots=True)
class LogComparison:
    """A dump compared with what earlier runs have kept, where it is of the same log.

    Attributes:
        truncated: log partitions of which earlier runs have read records that were lost since.
        stale: copies of which some records don't count, by folder and log partition.
        unknown: log partitions that earlier runs have read, of which the dump has no record to compare.
    """

    truncated: dict[int, Truncation] = field(default_factory=dict)
    stale: dict[tuple[str, int], StaleCopy] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)

    @property
    def is_branched(self) -> bool:
        """Return whether some records don't count, so that the dump must be read again without them."""
        return bool(self.truncated or self.stale)

    @property
    def lost_from(self) -> dict[int, int]:
        """Return for each truncated log partition the first offset whose records of earlier runs are lost."""
        return {partition: truncation.from_offset for partition, truncation in self.truncated.items()}

    def limit(self, file: DumpFile) -> int | None:
        """Return the offset from which on the records of a file don't count; None where all of them do."""
        stale = self.stale.get((folder_of(file), file.log_partition))
        return None if stale is None else stale.from_offset

    @property
    def notes(self) -> list[str]:
        """Return sentences about it for the user."""
        notes = [truncation.note for truncation in self.truncated.values()] + [
            stale.note for stale in self.stale.values()
        ]
        if self.unknown:
            named = ", ".join(map(str, self.unknown[:8])) + (", ..." if len(self.unknown) > 8 else "")
            notes.append(
                f"log partition{'s' * (len(self.unknown) > 1)} {named}: the dump has none of the records that earlier "
                "audits kept for comparison, so nothing proves that it is of the same log"
            )
        return notes


@dataclass(frozen=True, slots=True)
class LookUp:
    """A file that is opened for nothing but its records at offsets of anchors."""

    file: DumpFile
    anchors: Sequence[Anchor]


def look_up(share: LookUp) -> list[Comparison]:
    """Compare the records of a file with anchors, hopping over all other batches by their headers."""
    wanted = [anchor.log_offset for anchor in share.anchors]
    comparisons: list[Comparison] = []
    for part in read_file(share.file, SkipRanges(around([(0, wanted[-1] + 1)], wanted))):
        comparisons += compare(part.records, {share.file.log_partition: share.anchors})
    return comparisons


def around(skip: Sequence[tuple[int, int]], offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return closed ranges of offsets without some that lie in them.

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


def metadata_files(dump: Dump, files: Iterable[DumpFile]) -> dict[str, str]:
    """Return the file with the topic's id in the folder of each file, by that file's URI, if there is one."""
    folders = {folder_of(file): file.uri for file in files}
    named = ((uri, f"{folder}/{PARTITION_METADATA}") for folder, uri in folders.items())
    return {uri: metadata for uri, metadata in named if metadata in dump.companions}


def folder_of(file: DumpFile) -> str:
    """Return the folder that a file lies in."""
    return file.uri.rpartition("/")[0]


def read_topic_id(uri: str) -> str | None:
    """Return the topic's id in a file ``partition.metadata`` (``PartitionMetadataFile``); None if unreadable."""
    match = _TOPIC_ID.search(_text(uri))
    return None if match is None else match.group(1)


def read_epochs(uri: str) -> list[tuple[int, int]]:
    """Return leader epochs and their first offsets in a file ``leader-epoch-checkpoint``; none where it can't be read.

    A version, the number of lines, and so many lines of an epoch and an offset (``LeaderEpochCheckpointFile``).
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
"""Looks records up in files."""


def compare_logs(
    dump: Dump,
    parts: Iterable[LogCopy],
    earlier: Mapping[int, EarlierLog],
    unopened: Sequence[tuple[DumpFile, Extent]],
    look: Look,
) -> LogComparison:
    """Return whether a dump is of the log that earlier runs have read.

    Files that were not opened so far are opened where nothing else decides, those with the newest anchors first.

    Args:
        dump: the dump.
        parts: what was read of it.
        earlier: what earlier runs have kept, by log partition.
        unopened: files of the dump that were not opened, with the offsets that their names say.
        look: looks records up in files.

    Raises:
        InputError: the dump is of another log, or nothing says which of two histories counts.
    """
    copies = _copies(parts, earlier)
    for copy in copies:
        _check_topic(copy, earlier[copy.log_partition])
    for newest_only in (True, False):
        shares = [(copy, share) for copy in copies for share in _to_look_up(copy, earlier, unopened, newest_only)]
        for (copy, _), comparisons in zip(shares, look([share for _, share in shares]), strict=True):
            copy.compared += comparisons
    return _decided(copies, earlier, dump.companions)


def _copies(parts: Iterable[LogCopy], earlier: Mapping[int, EarlierLog]) -> list[LogCopy]:
    """Return the copies of log partitions that earlier runs have read."""
    copies: dict[tuple[str, int], LogCopy] = {}
    for part in parts:
        if part.log_partition in earlier:
            copy = copies.setdefault(part.key, LogCopy(*part.key))
            copy.compared += part.compared
            copy.topic_id = copy.topic_id or part.topic_id
            copy.epochs += part.epochs
    return [copies[key] for key in sorted(copies)]


def _check_topic(copy: LogCopy, log: EarlierLog) -> None:
    if copy.topic_id and log.topic_id and copy.topic_id != log.topic_id:
        raise InputError(
            f"{copy.place}: is of a topic with the id {copy.topic_id}, and earlier audits of this cluster have read "
            f"one with the id {log.topic_id}: {_WAY_OUT}"
        )


def _to_look_up(
    copy: LogCopy, earlier: Mapping[int, EarlierLog], unopened: Sequence[tuple[DumpFile, Extent]], newest_only: bool
) -> list[LookUp]:
    """Return the files that are to be opened, because what was compared so far decides nothing."""
    if copy.is_settled or (newest_only and copy.compared):
        return []
    done = {comparison.anchor.log_offset for comparison in copy.compared}
    anchors = [anchor for anchor in earlier[copy.log_partition].anchors if anchor.log_offset not in done]
    shares = []
    for file, extent in sorted(unopened, key=lambda pair: -pair[1].first_offset):
        within = [anchor for anchor in anchors if extent.first_offset <= anchor.log_offset <= extent.last_offset]
        if within and (folder_of(file), file.log_partition) == copy.key:
            shares.append(LookUp(file, within))
    return shares[:1] if newest_only else shares


def _decided(copies: Sequence[LogCopy], earlier: Mapping[int, EarlierLog], companions: Iterable[str]) -> LogComparison:
    comparison = LogComparison()
    compared = {copy.log_partition for copy in copies if copy.compared}
    comparison.unknown = sorted({copy.log_partition for copy in copies} - compared)
    leading: set[tuple[str, int]] = set()
    for copy in copies:
        log = earlier[copy.log_partition]
        diverged = copy.diverged or _replaced(copy, log)
        if diverged is None:
            continue
        if _is_newer(copy, log, diverged):
            leading.add(copy.key)
            _truncate(comparison, _truncation(copy, diverged, log, companions))
        else:
            comparison.stale[copy.key] = StaleCopy(copy, copy.matched + 1, diverged.anchor.leader_epoch or 0)
    for copy in copies:
        truncation = comparison.truncated.get(copy.log_partition)
        if truncation is not None and copy.compared and copy.key not in leading:
            comparison.stale[copy.key] = StaleCopy(copy, truncation.from_offset, truncation.leader_epoch)
    return comparison


def _replaced(copy: LogCopy, log: EarlierLog) -> Comparison | None:
    """Return the first anchor that can't be in the log of a copy any more: leader epochs only rise in a log.

    The copy may be too short to have another record at its offset.
    """
    if copy.matched == _NO_OFFSET:
        return None
    for anchor in log.anchors:
        for start in copy.epochs:
            is_before = copy.matched < start.first <= anchor.log_offset
            if is_before and anchor.leader_epoch is not None and start.leader_epoch > anchor.leader_epoch:
                return Comparison(copy.log_partition, anchor, anchor._replace(leader_epoch=start.leader_epoch, hash=""))
    return None


def _is_newer(copy: LogCopy, log: EarlierLog, diverged: Comparison) -> bool:
    """Return whether the copy has what counts where it diverges from what earlier runs have read, by the leader epochs.

    Raises:
        InputError: it is another log, or no leader epoch says which of both counts.
    """
    anchor, other = diverged.anchor, diverged.other
    where = (
        f"{copy.place}: at offset {anchor.log_offset} of log partition {copy.log_partition} stands a record of "
        f"{other.when}, and earlier audits of this cluster have read another one there, of {anchor.when}"
    )
    is_same_topic = copy.topic_id is not None and copy.topic_id == log.topic_id
    if copy.matched == _NO_OFFSET and not is_same_topic:
        raise InputError(f"{where}; no older record that they kept for comparison is in the dump: {_WAY_OUT}")
    if anchor.leader_epoch is None or other.leader_epoch is None or anchor.leader_epoch == other.leader_epoch:
        raise InputError(
            f"{where}, though older ones are the same; the log was truncated by the election of a leader, and no "
            f"leader epoch says which record counts; nothing was written: {_CHOOSE}"
        )
    return other.leader_epoch > anchor.leader_epoch


def _truncation(copy: LogCopy, diverged: Comparison, log: EarlierLog, companions: Iterable[str]) -> Truncation:
    """Return where the copy diverges from earlier runs: where its leader epoch begins, if it says so."""
    first, last, epoch = copy.matched + 1, diverged.anchor.log_offset, diverged.anchor.leader_epoch or 0
    checkpoint = f"{copy.folder}/{LEADER_EPOCHS}"
    starts = [start for start in copy.epochs if start.leader_epoch > epoch and first <= start.first <= last]
    if starts:
        start = min(starts, key=lambda start: start.first)
        first, last = max(first, start.after + 1), start.first
    if checkpoint in companions:
        begins = [begin for leader_epoch, begin in read_epochs(checkpoint) if leader_epoch > epoch]
        if begins and first <= min(begins) <= last:
            first = last = min(begins)
    return Truncation(copy.log_partition, first, last, log.end_offset, diverged.other.leader_epoch or 0)


def _truncate(comparison: LogComparison, truncation: Truncation) -> None:
    """Truncate a copy; of several truncated copies the one with the newest leader counts."""
    other = comparison.truncated.setdefault(truncation.log_partition, truncation)
    if (truncation.leader_epoch, -truncation.from_offset) > (other.leader_epoch, -other.from_offset):
        comparison.truncated[truncation.log_partition] = truncation


def earlier_logs(files: Sequence[TableFile]) -> dict[int, EarlierLog]:
    """Return what earlier runs have kept, by log partition.

    Args:
        files: of table ``log_partitions``, of the cluster.
    """
    return {
        row["log_partition"]: EarlierLog(
            [Anchor(**anchor) for anchor in row["anchors"] or ()], row["topic_id"], row["end_offset"]
        )
        for batch in read_table(files, ["log_partition", "anchors", "topic_id", "end_offset"])
        for row in batch.to_pylist()
    }


def logs_after(
    earlier: Mapping[int, EarlierLog],
    anchors_read: Iterable[Mapping[int, Sequence[Anchor]]],
    parts: Iterable[LogCopy],
    comparison: LogComparison,
) -> dict[int, EarlierLog]:
    """Return what a run keeps of the log partitions that it has read; their ends are as before.

    Anchors that the dump still has are preferred: what has outlived a compaction may well outlive another one.

    Args:
        earlier: what earlier runs have kept.
        anchors_read: candidates among the records that the run has read.
        parts: what was read of the dump.
        comparison: the dump compared with what earlier runs have kept.
    """
    parts = list(parts)
    still = {
        (comparison.log_partition, comparison.anchor.log_offset)
        for part in parts
        for comparison in part.compared
        if comparison.is_same
    }
    topic_ids = {part.log_partition: part.topic_id for part in parts if part.topic_id}
    candidates: dict[int, list[Anchor]] = {}
    for of_part in anchors_read:
        for partition, anchors in of_part.items():
            candidates[partition] = choose([*candidates.get(partition, ()), *anchors])
    logs = {}
    for partition in {part.log_partition for part in parts}:
        log = earlier.get(partition, EarlierLog(()))
        lost = comparison.truncated.get(partition)
        before = (
            anchor._replace(is_live=(partition, anchor.log_offset) in still)
            for anchor in log.anchors
            if lost is None or anchor.log_offset < lost.from_offset
        )
        anchors = choose([*before, *candidates.get(partition, ())])
        logs[partition] = EarlierLog(anchors, topic_ids.get(partition, log.topic_id), log.end_offset)
    return logs
