"""When topics changed, as far as the cluster's metadata is at hand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

CREATED, PARTITIONS_ADDED, REMOVED = "created", "partitions_added", "removed"


class TopicChange(NamedTuple):
    """A topic was created, got partitions, or was removed.

    Attributes:
        at_ms: when the controller wrote it down.
        change: ``created``, ``partitions_added`` or ``removed``.
        partition_count: partitions after it; 0 when it was removed.
    """

    at_ms: int
    change: str
    partition_count: int


TopicChanges = Mapping[str, Sequence[TopicChange]]
"""Changes by topic name, oldest first."""

NO_CHANGES: TopicChanges = {}

_WORDS = {CREATED: "was created with {}", PARTITIONS_ADDED: "got partitions, {} now", REMOVED: "was removed"}


def told(topic: str, change: TopicChange) -> str:
    """The change in words.

    >>> told("orders", TopicChange(0, "partitions_added", 5))
    'topic orders got partitions, 5 partitions now'
    """
    count = f"{change.partition_count} partition{'' if change.partition_count == 1 else 's'}"
    return f"topic {topic} {_WORDS[change.change].format(count)}"


def between(
    changes: TopicChanges, topics: Iterable[str], after_ms: int, until_ms: int
) -> list[tuple[str, TopicChange]]:
    """Changes of some topics later than one moment and not later than another, oldest first.

    >>> between({"a": [TopicChange(5, "created", 1), TopicChange(9, "removed", 0)]}, ["a", "b"], 5, 9)
    [('a', TopicChange(at_ms=9, change='removed', partition_count=0))]
    """
    found = [
        (topic, change) for topic in topics for change in changes.get(topic, ()) if after_ms < change.at_ms <= until_ms
    ]
    return sorted(found, key=lambda one: (one[1].at_ms, one[0]))
