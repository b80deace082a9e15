"""The ``assign`` command of scripts: it runs a client's assignor on topics and subscriptions."""

from collections.abc import Mapping
from typing import Any

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.coordinator.assignor.client import (
    ASSIGNORS,
    AssignorError,
    ClientSubscription,
    Members,
    Partition,
    Topics,
)
from coordinator_replay.simulation.coordinator.assignor.client.subscription import NO_GENERATION, by_topic
from coordinator_replay.simulation.coordinator.script.lines import is_list_of, racks_of, value_of


def assign(command: Mapping[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Run an assignor.

    Args:
        command: ``{"assign": name, "topics": {name: partitions}, "racks"?: {name: [[rack, ...], ...]}, "members":
            {id: {"topics", "owned"?: {topic: [partition, ...]}, "generation"?, "rack"?, "instance"?}}}``.

    Returns:
        The partition numbers of each member, by topic.

    Raises:
        UsageError: the command is malformed, or the assignor fails on it.
    """
    assignor = ASSIGNORS.get(command["assign"]) if isinstance(command["assign"], str) else None
    if assignor is None:
        raise UsageError(f"assign is {command['assign']!r}; it must be one of {', '.join(ASSIGNORS)}")
    topics = _topics(value_of(command, "topics", dict), value_of(command, "racks", dict) if "racks" in command else {})
    members = _members(value_of(command, "members", dict))
    try:
        assignment = assignor(topics, members)
    except AssignorError as error:
        raise UsageError(f"assignor {command['assign']} fails: {error}") from error
    return {member_id: dict(sorted(by_topic(assignment[member_id]).items())) for member_id in sorted(assignment)}


def _topics(counts: Mapping[str, Any], racks: Mapping[str, Any]) -> Topics:
    topics = {}
    for name, count in counts.items():
        if type(count) is not int or count < 0:
            raise UsageError(f"topic {name!r}: {count!r} is not a number of partitions")
        replicas_of = racks_of(racks, name)
        topics[name] = tuple(
            frozenset(replicas_of[at]) if at < len(replicas_of) else frozenset() for at in range(count)
        )
    return topics


def _members(entries: Mapping[str, Any]) -> Members:
    members = {}
    for member_id, entry in entries.items():
        if not isinstance(entry, Mapping) or not is_list_of(entry.get("topics"), str):
            raise UsageError(f"member {member_id!r} must have a list of topics")
        members[member_id] = ClientSubscription(
            tuple(entry["topics"]),
            _owned(member_id, entry.get("owned") or {}),
            value_of({"generation": NO_GENERATION, **entry}, "generation", int),
            _optional_text(entry, "rack"),
            _optional_text(entry, "instance"),
        )
    return members


def _optional_text(entry: Mapping[str, Any], name: str) -> str | None:
    return None if entry.get(name) is None else value_of(entry, name, str)


def _owned(member_id: str, owned: Any) -> tuple[Partition, ...]:
    if not isinstance(owned, Mapping) or not all(is_list_of(numbers, int) for numbers in owned.values()):
        raise UsageError(f"owned of member {member_id!r} must be lists of partitions by topic")
    return tuple((topic, number) for topic, numbers in owned.items() for number in numbers)
