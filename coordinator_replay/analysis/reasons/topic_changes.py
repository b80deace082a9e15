"""When topics changed, as far as the cluster's metadata is at hand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coordinator_replay.listing import counted
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
    """Return the change in words.

    >>> orders = [TopicChange(0, "created", 3), TopicChange(9, "partitions_added", 5)]
    >>> [sentence({"orders": orders}, "orders", one) for one in orders]
    ['topic orders was created with 3 partitions', 'partitions of orders increased from 3 to 5']
    """
    if change.change == REMOVED:
        return f"topic {topic} was deleted"
    if change.change == CREATED:
        return f"topic {topic} was created with {counted(change.partition_count, 'partition')}"
    earlier = [
        earlier_change.partition_count
        for earlier_change in changes.get(topic, ())
        if earlier_change.at_ms < change.at_ms
    ]
    before = f" from {earlier[-1]}" if earlier else ""
    return f"partitions of {topic} increased{before} to {change.partition_count}"


def between(
    changes: TopicChanges, topics: Iterable[str], after_ms: int | None, until_ms: int | None
) -> list[tuple[str, DatedTopicChange]]:
    """Return changes of some topics later than one time and not later than another, oldest first.

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
    return sorted(changed, key=lambda pair: (pair[1].at_ms, pair[0]))
