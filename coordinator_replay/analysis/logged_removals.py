"""Removals of offsets that the brokers' logs name: which writes of tombstones they are about.

A line names neither the records that were written nor, for retention, their groups: it is of a write where partition,
time and number are those of that write, and of no other.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coordinator_replay.analysis.broker_words import SLACK_MS, GroupLogLine, line_sentence


class Removal(StrEnum):
    """What removed offsets."""

    CLEANUP = "CLEANUP"
    """Retention, and groups without members and offsets."""

    TOPICS = "TOPICS"
    """Topics were deleted."""

    GROUPS = "GROUPS"
    """DeleteGroups."""


EVENTS = frozenset({"TOMBSTONES_WRITTEN", "GROUPS_DELETED"})
"""Kinds of lines that say something about a removal."""

_CLEANUP = re.compile(r"Generated (\d+) tombstone records while cleaning up group metadata in ")
_TOPICS = re.compile(r"Generated (\d+) tombstone records in \d+ milliseconds while deleting offsets for \w+ \[(.*)\]")
_GROUPS = re.compile(r"The following groups were deleted: (.*)\. A total of (\d+) offsets were removed")
_DELETED_TOPIC = re.compile(r"DeletedTopic\[id=[^,\]]*, name=([^\]]*)\]")


class Write(NamedTuple):
    """Tombstones of one write: those of one log partition with one timestamp."""

    log_partition: int
    at_ms: int


@dataclass(slots=True)
class Tombstones:
    """How many tombstones a write has.

    Attributes:
        offsets: of offsets.
        others: of groups and members.
    """

    offsets: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True)
class LoggedRemoval:
    """A write of tombstones that a line is about.

    Attributes:
        names: the topics, partitions or groups that the line names; empty for retention.
    """

    write: Write
    removal: Removal
    names: Sequence[str]
    sentence: str


class _Removed(NamedTuple):
    removal: Removal
    names: Sequence[str]
    number: int


def _read(text: str) -> _Removed | None:
    if (cleanup := _CLEANUP.search(text)) is not None:
        return _Removed(Removal.CLEANUP, (), int(cleanup[1]))
    if (topics := _TOPICS.search(text)) is not None:
        names = _DELETED_TOPIC.findall(topics[2]) or topics[2].split(", ")
        return _Removed(Removal.TOPICS, names, int(topics[1]))
    if (groups := _GROUPS.search(text)) is not None:
        return _Removed(Removal.GROUPS, groups[1].split(", "), int(groups[2]))
    return None


def logged_removals(
    lines: Iterable[tuple[int, GroupLogLine]], writes: Mapping[Write, Tombstones]
) -> list[LoggedRemoval]:
    """The writes of tombstones that lines are about; none that several lines, or lines that several writes may fit.

    Args:
        lines: lines of brokers' logs, each with the log partition that it names.
        writes: all writes around these times.
    """
    by_partition: dict[int, list[Write]] = {}
    for write in writes:
        by_partition.setdefault(write.log_partition, []).append(write)
    by_write: dict[Write, list[LoggedRemoval]] = {}
    for log_partition, line in lines:
        removed = _read(line.text)
        if removed is None:
            continue
        near = _fitting(removed, line.at_ms, by_partition.get(log_partition, ()), writes)
        for write in near if len(near) == 1 else ():
            one = LoggedRemoval(write, removed.removal, removed.names, line_sentence(line))
            by_write.setdefault(write, []).append(one)
    return [of_write[0] for of_write in by_write.values() if len(of_write) == 1]


def _fitting(
    removed: _Removed, at_ms: int, writes: Collection[Write], tombstones: Mapping[Write, Tombstones]
) -> list[Write]:
    """Writes of that number of tombstones at that time."""

    def count(write: Write) -> int:
        of_write = tombstones[write]
        return of_write.offsets + (0 if removed.removal is Removal.GROUPS else of_write.others)

    return [write for write in writes if abs(write.at_ms - at_ms) <= SLACK_MS and count(write) == removed.number]
