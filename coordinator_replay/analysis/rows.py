"""Code for making rows of a group: the columns with cluster and group, JSON cells, and the names of topics."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from coordinator_replay.engine.model import Assignment, GroupType

Row = tuple[str, dict[str, Any]]
"""A table's name and one of its rows."""


# Looked up once, because every topic of every assignment needs them.
STREAMS, CLASSIC = GroupType.STREAMS, GroupType.CLASSIC

_PLAIN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: Any) -> str:
    """Return a value as JSON for a cell."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # The standard library accepts values that orjson does not: numbers above 64 bits, half of a surrogate pair.
        return _PLAIN.encode(value)


class Scope(NamedTuple):
    """Cluster and group of rows.

    Attributes:
        encode: the function that writes JSON for cells; callers that need no JSON may replace it.
    """

    cluster: str
    group_id: str
    encode: Callable[[Any], str] = encode


@dataclass(slots=True)
class RecordTopics:
    """Topics as tables show them, from the names or ids in a group's records.

    Records of classic groups have names, records of consumer and share groups have ids. Records of streams groups have
    subtopologies; task N reads partition N of every source topic. An unknown name stays null. If the topics of a
    subtopology are not known, or are given by a pattern, the tables show the name of the subtopology.

    Attributes:
        names: topic name by id.
        sources: topics by subtopology, from the group's topology.
    """

    names: Mapping[str, str]
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def shown(self, group_type: GroupType, topic: str) -> tuple[tuple[str | None, str | None], ...]:
        """Return the topics that a key of an assignment stands for, as pairs of topic id and topic name.

        The key is a topic id, a topic name or a subtopology. Only a subtopology can have several topics.
        """
        if group_type is STREAMS:
            return tuple((None, name) for name in self.sources.get(topic) or (topic,))
        if group_type is CLASSIC:
            return ((None, topic),)
        return ((topic, self.names.get(topic)),)

    def keys(self, old_type: GroupType, topic: str, new_type: GroupType) -> tuple[str, ...]:
        """Return the keys that stand for a topic in the records of another group type.

        A key is a topic name, a topic id or a subtopology, depending on the group type. Return no key if the topic's
        name is not known.

        Args:
            old_type: the group type whose records have the key ``topic``.
            topic: the topic's key in these records.
            new_type: the other group type.
        """
        names = {name for _, name in self.shown(old_type, topic) if name is not None}
        if new_type is GroupType.CLASSIC:
            return tuple(sorted(names))
        if new_type is GroupType.STREAMS:
            return tuple(key for key, sources in self.sources.items() if not names.isdisjoint(sources))
        return tuple(topic_id for topic_id, name in self.names.items() if name in names)

    def structs(self, group_type: GroupType, assignment: Assignment | None) -> list[dict[str, Any]] | None:
        """Return an assignment as ``array<struct<topic_id, topic, partitions>>``.

        Return None if the assignment is not known.
        """
        if not assignment:
            return None if assignment is None else []
        return [
            {"topic_id": topic_id, "topic": name, "partitions": list(partitions)}
            for topic, partitions in sorted(assignment.items())
            for topic_id, name in self.shown(group_type, topic)
        ]
