"""The topics of the cluster, as the coordinator sees them: a metadata image with a version."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.coordinator.messages import UUID

MAX_PARTITIONS = 1_000_000
"""Largest number of partitions of a topic: about as many as a cluster can have in all."""


class Topic(NamedTuple):
    """A topic.

    Attributes:
        name: name of the topic.
        topic_id: id of the topic, 22 characters of base64 as Kafka prints it.
        partitions: number of partitions.
        racks: racks of each partition's replicas, partitions in order; empty if brokers have no rack.
    """

    name: str
    topic_id: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The difference between two images of the topics.

    Attributes:
        created: names of topics that were created. A topic that was deleted and created again has a new id, and is in
            ``created`` and in ``deleted_ids``.
        changed: names of topics that have more partitions or other racks.
        deleted_ids: ids of topics that were deleted, by name.
    """

    created: frozenset[str]
    changed: frozenset[str]
    deleted_ids: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:
        """Return the names of created, changed and deleted topics."""
        return self.created | self.changed | self.deleted_ids.keys()


class Topics:
    """An image of all topics at one time.

    An image never changes; a new image replaces it.
    """

    __slots__ = ("by_id", "by_name", "version", "version_with_new")

    def __init__(self, topics: Iterable[Topic] = (), version: int = 0, version_with_new: int | None = None) -> None:
        """Make an image: the topics of the cluster at one time.

        Args:
            topics: all topics of the image.
            version: version of the image.
            version_with_new: version of the last image in which a topic was created; None if it is this image.

        Raises:
            UsageError: two topics have the same name or id, or a topic is invalid.
        """
        self.by_name: Mapping[str, Topic] = {}
        self.by_id: Mapping[str, Topic] = {}
        self.version = version
        self.version_with_new = version if version_with_new is None else version_with_new
        by_name: dict[str, Topic] = {}
        by_id: dict[str, Topic] = {}
        for topic in topics:
            _check(topic)
            if topic.name in by_name or topic.topic_id in by_id:
                raise UsageError(f"topic {topic.name!r} with id {topic.topic_id!r}: name or id is there twice")
            by_name[topic.name] = by_id[topic.topic_id] = topic
        self.by_name, self.by_id = by_name, by_id

    def followed_by(self, topics: Iterable[Topic]) -> tuple["Topics", TopicChange]:
        """Return the next image of the topics, and its differences from this image.

        Raises:
            UsageError: the topics contradict each other, or a topic has lost partitions.
        """
        new = Topics(topics, self.version + 1)
        change = new.change_from(self)
        for name in change.changed:
            if new.by_name[name].partitions < self.by_name[name].partitions:
                raise UsageError(f"topic {name!r} can't lose partitions unless it gets another id")
        if not change.created:
            new.version_with_new = self.version_with_new
        return new, change

    def change_from(self, old: "Topics") -> TopicChange:
        """Return the differences between this image of the topics and an older image."""
        kept = {
            name
            for name in self.by_name.keys() & old.by_name.keys()
            if self.by_name[name].topic_id == old.by_name[name].topic_id
        }
        return TopicChange(
            created=frozenset(self.by_name.keys() - kept),
            changed=frozenset(name for name in kept if self.by_name[name] != old.by_name[name]),
            deleted_ids={name: topic.topic_id for name, topic in old.by_name.items() if name not in kept},
        )


def _check(topic: Topic) -> None:
    if not topic.name:
        raise UsageError("a topic needs a name")
    if not isinstance(topic.partitions, int) or not 0 <= topic.partitions <= MAX_PARTITIONS:
        raise UsageError(f"topic {topic.name!r}: {topic.partitions!r} is not a number of partitions")
    if UUID.fullmatch(topic.topic_id) is None:
        raise UsageError(f"topic {topic.name!r}: {topic.topic_id!r} is not a topic id, 22 characters of base64")
