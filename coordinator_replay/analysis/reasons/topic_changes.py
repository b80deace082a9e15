"""When topics changed, as far as the cluster's metadata is at hand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coordinator_replay.times import time_order

CREATED, PARTITIONS_ADDED, REMOVED = "created", "partitions_added", "removed"


class DatedTopicChange(NamedTuple):
    """A topic was created, got partitions, or was removed.

    Attributes:
        at_ms: when the controller wrote it down.
        change: ``created``, ``partitions_added`` or ``removed``.
        partition_count: partitions after it; 0 when it was removed.
    """

    at_ms: int
    change: str
    partition_count: int


TopicChanges = Mapping[str, Sequence[DatedTopicChange]]
"""Changes by topic name, oldest first."""

NO_CHANGES: TopicChanges = {}


def sentence(changes: TopicChanges, topic: str, change: DatedTopicChange) -> str:
    """The change in words.

    >>> orders = [TopicChange(0, "created", 3), TopicChange(9, "partitions_added", 5)]
    >>> [sentence({"orders": orders}, "orders", one) for one in orders]
    ['topic orders was created with 3 partitions', 'partitions of orders increased from 3 to 5']
    """
    if change.change == REMOVED:
        return f"topic {topic} was deleted"
    if change.change == CREATED:
        plural = "" if change.partition_count == 1 else "s"
        return f"topic {topic} was created with {change.partition_count} partition{plural}"
    earlier = [one.partition_count for one in changes.get(topic, ()) if one.at_ms < change.at_ms]
    before = f" from {earlier[-1]}" if earlier else ""
    return f"partitions of {topic} increased{before} to {change.partition_count}"


def between(
    changes: TopicChanges, topics: Iterable[str], after_ms: int | None, until_ms: int | None
) -> list[tuple[str, DatedTopicChange]]:
    """Changes of some topics later than one moment and not later than another, oldest first.

    A moment that is not on record is before all changes.

    >>> between({"a": [TopicChange(5, "created", 1), TopicChange(9, "removed", 0)]}, ["a", "b"], 5, 9)
    [('a', TopicChange(at_ms=9, change='removed', partition_count=0))]
    """
    changed = [
        (topic, change)
        for topic in topics
        for change in changes.get(topic, ())
        if time_order(after_ms) < change.at_ms <= time_order(until_ms)
    ]
    return sorted(changed, key=lambda one: (one[1].at_ms, one[0]))


class MetadataEvent(NamedTuple):
    """A record of the cluster's metadata log that is about a topic.

    Attributes:
        kind: ``TopicRecord``, ``PartitionRecord`` or ``RemoveTopicRecord``.
        topic_id: the topic.
        topic: its name, in a ``TopicRecord``.
        partition: the partition that a ``PartitionRecord`` makes or restates.
        at_ms: when it was written.
    """

    kind: str
    topic_id: str
    topic: str | None
    partition: int | None
    at_ms: int


def changes_of(events: Iterable[MetadataEvent]) -> dict[str, list[DatedTopicChange]]:
    """When topics changed, from what the metadata log says of them in its order.

    >>> changes_of([
    ...     MetadataEvent("TopicRecord", "id", "a", None, 5),
    ...     MetadataEvent("PartitionRecord", "id", None, 0, 5),
    ...     MetadataEvent("PartitionRecord", "id", None, 1, 9),
    ... ])
    {'a': [TopicChange(at_ms=5, change='created', partition_count=1), \
TopicChange(at_ms=9, change='partitions_added', partition_count=2)]}
    """
    names: dict[str, str] = {}
    partitions: dict[str, set[int]] = {}
    by_topic: dict[str, list[DatedTopicChange]] = {}
    for event in events:
        if event.kind == "TopicRecord" and event.topic is not None:
            names[event.topic_id] = event.topic
            partitions[event.topic_id] = set()
            by_topic.setdefault(event.topic, []).append(DatedTopicChange(event.at_ms, CREATED, 0))
        name = names.get(event.topic_id)
        if name is None:
            continue
        if event.kind == "PartitionRecord" and event.partition is not None:
            _count(by_topic[name], partitions[event.topic_id], event.partition, event.at_ms)
        elif event.kind == "RemoveTopicRecord":
            by_topic[name].append(DatedTopicChange(event.at_ms, REMOVED, 0))
    return by_topic


def _count(changes: list[DatedTopicChange], numbers: set[int], partition: int, at_ms: int) -> None:
    """A partition is new: of the change that is being written at this moment, or the first of another."""
    if partition in numbers:
        return
    numbers.add(partition)
    last = changes[-1]
    if last.at_ms == at_ms:
        changes[-1] = last._replace(partition_count=len(numbers))
    else:
        changes.append(DatedTopicChange(at_ms, PARTITIONS_ADDED, len(numbers)))
