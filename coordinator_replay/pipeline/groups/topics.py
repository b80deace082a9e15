"""Topic names by id, from all sources: a file, the cluster's metadata log, group records, commits.

KIP-848 records name topics by id only. If sources differ, the first of these sources counts: the user's file, the
metadata log, group records that have both name and id, commits. If two records give an id different names, the record
at the higher log offset counts. If the log offsets are equal, the record in the higher log partition counts.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from coordinator_replay.analysis.reasons.topic_changes import CREATED, PARTITIONS_ADDED, REMOVED, DatedTopicChange
from coordinator_replay.errors import InputError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.pipeline.read.metadata_log import TopicRecord
from coordinator_replay.pipeline.read.tally import Tally
from coordinator_replay.pipeline.topic_lives import TopicLife
from coordinator_replay.times import milliseconds

TABLE = "topics"
_MOST_PARTITIONS = 2**31 - 1

SOURCES = ("file", "cluster_metadata", "record", "commit")
"""Sources of names; an earlier source takes precedence over a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopic:
    """Facts on a topic from one source, in the columns of table ``topics``.

    Times are in milliseconds.

    Attributes:
        changes: changes of the topic, oldest first; None if the source does not have them.
        log_partition: log partition of the record that names the topic; None if the source is not a log partition.
        log_offset: log offset of the record that names the topic; None if the source is not a log partition.
    """

    topic_id: str
    topic: str
    source: str
    partition_count: int | None = None
    created_at: int | None = None
    partitions_changed_at: int | None = None
    removed_at: int | None = None
    changes: tuple[DatedTopicChange, ...] | None = None
    log_partition: int | None = None
    log_offset: int | None = None

    def row(self) -> dict[str, Any]:
        """Return a row of table ``topics``."""
        changes = self.changes and [
            {"changed_at": change.at_ms, "change": change.change, "partition_count": change.partition_count}
            for change in self.changes
        ]
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"changes": changes}


COLUMNS = tuple(field.name for field in fields(ClusterTopic))
"""Columns of table ``topics`` that are read."""


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """A cluster's topics.

    Attributes:
        topics: the topics by id.
    """

    topics: Mapping[str, ClusterTopic]

    @property
    def names(self) -> dict[str, str]:
        """Return the name of each topic, by topic id."""
        return {topic_id: topic.topic for topic_id, topic in self.topics.items()}

    def partition_count(self, topic: str) -> int | None:
        """Return the partition count of a topic; None if it is not known.

        If a topic was deleted and created again, return the larger count.
        """
        counts = [
            topic_change.partition_count
            for topic_change in self.topics.values()
            if topic_change.topic == topic and topic_change.partition_count
        ]
        return max(counts, default=None)

    @property
    def changes(self) -> dict[str, list[DatedTopicChange]]:
        """Return the times at which topics were created, changed and deleted, by name of the topic, oldest first.

        Changes of a topic that was deleted and created again are in one list.
        """
        changes: dict[str, list[DatedTopicChange]] = {}
        for topic in self.topics.values():
            if topic.changes:
                changes[topic.topic] = sorted([*changes.get(topic.topic, ()), *topic.changes])
        return changes

    @property
    def lives(self) -> list[TopicLife]:
        """Return the times of creation and deletion of each topic whose time of creation is known."""
        lives: list[TopicLife] = []
        for topic_id, topic in sorted(self.topics.items()):
            created, removed = (
                next(
                    (topic_change.at_ms for topic_change in topic.changes or () if topic_change.change == change), None
                )
                for change in (CREATED, REMOVED)
            )
            if created is not None:
                lives.append(TopicLife(topic.topic, topic_id, created, removed))
        return lives

    def renamed(self, before: "ClusterTopics") -> frozenset[str]:
        """Return the ids of topics whose name is new, or differs from the name in ``before``."""
        names = before.names
        return frozenset(topic_id for topic_id, name in self.names.items() if names.get(topic_id) != name)


def from_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[ClusterTopic]:
    """Yield topics from rows of table ``topics``.

    Args:
        rows: rows with COLUMNS, times in milliseconds.
    """
    for row in rows:
        changes = row["changes"] and tuple(
            DatedTopicChange(milliseconds(change["changed_at"]), change["change"], change["partition_count"])
            for change in row["changes"]
        )
        yield ClusterTopic(**{**row, "changes": changes})


def from_tally(tally: Tally) -> Iterator[ClusterTopic]:
    """Yield the topics named in group records and commits of the dump. Commits have topic ids since Kafka 4.1."""
    for source, topics in (("record", tally.named), ("commit", tally.names)):
        for topic_id, named in topics.items():
            yield ClusterTopic(
                topic_id=topic_id,
                topic=named.topic,
                source=source,
                partition_count=named.partition_count if named.partition_count >= 0 else None,
                log_partition=named.log_partition,
                log_offset=named.log_offset,
            )


def from_file(path: str) -> list[ClusterTopic]:
    """Return names from a CSV (with or without a heading) or JSON-lines file of topic id, name and partition count.

    Raises:
        InputError: the file can't be read, or a line has no topic id of 22 characters and a name.
    """
    filesystem, inner = open_filesystem(path)
    try:
        with filesystem.open_input_stream(inner) as stream:
            lines = stream.read().decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: can't be read: {problem}") from problem
    topics = (_named_topic(line, f"{path}, line {number}") for number, line in enumerate(lines, 1))
    return [topic for topic in topics if topic is not None]


def _named_topic(line: str, where: str) -> ClusterTopic | None:
    line = line.strip()
    if not line or line.lower().replace(" ", "").startswith(("topic_id,", "id,", "topicid,")):
        return None
    try:
        if line.startswith("{"):
            raw = json.loads(line)
            topic_id, name = raw.get("topic_id") or raw["id"], raw.get("topic") or raw["name"]
            count = raw.get("partition_count", raw.get("partitions"))
        else:
            topic_id, name, count = [*(part.strip().strip('"') for part in line.split(",")), None][:3]
        partitions = int(count) if count not in (None, "") else None
        # JSON can also have text that is no UTF-8: ``encode`` raises a ValueError for it.
        if len(topic_id.encode()) != 22 or not name.encode() or not 0 <= (partitions or 0) <= _MOST_PARTITIONS:
            raise ValueError(line)
        return ClusterTopic(topic_id=topic_id, topic=name, source="file", partition_count=partitions)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise InputError(
            f"{where}: expected a topic id of 22 characters, a name and optionally a partition count"
        ) from problem


def from_metadata(records: Iterable[TopicRecord]) -> Iterator[ClusterTopic]:
    """Yield the topics named in records of the metadata log, with partition counts and the times of changes."""
    by_topic: dict[str, list[TopicRecord]] = defaultdict(list)
    for record in records:
        by_topic[record.topic_id].append(record)
    for topic_id, of_topic in by_topic.items():
        names = [record.topic for record in of_topic if record.topic is not None]
        if not names:
            continue
        made = [record for record in of_topic if record.kind == "PartitionRecord"]
        yield ClusterTopic(
            topic_id=topic_id,
            topic=max(names),
            source="cluster_metadata",
            partition_count=len({record.partition for record in made}),
            created_at=_time(min, of_topic, "TopicRecord"),
            partitions_changed_at=_time(max, of_topic, "PartitionRecord"),
            removed_at=_time(max, of_topic, "RemoveTopicRecord"),
            changes=_changes(of_topic),
        )


def _time(choose: Any, records: Iterable[TopicRecord], kind: str) -> int | None:
    times = [record.at_ms for record in records if record.kind == kind and record.at_ms is not None]
    return choose(times, default=None)  # type: ignore[no-any-return]


def _changes(records: Iterable[TopicRecord]) -> tuple[DatedTopicChange, ...] | None:
    """Return the creation of a topic, each time at which partitions were added, and its deletion, oldest first.

    Return None if no record has a time.

    Args:
        records: records of the cluster's metadata log about the topic.
    """
    first: dict[int | None, int] = {}
    changes: list[DatedTopicChange] = []
    for record in records:
        if record.at_ms is None:
            continue
        if record.kind == "PartitionRecord":
            first[record.partition] = min(record.at_ms, first.get(record.partition, record.at_ms))
        elif record.kind == "RemoveTopicRecord":
            changes.append(DatedTopicChange(record.at_ms, REMOVED, 0))
    count = 0
    for number, (at_ms, added) in enumerate(sorted(Counter(first.values()).items())):
        count += added
        changes.append(DatedTopicChange(at_ms, PARTITIONS_ADDED if number else CREATED, count))
    return tuple(sorted(changes)) if changes else None


def best_topics(sources: Iterable[ClusterTopic]) -> ClusterTopics:
    """Return one topic for each id.

    If several sources have a topic, the first source in the order of ``SOURCES`` counts.
    """
    by_id: dict[str, list[ClusterTopic]] = defaultdict(list)
    for topic in sources:
        by_id[topic.topic_id].append(topic)
    return ClusterTopics({topic_id: _best(topics) for topic_id, topics in by_id.items()})


def _length(topic: ClusterTopic) -> int:
    return -1 if topic.changes is None else len(topic.changes)


def _best(topics: Sequence[ClusterTopic]) -> ClusterTopic:
    def rank(topic: ClusterTopic) -> tuple[int, int, int, int, int, str]:
        place = (-1 if number is None else number for number in (topic.log_offset, topic.log_partition))
        # Partitions can only be added, so the larger count is the newer one.
        count = -1 if topic.partition_count is None else topic.partition_count
        offset, partition = place
        return SOURCES.index(topic.source), -_length(topic), -offset, -partition, -count, topic.topic

    longest = max(topics, key=lambda topic: (_length(topic), topic.changes or ()))
    return replace(min(topics, key=rank), changes=longest.changes)
