"""The comparison of a dump with the log that earlier runs have read.

It shows whether the dump comes from the same log, and which records the log has lost at an election.

Earlier runs kept a few records for comparison, the *anchors*. If the dump still has the newest anchor, all records
below this log offset come from the same log. If the dump has another record at this log offset, older anchors decide:

- If the dump has the record of an older anchor, or its topic has the id that earlier runs recorded, the dump comes from
  the same log. Then a leader was elected without the newest records. This leader began a higher leader epoch, and the
  records that it lacked are lost (KIP-101). ``lost_tail`` finds this even if the cleaner has removed the new leader's
  records at these offsets.
- Otherwise the dump comes from another log, and an InputError is raised.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from coordinator_replay.columns import Numbers
from coordinator_replay.completeness.anchors import Anchor, Comparison, choose
from coordinator_replay.completeness.lost_tail import NO_EPOCH, Divergence, EpochBounds, Loser, losing
from coordinator_replay.errors import InputError
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.log.coverage import EpochStart

_CHOOSE = "audit segments of the newest leader into a new warehouse, or under a name of their own: --cluster NAME"
_EXPORT = "the export"
_NO_OFFSET = -1
_WAY_OUT = (
    "the dump is of another cluster, or the topic was created again; nothing was written; audit it under a name of "
    "its own: --cluster NAME"
)


@dataclass(frozen=True, slots=True)
class EarlierLog:
    """Facts about a log partition, from earlier runs.

    Attributes:
        anchors: records that earlier runs kept for comparison, sorted by log offset.
        topic_id: id of the topic; None if no dump had the id.
        end_offset: the log offset after the last one that earlier runs have read.
    """

    anchors: Sequence[Anchor]
    topic_id: str | None = None
    end_offset: int | None = None

    def columns(self) -> dict[str, Any]:
        """Return the topic id and the anchors as columns of ``log_partitions``, for the next run."""
        return {"topic_id": self.topic_id, "anchors": [anchor.row() for anchor in self.anchors]}

    @property
    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the newest record that earlier runs kept for comparison; None if there is none."""
        return self.anchors[-1].leader_epoch if self.anchors else None

    def below(self, limit: int) -> "EarlierLog":
        """Return a copy of this object without the anchors at or after log offset ``limit``."""
        return replace(self, anchors=[anchor for anchor in self.anchors if anchor.log_offset < limit])

    def epochs_at(self, offsets: Numbers) -> tuple[Numbers, Numbers]:
        """Return the lowest and the highest possible leader epoch at each log offset.

        Return two arrays. If a lowest leader epoch is not known, the first array has NO_EPOCH. If a highest one is not
        known, the second array has LARGEST_INT64.
        """
        known = [(anchor.log_offset, anchor.leader_epoch) for anchor in self.anchors if anchor.leader_epoch is not None]
        places = np.array([place for place, _ in known], np.int64)
        epochs = np.array([NO_EPOCH, *(epoch for _, epoch in known), LARGEST_INT64], np.int64)
        lowest = epochs[np.searchsorted(places, offsets, "right")]
        return lowest, epochs[np.searchsorted(places, offsets, "left") + 1]


@dataclass(slots=True)
class LogCopy:
    """A copy of a log partition, or a part of a copy.

    A copy consists of the files in one folder, or of the records of an export.

    Attributes:
        folder: the folder of the files; empty for an export.
        compared: comparisons of the copy's records with records that earlier runs kept.
        topic_id: id of the topic, from ``partition.metadata``; None if the dump does not have that file.
        epochs: the log offsets at which leader epochs begin in the copy's current files.
        checkpoint: leader epochs and their first log offsets, from ``leader-epoch-checkpoint``.
    """

    folder: str
    log_partition: int
    compared: list[Comparison] = field(default_factory=list)
    topic_id: str | None = None
    epochs: list[EpochStart] = field(default_factory=list)
    checkpoint: list[tuple[int, int]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        """Return folder and log partition, which identify the copy."""
        return self.folder, self.log_partition

    @property
    def matched(self) -> int:
        """Return the highest log offset at which the copy has the same record as earlier runs; -1 if there is none."""
        return max((found.anchor.log_offset for found in self.compared if found.is_same), default=_NO_OFFSET)

    @property
    def diverged(self) -> Comparison | None:
        """Return the first comparison in which the copy's record differs from the one that earlier runs kept.

        Comparisons up to log offset ``matched`` don't count. Return None if no record differs.
        """
        others = [found for found in self.compared if found.anchor.log_offset > self.matched]
        return min(others, key=lambda found: found.anchor.log_offset, default=None)

    @property
    def has_newest(self) -> bool:
        """Return whether the copy has the newest of the records that earlier runs kept for comparison."""
        return self.matched > _NO_OFFSET and self.diverged is None

    @property
    def leader_epoch(self) -> int | None:
        """Return the highest leader epoch in the copy's headers and checkpoint; None if they have none."""
        starts = (start.leader_epoch for start in self.epochs)
        return max([*starts, *(epoch for epoch, _ in self.checkpoint)], default=None)

    @property
    def place(self) -> str:
        """Return how a message names the copy: by its folder, or as "the export"."""
        return self.folder or _EXPORT

    def add(self, part: "LogCopy") -> None:
        """Add the facts about other files of the same copy."""
        self.compared += part.compared
        self.topic_id = self.topic_id or part.topic_id
        self.epochs += part.epochs
        self.checkpoint = self.checkpoint or part.checkpoint


class Truncation(NamedTuple):
    """A truncation, in which a log partition lost its newest records at an election.

    Attributes:
        from_offset: the log offset from which records of earlier runs no longer count.
        until_offset: the highest log offset at which the difference can begin; equal to ``from_offset`` if it is known
            exactly.
        end_offset: the log offset after the last one that earlier runs had read; None if no run has kept this offset.
        leader_epoch: leader epoch of the elected leader.
    """

    log_partition: int
    from_offset: int
    until_offset: int
    end_offset: int | None
    leader_epoch: int

    @property
    def note(self) -> str:
        """Return a sentence about the truncation."""
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
    """A copy from before an election.

    Such a copy is an older dump, or a replica that had not caught up.

    Attributes:
        place: how a message names the copy.
        from_offset: the log offset from which the copy's records are not part of the log.
        leader_epoch: leader epoch of the log's own records at that offset.
    """

    place: str
    log_partition: int
    from_offset: int
    leader_epoch: int

    @property
    def note(self) -> str:
        """Return a sentence about the stale copy."""
        return (
            f"{self.place}: records of log partition {self.log_partition} from offset {self.from_offset} on "
            f"are left out: an election truncated the log there, and the records that count are of leader epoch "
            f"{self.leader_epoch}"
        )


@dataclass(slots=True)
class LogComparison:
    """The comparison of a dump with the facts of earlier runs, and of the dump's copies with each other.

    Attributes:
        truncated: the truncation that lost records of earlier runs, by log partition.
        stale: copies with records that don't count, by folder and log partition. A file that is no longer in the log is
            a copy of its own. Its key has the file's URI instead of a folder.
        open: copies whose missing records prove nothing, by folder and log partition. The value is a log offset. The
            copy lacks a record of another copy at or below this log offset, and no leader epoch shows why.
        unknown: log partitions of earlier runs for which the dump has no record to compare.
    """

    truncated: dict[int, Truncation] = field(default_factory=dict)
    stale: dict[tuple[str, int], StaleCopy] = field(default_factory=dict)
    open: dict[tuple[str, int], int] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)

    @property
    def is_branched(self) -> bool:
        """Return whether an election has truncated some records, so that the dump must be read again without them."""
        return bool(self.truncated or self.stale)

    @property
    def lost_from(self) -> dict[int, int]:
        """Return the log offset from which records of earlier runs are lost, by log partition."""
        return {partition: lost.from_offset for partition, lost in self.truncated.items()}

    def limit(self, names: Iterable[str], log_partition: int) -> int | None:
        """Return the log offset from which the records of a file don't count; None if all count.

        Args:
            names: names of the copies that the file belongs to.
            log_partition: log partition of the file.
        """
        stale = (self.stale.get((name, log_partition)) for name in names)
        return min((copy.from_offset for copy in stale if copy is not None), default=None)

    @property
    def notes(self) -> list[str]:
        """Return sentences about the comparison for the user."""
        notes = [lost.note for lost in self.truncated.values()] + [copy.note for copy in self.stale.values()]
        notes += [
            f"{name}: log partition {partition} lacks a record at offset {offset} or below, though another copy has it "
            f"and this one has an older record of its key; files of several moments look like that, and so does an "
            f"election of which no leader epoch is on record: what this copy lacks is open"
            for (name, partition), offset in self.open.items()
        ]
        if self.unknown:
            named = ", ".join(map(str, self.unknown[:8])) + (", ..." if len(self.unknown) > 8 else "")
            notes.append(
                f"log partition{'s' * (len(self.unknown) > 1)} {named}: the dump has none of the records that earlier "
                "audits kept for comparison, so nothing proves that it is of the same log"
            )
        return notes

    def with_divergences(self, divergences: Iterable[Divergence], earlier: Mapping[int, EarlierLog]) -> "LogComparison":
        """Return this comparison with more divergences.

        Args:
            divergences: divergences of copies from each other, or from the records of earlier runs.
            earlier: the log as earlier runs know it, by log partition.
        """
        joined = LogComparison(dict(self.truncated), dict(self.stale), dict(self.open), self.unknown)
        for found in divergences:
            if found.loser is Loser.NONE:
                joined._open(found)
            else:
                joined._lose(found, found.copy if found.loser is Loser.COPY else found.other, earlier)
        return joined

    def _open(self, found: Divergence) -> None:
        if found.copy is not None:
            place = found.copy, found.log_partition
            self.open[place] = min(found.until_offset, self.open.get(place, found.until_offset))

    def _lose(self, found: Divergence, name: str | None, earlier: Mapping[int, EarlierLog]) -> None:
        """Mark a copy's records as lost from a divergence on.

        Args:
            found: the divergence.
            name: name of the copy; None for the records of earlier runs.
            earlier: facts about the records of earlier runs, by log partition.
        """
        partition, start, epoch = found.log_partition, found.from_offset, found.leader_epoch
        if name is None:
            self.truncate(Truncation(partition, start, found.until_offset, earlier[partition].end_offset, epoch))
            return
        stale = self.stale.get((name, partition))
        if stale is None or start < stale.from_offset:
            self.stale[name, partition] = StaleCopy(name or _EXPORT, partition, start, epoch)

    def truncate(self, lost: Truncation) -> None:
        """Note a truncation. If a log partition has several, the truncation by the newest leader counts."""
        other = self.truncated.setdefault(lost.log_partition, lost)
        if (lost.leader_epoch, -lost.from_offset) > (other.leader_epoch, -other.from_offset):
            self.truncated[lost.log_partition] = lost


def merged(parts: Iterable[LogCopy]) -> list[LogCopy]:
    """Join the parts of each copy, and return the copies, ordered by folder and log partition."""
    copies: dict[tuple[str, int], LogCopy] = {}
    for part in parts:
        copies.setdefault(part.key, LogCopy(*part.key)).add(part)
    return [copies[key] for key in sorted(copies)]


def may_have_diverged(copies: Sequence[LogCopy], log: EarlierLog | None) -> bool:
    """Return whether copies of a log partition, or the records of earlier runs, may come from different leaders.

    Args:
        copies: copies of a dump, each with its leader epochs.
        log: the log partition as earlier runs know it; None if no run has read it.
    """
    epochs = {copy.leader_epoch for copy in copies}
    newest = log.anchors[-1] if log is not None and log.anchors else None
    if newest is None or all(copy.matched >= newest.log_offset for copy in copies):
        return len(copies) > 1 and (len(epochs) > 1 or None in epochs)
    epochs.add(newest.leader_epoch)
    return len(epochs) > 1 or None in epochs


def check_topic(copy: LogCopy, log: EarlierLog) -> None:
    """Check that a copy and the records of earlier runs come from the same topic.

    Raises:
        InputError: the copy's topic has another id.
    """
    if copy.topic_id and log.topic_id and copy.topic_id != log.topic_id:
        raise InputError(
            f"{copy.place}: is of a topic with the id {copy.topic_id}, and earlier audits of this cluster have read "
            f"one with the id {log.topic_id}: {_WAY_OUT}"
        )


def comparison_by_anchors(copies: Sequence[LogCopy], earlier: Mapping[int, EarlierLog]) -> LogComparison:
    """Return the comparison of copies with the records that earlier runs kept.

    Args:
        copies: copies of a dump, each with its comparisons (``LogCopy.compared``).
        earlier: the log as earlier runs know it, by log partition.

    Raises:
        InputError: the dump comes from another log, or nothing shows which of two records counts.
    """
    compared = {copy.log_partition for copy in copies if copy.compared}
    comparison = LogComparison(unknown=sorted({copy.log_partition for copy in copies} - compared))
    by_copy = {
        copy.key: found for copy in copies if (found := _divergence(copy, earlier[copy.log_partition])) is not None
    }
    comparison = comparison.with_divergences(by_copy.values(), earlier)
    leading = {key for key, found in by_copy.items() if found.loser is Loser.OTHERS}
    behind = [
        _behind(copy, comparison.truncated[copy.log_partition])
        for copy in copies
        if copy.compared and copy.log_partition in comparison.truncated and copy.key not in leading
    ]
    return comparison.with_divergences(behind, earlier)


def _behind(copy: LogCopy, lost: Truncation) -> Divergence:
    """Return where a copy differs from the log, if the copy was made before a leader election truncated the log.

    Args:
        copy: the copy.
        lost: the truncation at this election, as another copy shows it.
    """
    return Divergence(
        copy.log_partition, copy.folder, None, lost.from_offset, lost.until_offset, Loser.COPY, lost.leader_epoch
    )


def _divergence(copy: LogCopy, log: EarlierLog) -> Divergence | None:
    """Return where a copy diverges from the records of earlier runs.

    Return None if all records that earlier runs kept for comparison are the same.

    Raises:
        InputError: the copy comes from another log, or no leader epoch shows which of the two records counts.
    """
    diverged = copy.diverged or _replaced(copy, log)
    if diverged is None:
        return None
    _check_same_log(copy, log, diverged)
    loser, epoch = losing(EpochBounds.of(diverged.other.leader_epoch), EpochBounds.of(diverged.anchor.leader_epoch))
    if loser is Loser.NONE:
        raise InputError(
            f"{_where(copy, diverged)}, though older ones are the same; the log was truncated by the election of a "
            f"leader, and no leader epoch says which record counts; nothing was written: {_CHOOSE}"
        )
    first, last = copy.matched + 1, diverged.anchor.log_offset
    if loser is Loser.OTHERS:
        first, last = _narrowed(copy, first, last, diverged.anchor.leader_epoch or 0)
    return Divergence(copy.log_partition, copy.folder, None, first, last, loser, epoch)


def _replaced(copy: LogCopy, log: EarlierLog) -> Comparison | None:
    """Return the first record of earlier runs that a copy's log has lost, if leader epochs prove the loss.

    A leader epoch never falls within a log. So the record is lost if a higher leader epoch begins in the copy at or
    below the record's log offset. Return None if nothing is lost, or if the copy has no record of earlier runs.
    """
    if copy.matched == _NO_OFFSET:
        return None
    for anchor in log.anchors:
        for start in copy.epochs:
            is_before = copy.matched < start.first <= anchor.log_offset
            if is_before and anchor.leader_epoch is not None and start.leader_epoch > anchor.leader_epoch:
                return Comparison(copy.log_partition, anchor, anchor._replace(leader_epoch=start.leader_epoch, hash=""))
    return None


def _where(copy: LogCopy, diverged: Comparison) -> str:
    """Return the beginning of a sentence that says at which log offset two records differ."""
    return (
        f"{copy.place}: at offset {diverged.anchor.log_offset} of log partition {copy.log_partition} stands a record "
        f"of {diverged.other.when}, and earlier audits of this cluster have read another one there, of "
        f"{diverged.anchor.when}"
    )


def _check_same_log(copy: LogCopy, log: EarlierLog, diverged: Comparison) -> None:
    """Check that a copy comes from the log of earlier runs, although one of its records differs from theirs.

    Raises:
        InputError: the copy comes from another log.
    """
    is_same_topic = copy.topic_id is not None and copy.topic_id == log.topic_id
    if copy.matched == _NO_OFFSET and not is_same_topic:
        raise InputError(
            f"{_where(copy, diverged)}; no older record that they kept for comparison is in the dump: {_WAY_OUT}"
        )


def _narrowed(copy: LogCopy, first: int, last: int, epoch: int) -> tuple[int, int]:
    """Narrow the range of log offsets in which a copy can have diverged from the log of earlier runs.

    The copy's headers and its file ``leader-epoch-checkpoint`` have log offsets at which a newer leader epoch began.

    Args:
        copy: the copy.
        first: the lowest possible offset. Below it, the copy has the same log as earlier runs.
        last: the highest possible offset. There, the copy has a different record.
        epoch: the leader epoch of the lost records.

    Returns:
        The lowest and the highest offset at which the copy can have diverged.
    """
    starts = [start for start in copy.epochs if start.leader_epoch > epoch and first <= start.first <= last]
    if starts:
        start = min(starts, key=lambda start: start.first)
        first, last = max(first, start.after + 1), start.first
    begins = [begin for of_epoch, begin in copy.checkpoint if of_epoch > epoch and first <= begin <= last]
    return first, min([last, *begins])


def logs_after(
    earlier: Mapping[int, EarlierLog],
    anchors_read: Iterable[Mapping[int, Sequence[Anchor]]],
    parts: Iterable[LogCopy],
    comparison: LogComparison,
) -> dict[int, EarlierLog]:
    """Return the facts that a run keeps about each log partition that it has read.

    The facts are some records for comparison (*anchors*), the topic id and the end offset. With these facts, a later
    run can tell whether its dump comes from the same log.

    Args:
        earlier: the facts of earlier runs.
        anchors_read: records that the run has read, to choose the anchors from.
        parts: the parts of the dump that were read.
        comparison: the comparison of the dump with the facts of earlier runs.
    """
    parts = list(parts)
    still = {
        (found.log_partition, found.anchor.log_offset) for part in parts for found in part.compared if found.is_same
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
        kept = choose([*before, *candidates.get(partition, ())])
        logs[partition] = EarlierLog(kept, topic_ids.get(partition, log.topic_id), log.end_offset)
    return logs
