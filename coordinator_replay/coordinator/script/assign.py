"""The ``assign`` command of scripts: what a client's assignor makes of topics and subscriptions."""

from collections.abc import Mapping
from typing import Any

from coordinator_replay.coordinator.assignor.client import (
    ASSIGNORS,
    AssignorError,
    ClientSubscription,
    Members,
    Partition,
    Topics,
)
from coordinator_replay.coordinator.assignor.client.subscription import NO_GENERATION
from coordinator_replay.coordinator.script.lines import is_texts, object_of
from coordinator_replay.errors import UsageError


def assign(command: Mapping[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Run an assignor.

    Args:
        command: ``{"assign": name, "topics": {name: partitions}, "racks"?: {name: [[rack, ...], ...]}, "members":
            {id: {"topics", "owned"?: {topic: [partition, ...]}, "generation"?, "rack"?, "instance"?}}}``.

    Returns:
        Partitions by topic, by member.

    Raises:
        UsageError: the command is malformed, or the assignor can't work with it.
    """
    assignor = ASSIGNORS.get(command["assign"]) if isinstance(command["assign"], str) else None
    if assignor is None:
        raise UsageError(f"assign is {command['assign']!r}; it must be one of {', '.join(ASSIGNORS)}")
    topics = _topics(object_of(command, "topics"), object_of(command, "racks") if "racks" in command else {})
    members = _members(object_of(command, "members"))
    try:
        assignment = assignor(topics, members)
    except AssignorError as error:
        raise UsageError(f"assignor {command['assign']} fails: {error}") from error
    return {member_id: _by_topic(assignment[member_id]) for member_id in sorted(assignment)}


def _topics(counts: Mapping[str, Any], racks: Mapping[str, Any]) -> Topics:
    topics = {}
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise UsageError(f"topic {name!r}: {count!r} is not a number of partitions")
        replicas_of = racks.get(name) or []
        if not isinstance(replicas_of, list) or not all(is_texts(replicas) for replicas in replicas_of):
            raise UsageError(f"racks of topic {name!r} must be a list of each partition's racks")
        topics[name] = tuple(
            frozenset(replicas_of[at]) if at < len(replicas_of) else frozenset() for at in range(count)
        )
    return topics


def _members(entries: Mapping[str, Any]) -> Members:
    members = {}
    for member_id, entry in entries.items():
        if not isinstance(entry, Mapping) or not is_texts(entry.get("topics")):
            raise UsageError(f"member {member_id!r} must have a list of topics")
        members[member_id] = ClientSubscription(
            tuple(entry["topics"]),
            _owned(member_id, entry.get("owned") or {}),
            _generation(member_id, entry.get("generation", NO_GENERATION)),
            _optional_text(entry, "rack"),
            _optional_text(entry, "instance"),
        )
    return members


def _generation(member_id: str, generation: Any) -> int:
    if not isinstance(generation, int) or isinstance(generation, bool):
        raise UsageError(f"generation of member {member_id!r} must be a whole number, not {generation!r}")
    return generation


def _optional_text(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} must be text, not {value!r}")
    return value


def _owned(member_id: str, owned: Any) -> tuple[Partition, ...]:
    if not isinstance(owned, Mapping) or not all(_is_numbers(numbers) for numbers in owned.values()):
        raise UsageError(f"owned of member {member_id!r} must be lists of partitions by topic")
    return tuple((topic, number) for topic, numbers in owned.items() for number in numbers)


def _by_topic(partitions: list[Partition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return {topic: by_topic[topic] for topic in sorted(by_topic)}


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
