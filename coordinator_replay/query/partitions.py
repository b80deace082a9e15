"""Lists of partitions in answers, by topic."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from coordinator_replay.listing import partition_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic.

    ``topic`` is None if the name of the topic is unknown.
    """

    topic_id: str | None
    topic: str | None
    partitions: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.topic or self.topic_id}:{partition_ranges(self.partitions)}"


def topic_partitions(*lists: Iterable[dict[str, Any]] | None) -> tuple[TopicPartitions, ...]:
    """Merge lists of assigned partitions, as the tables store them, into one list, sorted by topic."""
    by_topic: dict[tuple[str | None, str | None], set[int]] = {}
    for entry in (entry for entries in lists for entry in entries or ()):
        by_topic.setdefault((entry["topic"], entry["topic_id"]), set()).update(entry["partitions"])
    ordered = sorted(by_topic.items(), key=lambda item: (item[0][0] or "", item[0][1] or ""))
    return tuple(
        TopicPartitions(topic_id=topic_id, topic=topic, partitions=tuple(sorted(partitions)))
        for (topic, topic_id), partitions in ordered
    )


def target_partitions(target: Iterable[dict[str, Any]] | None) -> tuple[TopicPartitions, ...] | None:
    """Convert a target assignment, as the tables store it, to a list of partitions by topic, sorted by topic.

    Return None if no target assignment is on record.
    """
    return None if target is None else topic_partitions(target)
