"""Times at which topics changed, as far as the audit has the cluster's metadata."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from coordinator_replay.analysis.reasons.facts import Fact, FactKind
from coordinator_replay.times import time_order

CREATED, PARTITIONS_ADDED, REMOVED = "created", "partitions_added", "removed"
_KINDS = {
    CREATED: FactKind.TOPIC_CREATED,
    PARTITIONS_ADDED: FactKind.PARTITIONS_ADDED,
    REMOVED: FactKind.TOPIC_DELETED,
}


class DatedTopicChange(NamedTuple):
    """The creation of a topic, an addition of partitions to the topic, or its removal.

    Attributes:
        at_ms: time at which the controller recorded the change.
        change: ``created``, ``partitions_added`` or ``removed``.
        partition_count: number of partitions after the change; 0 if the topic was removed.
    """

    at_ms: int
    change: str
    partition_count: int


TopicChanges = Mapping[str, Sequence[DatedTopicChange]]
"""Changes by topic name, oldest first."""

NO_CHANGES: TopicChanges = {}


def change_fact(changes: TopicChanges, topic: str, change: DatedTopicChange) -> Fact:
    """Return the fact that a topic changed.

    >>> orders = [DatedTopicChange(0, "created", 3), DatedTopicChange(9, "partitions_added", 5)]
    >>> fact = change_fact({"orders": orders}, "orders", orders[1])
    >>> fact.kind, fact.names, fact.old, fact.number
    (<FactKind.PARTITIONS_ADDED: 'PARTITIONS_ADDED'>, ('orders',), '3', 5)
    """
    made = Fact(_KINDS[change.change], names=(topic,), number=change.partition_count, at_ms=change.at_ms)
    earlier = [
        earlier_change.partition_count
        for earlier_change in changes.get(topic, ())
        if earlier_change.at_ms < change.at_ms
    ]
    return made._replace(old=str(earlier[-1])) if earlier and change.change == PARTITIONS_ADDED else made


def between(
    changes: TopicChanges, topics: Iterable[str], after_ms: int | None, until_ms: int | None
) -> list[tuple[str, DatedTopicChange]]:
    """Return changes of some topics in a time range, oldest first, each with the topic's name.

    The start of the range is excluded, and its end included. None, as start or end, is a time before all changes.

    >>> between({"a": [DatedTopicChange(5, "created", 1), DatedTopicChange(9, "removed", 0)]}, ["a", "b"], 5, 9)
    [('a', DatedTopicChange(at_ms=9, change='removed', partition_count=0))]
    """
    changed = [
        (topic, change)
        for topic in topics
        for change in changes.get(topic, ())
        if time_order(after_ms) < change.at_ms <= time_order(until_ms)
    ]
    return sorted(changed, key=lambda pair: (pair[1].at_ms, pair[0]))


def partition_count(changes: Sequence[DatedTopicChange], at_ms: int | None) -> int | None:
    """Return the partition count of a topic at a time.

    The count is 0 if the topic does not exist, and None if the count is not on record.

    >>> orders = [DatedTopicChange(5, "created", 3), DatedTopicChange(9, "removed", 0)]
    >>> [partition_count(orders, at_ms) for at_ms in (4, 5, 9)], partition_count([], 5), partition_count(orders, None)
    ([0, 3, 0], None, None)
    """
    if not changes or at_ms is None:
        return None
    past = [change for change in changes if change.at_ms <= at_ms]
    if past:
        return past[-1].partition_count
    return 0 if changes[0].change == CREATED else None


def partitions_since(
    changes: Sequence[DatedTopicChange], until_ms: int | None
) -> Iterator[tuple[DatedTopicChange, range]]:
    """Yield the changes that added partitions to a topic since its last removal, each with the added partitions.

    Args:
        changes: changes of the topic, oldest first.
        until_ms: later changes don't count; None to count all.

    >>> orders = [DatedTopicChange(5, "created", 3), DatedTopicChange(9, "partitions_added", 5)]
    >>> [(change.at_ms, list(numbers)) for change, numbers in partitions_since(orders, None)]
    [(5, [0, 1, 2]), (9, [3, 4])]
    >>> removed = DatedTopicChange(12, "removed", 0)
    >>> list(partitions_since([*orders, removed], None)), len(list(partitions_since(orders, 8)))
    ([], 1)
    """
    past = [change for change in changes if until_ms is None or change.at_ms <= until_ms]
    begin = max((place + 1 for place, change in enumerate(past) if change.change == REMOVED), default=0)
    count = 0
    for change in past[begin:]:
        if change.partition_count > count:
            yield change, range(count, change.partition_count)
            count = change.partition_count
