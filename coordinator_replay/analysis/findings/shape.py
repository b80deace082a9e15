"""Rules over what a group looks like once it has settled: who owns how much, who speaks which protocol."""

from collections.abc import Iterator
from typing import Any

from coordinator_replay.analysis.findings.observation import MOST_NAMED, Observation, of_partitions
from coordinator_replay.analysis.findings.steps import GroupRule, Memory, Step
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.times import latest_ms, time_order, time_text

_ENDS = frozenset({EventKind.GROUP_DELETED, EventKind.GROUP_EMPTIED})
_ASSIGNED_APART = (GroupType.CLASSIC, GroupType.CONSUMER)
_MEMBERSHIP = frozenset(
    {
        EventKind.GROUP_DISCOVERED,
        EventKind.GROUP_CONVERTED,
        EventKind.GROUP_CREATED,
        EventKind.MEMBER_JOINED,
        EventKind.MEMBER_LEFT,
        EventKind.MEMBER_REPLACED,
        EventKind.MEMBER_REJOINED,
        EventKind.METADATA_CHANGED,
        EventKind.SUBSCRIPTION_CHANGED,
    }
)


def partition_unowned(step: Step, memory: Memory) -> Iterator[Observation]:
    """Partitions that had an owner and have none, of topics of which others have one; one observation a topic."""
    now, owned = step.now, step.ownership
    if not step.kinds.isdisjoint(_ENDS):
        yield from memory.end_all(now.at_ms)
    if step.is_end or now.state is not GroupState.STABLE or now.group_type is GroupType.SHARE:
        return
    if not owned.gaps and not memory.open:
        return
    topics_owned = {topic for topic, _ in owned.holders}
    holes: dict[str, list[int]] = {}
    for topic, partition in owned.gaps:
        if topic in topics_owned:
            holes.setdefault(topic, []).append(partition)
    for topic in [topic for topic in memory.open if topic not in holes]:
        yield from memory.end(topic, now.at_ms)
    for topic, partitions in holes.items():
        partitions.sort()
        topic_id, name = step.topics.shown(now.group_type, topic)[0]
        released = max((owned.gaps[topic, partition].to_ms for partition in partitions), key=time_order)
        since = memory.since(topic, latest_ms(released, step.exact_from))
        shown = of_partitions(str(name or topic_id), partitions)
        memory.hold(
            topic,
            now,
            since,
            f"no member of the Stable group has owned {shown} since {time_text(since)}",
            {"topic_id": topic_id, "partitions": partitions[:MOST_NAMED], "partition_count": len(partitions)},
            step.limits.unowned_ms,
            subject=(topic, now.partition, now.offset),
            topic=name,
            topic_partition=partitions[0] if len(partitions) == 1 else None,
        )


def unbalanced_assignment(step: Step, memory: Memory) -> Iterator[Observation]:
    """Members that subscribe to the same own very different numbers of partitions."""
    now = step.now
    if not step.kinds.isdisjoint(_ENDS):
        yield from memory.end_all(now.at_ms)
    if step.is_end or now.state is not GroupState.STABLE or now.group_type not in _ASSIGNED_APART:
        return
    worst = _most_lopsided(step) if len(step.members) > 1 else None
    if worst is None:
        yield from memory.end_all(now.at_ms)
        return
    most, least, members, partitions = worst
    since = memory.since("unbalanced", now.at_ms)
    memory.hold(
        "unbalanced",
        now,
        since,
        f"of {members} members with the same subscription one has owned {most[0]} of {partitions} partitions and "
        f"one {least[0]} since {time_text(since)}",
        {
            "members": members,
            "partitions": partitions,
            "most": {"member_id": most[1], "partitions": most[0]},
            "least": {"member_id": least[1], "partitions": least[0]},
        },
        step.limits.unbalanced_ms,
        member_id=most[1],
    )


def _most_lopsided(step: Step) -> tuple[tuple[int, str], tuple[int, str], int, int] | None:
    """The most and the least that members of one subscription own, where that is lopsided."""
    alike: dict[Any, list[tuple[int, str]]] = {}
    for member_id, stay in step.members.items():
        subscription = stay.member.subscription
        if subscription is None or (subscription.topics is None and not subscription.regex):
            continue
        owned = step.ownership.owned.get(member_id, {})
        counted = sum(len(partitions) for partitions in owned.values())
        alike.setdefault((subscription.topics, subscription.regex), []).append((counted, member_id))
    for counts in alike.values():
        partitions = sum(count for count, _ in counts)
        if len(counts) < 2 or not partitions:
            continue
        most, least = max(counts), min(counts)
        share = -(-partitions // len(counts))
        if most[0] > 2 * share or (least[0] == 0 and most[0] >= 2):
            return most, least, len(counts), partitions
    return None


def mixed_protocols(step: Step, memory: Memory) -> Iterator[Observation]:
    """A consumer group has members of both protocols."""
    now = step.now
    if now.group_type is not GroupType.CONSUMER or EventKind.GROUP_DELETED in step.kinds:
        yield from memory.end_all(now.at_ms)
        return
    if step.kinds.isdisjoint(_MEMBERSHIP):
        return
    protocols = {
        member_id: stay.member.subscription.uses_classic_protocol
        for member_id, stay in step.members.items()
        if stay.member.subscription is not None
    }
    classic = [member_id for member_id, is_classic in protocols.items() if is_classic]
    if not classic or len(classic) == len(protocols):
        yield from memory.end_all(now.at_ms)
        return
    since = memory.since("mixed", now.at_ms)
    memory.hold(
        "mixed",
        now,
        since,
        f"{len(classic)} of {len(protocols)} members have used the classic protocol, the others the consumer "
        f"protocol, since {time_text(since)}",
        {"classic_members": sorted(classic)[:MOST_NAMED], "classic_count": len(classic), "members": len(protocols)},
        step.limits.mixed_protocols_ms,
    )


def group_near_member_limit(step: Step, memory: Memory) -> Iterator[Observation]:
    """The number of members comes close to the brokers' limit for the group's type."""
    now, limits = step.now, step.limits
    limit = limits.share_group_max_size if now.group_type is GroupType.SHARE else limits.group_max_size
    if not limit or now.member_count * 100 < limit * limits.size_percent:
        yield from memory.end_all(now.at_ms)
        return
    highest = max(now.member_count, memory.notes.get("highest", 0) if memory.open else 0)
    memory.notes["highest"] = highest
    since = memory.since("near", now.at_ms)
    message = f"the group has had up to {highest} members since {time_text(since)}; the limit is {limit}"
    memory.hold("near", now, since, message, {"members": highest, "limit": limit}, subject=())


SHAPE_RULES: tuple[GroupRule, ...] = (
    partition_unowned,
    unbalanced_assignment,
    mixed_protocols,
    group_near_member_limit,
)
