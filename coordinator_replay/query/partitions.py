"""Partitions of topics, as answers hold and show them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


def partition_ranges(partitions: Sequence[int]) -> str:
    """Partitions as people write them.

    >>> partition_ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7,8'
    """
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and partition == runs[-1][-1] + 1:
            runs[-1].append(partition)
        else:
            runs.append([partition])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(parts)


def ranges_by_topic(partitions: Iterable[tuple[str, int]]) -> str:
    """Partitions of several topics as people write them.

    >>> ranges_by_topic([("orders", 1), ("orders", 0), ("audit", 2), ("orders", 2)])
    'audit:2; orders:0-2'
    """
    by_topic: dict[str, set[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, set()).add(number)
    return "; ".join(f"{topic}:{partition_ranges(sorted(numbers))}" for topic, numbers in sorted(by_topic.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic; ``topic`` is None where no source gave the name of the id."""

    topic_id: str | None
    topic: str | None
    partitions: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.topic or self.topic_id}:{partition_ranges(self.partitions)}"


def topic_partitions(*lists: Iterable[dict[str, Any]] | None) -> tuple[TopicPartitions, ...]:
    """Assignments as the tables hold them, together and in order."""
    by_topic: dict[tuple[str | None, str | None], set[int]] = {}
    for entry in (entry for entries in lists for entry in entries or ()):
        by_topic.setdefault((entry["topic"], entry["topic_id"]), set()).update(entry["partitions"])
    ordered = sorted(by_topic.items(), key=lambda item: (item[0][0] or "", item[0][1] or ""))
    return tuple(
        TopicPartitions(topic_id=topic_id, topic=topic, partitions=tuple(sorted(partitions)))
        for (topic, topic_id), partitions in ordered
    )


def target_partitions(target: Iterable[dict[str, Any]] | None) -> tuple[TopicPartitions, ...] | None:
    """A target assignment as the tables hold it, in order; None where none is on record."""
    return None if target is None else topic_partitions(target)
