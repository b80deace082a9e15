"""Lines of brokers' logs about removed offsets, and the writes of tombstones that these lines report.

A line of a newer coordinator names the log partition, but not the tombstones. If retention removed the offsets, the
line does not name their groups either. So a line belongs to a write if the line's log partition, time and number agree
with this write and with no other write.

A line of a Scala coordinator (2.x and 3.x) names no log partition. The number in the line counts the offsets of one
cleanup. A cleanup makes a write for each group (``GroupMetadataManager.cleanupGroupMetadata``). The line belongs to the
writes near its time that removed offsets of the groups or partitions in the line. These writes must have removed as
many offsets as the line says. If several brokers removed a deleted topic's offsets, the numbers of their lines are
added up first.

The line "Removed N expired offsets" of a Scala coordinator names no group or partition, so it belongs to no write. It
may count offsets of log partitions that the dump does not have, because no line says which log partitions a broker led.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coordinator_replay.analysis.broker_logs.lines import SLACK_MS, GroupLogLine
from coordinator_replay.analysis.broker_logs.words import line_sentence


class Removal(StrEnum):
    """Causes for which a coordinator removes committed offsets."""

    CLEANUP = "CLEANUP"
    """Offsets that expired, and groups that were deleted because they had neither members nor offsets."""

    TOPICS = "TOPICS"
    """Topics were deleted."""

    GROUPS = "GROUPS"
    """DeleteGroups."""

    OFFSETS = "OFFSETS"
    """DeleteOffsets."""


EVENTS = frozenset({"TOMBSTONES_WRITTEN", "GROUPS_DELETED", "OFFSETS_DELETED"})
"""Kinds of lines about a removal."""

_OF_OFFSETS = (Removal.GROUPS, Removal.OFFSETS)
"""Lines about these removals count only offsets; other lines also count the tombstones of groups and members."""

_CLEANUP = re.compile(r"Generated (\d+) tombstone records while cleaning up group metadata in ")
_TOPICS = re.compile(r"Generated (\d+) tombstone records in \d+ milliseconds while deleting offsets for \w+ \[(.*)\]")
_GROUPS = re.compile(r"The following groups were deleted: (.*)\. A total of (\d+) offsets were removed")
_OFFSETS = re.compile(
    r"The following offsets of the group (.*) were deleted: (.*)\. A total of (\d+) offsets were removed"
)
_PARTITIONS = re.compile(r"Removed (\d+) offsets associated with deleted partitions: (.*)\.")
_DELETED_TOPIC = re.compile(r"DeletedTopic\[id=[^,\]]*, name=([^\]]*)\]")


class Write(NamedTuple):
    """A write of tombstones to one log partition with one timestamp."""

    log_partition: int
    at_ms: int


@dataclass(slots=True)
class Tombstones:
    """Counts of the tombstones in one write.

    Attributes:
        offsets: number of tombstones of offsets.
        others: number of tombstones of groups and members.
    """

    offsets: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True)
class LoggedRemoval:
    """A write of tombstones, with the line that reports it.

    Attributes:
        names: the topics, partitions or groups that the line names; empty if retention removed the offsets.
    """

    write: Write
    removal: Removal
    names: Sequence[str]
    sentence: str


class Removed(NamedTuple):
    """Facts of a line about removed offsets. Lines of several brokers about the same deleted topics count as one.

    Attributes:
        at_ms: time of the (first) line.
        log_partition: log partition in the line; None if the line names none.
        names: the topics, partitions or groups that the line names; single offsets of a group as
            ``GROUP/TOPIC-PARTITION``.
        number: the number in the line, or the sum of the numbers of several brokers. It counts tombstones or only
            offsets, depending on the line.
        brokers: the brokers that wrote the lines.
        sentence: the (first) line as evidence.
    """

    at_ms: int
    log_partition: int | None
    removal: Removal
    names: tuple[str, ...]
    number: int
    brokers: frozenset[int | None]
    sentence: str


Named = Mapping[tuple[Removal, str], Mapping[Write, int]]
"""For each name in a line, the writes that removed offsets of this name, and their numbers of offsets.

A name is a group, a partition of a topic, or ``GROUP/TOPIC-PARTITION``.
"""


def read_removals(lines: Iterable[tuple[int | None, GroupLogLine]]) -> list[Removed]:
    """Return the removals that lines of brokers' logs report. Lines about other things are left out.

    If topics are deleted, several brokers may log that they removed offsets of these topics, and name no log partition.
    Merge such lines of different brokers if they name the same topics and lie within SLACK_MS. Add up the numbers of
    removed offsets in these lines.

    Args:
        lines: lines of brokers' logs, each with the log partition that it names.
    """
    every: list[Removed] = []
    unplaced: dict[tuple[str, ...], int] = {}
    for log_partition, line in sorted(lines, key=lambda line: line[1].order):
        what = _read(line.text)
        if what is None:
            continue
        removal, names, number = what
        removed = Removed(
            line.at_ms, log_partition, removal, names, number, frozenset({line.broker}), line_sentence(line)
        )
        if log_partition is None and removal is Removal.TOPICS:
            before = every[unplaced[names]] if names in unplaced else None
            if before is not None and removed.at_ms - before.at_ms <= SLACK_MS and not removed.brokers & before.brokers:
                every[unplaced[names]] = before._replace(
                    number=before.number + number, brokers=before.brokers | removed.brokers
                )
                continue
            unplaced[names] = len(every)
        every.append(removed)
    return every


def _read(text: str) -> tuple[Removal, tuple[str, ...], int] | None:
    if (cleanup := _CLEANUP.search(text)) is not None:
        return Removal.CLEANUP, (), int(cleanup[1])
    if (topics := _TOPICS.search(text)) is not None:
        return Removal.TOPICS, tuple(_DELETED_TOPIC.findall(topics[2]) or topics[2].split(", ")), int(topics[1])
    if (partitions := _PARTITIONS.search(text)) is not None:
        return Removal.TOPICS, tuple(partitions[2].split(", ")), int(partitions[1])
    if (groups := _GROUPS.search(text)) is not None:
        return Removal.GROUPS, tuple(groups[1].split(", ")), int(groups[2])
    if (offsets := _OFFSETS.search(text)) is not None:
        return Removal.OFFSETS, tuple(f"{offsets[1]}/{offset}" for offset in offsets[2].split(", ")), int(offsets[3])
    return None


def logged_removals(
    removals: Iterable[Removed], writes: Mapping[Write, Tombstones], named: Named
) -> list[LoggedRemoval]:
    """Match lines of brokers' logs with the writes of tombstones that they report.

    A line with a log partition is left out if several writes have the line's time and number of tombstones. A line
    without a log partition may report several writes. A write is left out if several lines may report the write.

    Args:
        removals: facts from the lines, each about one removal.
        writes: all writes around these times.
        named: for each name in lines without a log partition, the writes that removed offsets of this name.
    """
    by_partition: dict[int, list[Write]] = defaultdict(list)
    for write in writes:
        by_partition[write.log_partition].append(write)
    by_write: dict[Write, list[LoggedRemoval]] = defaultdict(list)
    for removal in removals:
        if removal.log_partition is None:
            near = _of_names(removal, named)
        else:
            near = _fitting(removal, by_partition[removal.log_partition], writes)
        for write in near:
            by_write[write].append(LoggedRemoval(write, removal.removal, removal.names, removal.sentence))
    return [of_write[0] for of_write in by_write.values() if len(of_write) == 1]


def _of_names(removed: Removed, named: Named) -> Collection[Write]:
    """Return the writes near a line's time that removed offsets of the groups or partitions in the line.

    Return no write if these writes together removed more or fewer offsets than the line says.

    Args:
        removed: the facts of the line.
        named: for each group or partition, the writes that removed its offsets, each with its number of offsets.
    """
    near = [
        (write, offsets)
        for name in dict.fromkeys(removed.names)
        for write, offsets in named.get((removed.removal, name), {}).items()
        if abs(write.at_ms - removed.at_ms) <= SLACK_MS
    ]
    return dict.fromkeys(write for write, _ in near) if sum(count for _, count in near) == removed.number else ()


def _fitting(removed: Removed, writes: Collection[Write], tombstones: Mapping[Write, Tombstones]) -> Collection[Write]:
    """Return the write that has as many tombstones as a log line says, and is near the line's time.

    Return an empty collection if several writes have that many tombstones.
    """

    def count(write: Write) -> int:
        of_write = tombstones[write]
        return of_write.offsets + (0 if removed.removal in _OF_OFFSETS else of_write.others)

    near = [
        write for write in writes if abs(write.at_ms - removed.at_ms) <= SLACK_MS and count(write) == removed.number
    ]
    return near if len(near) == 1 else ()
