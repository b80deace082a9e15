"""Rules over subscriptions: topics and partitions without an owner, members without an assignment."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from coordinator_replay.analysis.broker_faults import KAFKA_9801, KAFKA_12759
from coordinator_replay.analysis.findings.observation import MOST_NAMED, Observation, of_partitions
from coordinator_replay.analysis.findings.steps import GroupRule, Memory, Step
from coordinator_replay.analysis.reasons.topic_changes import DatedTopicChange, partition_count, partitions_since
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupState, GroupType, Member
from coordinator_replay.listing import counted, listed
from coordinator_replay.times import elapsed_ms, latest_ms, time_text

_ENDS = frozenset({EventKind.GROUP_DELETED, EventKind.GROUP_EMPTIED})
_NEW_GENERATION = frozenset({EventKind.REBALANCE_COMPLETED, EventKind.GROUP_CREATED, EventKind.GROUP_CONVERTED})
_CONSUMERS = (GroupType.CLASSIC, GroupType.CONSUMER)
_WITH_SUBSCRIPTIONS = (*_CONSUMERS, GroupType.SHARE)
_MOST_SHOWN = 3
_PROVISIONAL = "\x00"
"""Prefix of the name of an observation that only the end of the log shows. Steps ignore such observations."""


def _is_settled(step: Step) -> bool:
    """Return whether a classic or consumer group is Stable."""
    return step.now.state is GroupState.STABLE and step.now.group_type in _CONSUMERS


def _begin_again(step: Step, memory: Memory) -> Iterator[Observation]:
    """If the group no longer has members, close all observations. Yield those that lasted for ``needed_ms``."""
    if not step.kinds.isdisjoint(_ENDS):
        yield from memory.end_all(step.now.at_ms)
        memory.notes.clear()


def topic_unowned(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield topics that members subscribe to, although no member owns a partition of the topic.

    The group's records don't show whether such a topic exists. If the cluster metadata shows that the topic does not
    exist, there is no finding.
    """
    yield from _begin_again(step, memory)
    now = step.now
    if step.is_end or not _is_settled(step):
        return
    topics = _topics_without_owner(step)
    for name in [name for name in memory.open if name not in topics]:
        yield from memory.end(name, now.at_ms)
        memory.notes.pop(name, None)
    is_unanswered = now.group_type is GroupType.CLASSIC and step.kinds.isdisjoint(_NEW_GENERATION)
    for topic in topics:
        since = memory.since(topic, now.at_ms)
        if topic not in memory.open and is_unanswered and EventKind.SUBSCRIPTION_CHANGED in step.kinds:
            memory.notes[topic] = True
        fault = f", {KAFKA_12759.as_possible}" if topic in memory.notes else ""
        subscribers = _names(_subscribers(step, topic))
        memory.hold(
            topic,
            now,
            since,
            f"no member of the Stable group has owned a partition of {topic} since {time_text(since)}, though "
            f"{listed(subscribers, _MOST_SHOWN)} subscribed to it at the last change{fault}",
            {"subscribers": subscribers[:MOST_NAMED], "partition_count": _known_count(step, topic)},
            step.limits.unowned_ms,
            subject=(topic, now.partition, now.offset),
            topic=topic,
        )


def _topics_without_owner(step: Step) -> list[str]:
    """Return topics with subscribers but no owned partition.

    Return an empty list if the members may own partitions that are not on record.
    """
    named = step.ownership.subscriptions.named()
    owned = _owned_topics(step)
    if named <= owned or None in owned or any(_may_own_more(stay.member) for stay in step.members.values()):
        return []
    return sorted(topic for topic in named - owned if _known_count(step, topic) != 0)


def _owned_topics(step: Step) -> set[str | None]:
    """Return the names of topics with owned partitions.

    None stands for topics without a known name.
    """
    keys = {topic for topic, _ in step.ownership.holders}
    return {name for key in keys for _, name in step.topics.shown(step.now.group_type, key)}


def _may_own_more(member: Member) -> bool:
    """Return whether a member may own partitions that are not on record."""
    return member.current is None or member.current.assigned is None


def _known_count(step: Step, topic: str) -> int | None:
    """Return the partition count of a topic at a step.

    Return None if the cluster metadata does not have the count.
    """
    return partition_count(step.topic_changes.get(topic, ()), step.now.at_ms)


def _subscribers(step: Step, topic: str) -> list[Member]:
    subscriptions = step.ownership.subscriptions
    asking = (stay.member for stay in step.members.values() if topic in subscriptions.of(stay.member.member_id))
    return list(asking)


def _names(members: Iterable[Member]) -> list[str]:
    """Return names that members keep after a restart: instance ids or client ids.

    A member without either is named by its member id.
    """
    subscriptions = ((member, member.subscription_or_empty) for member in members)
    names = (
        subscription.instance_id or subscription.client_id or member.member_id for member, subscription in subscriptions
    )
    return sorted(set(names))


def partition_never_owned(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield new partitions that no member has ever owned, although the group owns other partitions of the topic.

    A partition counts only if the log has all records of the group since the topic got the partition. The topic may
    also have got it after the group's last record.
    """
    yield from _begin_again(step, memory)
    for name in [name for name in memory.open if name.startswith(_PROVISIONAL)]:
        del memory.open[name]
    if not step.topic_changes or not _is_settled(step):
        return
    now, owned = step.now, _numbers_on_record(step)
    never = _never_owned(step, owned)
    if step.is_end:
        never = {name: missing for name, missing in never.items() if name not in memory.open}
    else:
        for name in [name for name in memory.open if name not in never]:
            yield from memory.end(name, now.at_ms)
    known = memory.notes.get("topics", [])
    for name, (topic, change, partitions) in never.items():
        has_come_since = topic in known and (elapsed_ms(memory.notes["at"], change.at_ms) or 0) > 0
        first_ms = change.at_ms if has_come_since else latest_ms(now.at_ms, change.at_ms)
        since = memory.since(name, first_ms)
        when = f" {time_text(since)}, when the topic got them" if since == change.at_ms else f" {time_text(since)}"
        memory.hold(
            f"{_PROVISIONAL}{name}" if step.is_end else name,
            now,
            since,
            f"no member of the Stable group has owned {of_partitions(topic, partitions)} since{when}",
            {
                "partitions": partitions[:MOST_NAMED],
                "partition_count": len(partitions),
                "partitions_of_topic": change.partition_count,
                "got_at": time_text(change.at_ms),
            },
            step.limits.unowned_ms,
            subject=(topic, change.at_ms),
            topic=topic,
            topic_partition=partitions[0] if len(partitions) == 1 else None,
        )
    if not step.is_end:
        memory.notes |= {"topics": sorted(owned), "at": now.at_ms}


def _numbers_on_record(step: Step) -> dict[str, set[int]]:
    """Return the partitions that have or had an owner, for each subscribed topic with owned partitions."""
    group_type, ownership = step.now.group_type, step.ownership
    named = ownership.subscriptions.named()
    owned: dict[str, set[int]] = {}
    for key, number in ownership.holders:
        for _, name in step.topics.shown(group_type, key):
            if name in named and name in step.topic_changes:
                owned.setdefault(name, set()).add(number)
    for key, number in ownership.gaps if owned else ():
        for _, name in step.topics.shown(group_type, key):
            if name in owned:
                owned[name].add(number)
    return owned


def _never_owned(step: Step, on_record: Mapping[str, set[int]]) -> dict[str, tuple[str, DatedTopicChange, list[int]]]:
    """Return partitions that never had an owner.

    Args:
        step: the step of the group.
        on_record: for each topic, the partitions that have or had an owner.

    Returns:
        An entry for each change of a topic that added such partitions. The entry has the topic, the change and the
        numbers of the partitions.
    """
    if any(_may_own_more(stay.member) for stay in step.members.values()):
        return {}
    until_ms = None if step.is_end else step.now.at_ms
    never: dict[str, tuple[str, DatedTopicChange, list[int]]] = {}
    for topic, numbers in sorted(on_record.items()):
        for change, added in partitions_since(step.topic_changes[topic], until_ms):
            if not step.has_all_since(change.at_ms):
                continue
            missing = [number for number in added if number not in numbers]
            if missing:
                never[f"{change.at_ms} {topic}"] = topic, change, missing
    return never


def empty_assignment(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield members of a Stable classic group whose assignment has no bytes.

    The coordinator stores 0 bytes for a member that the leader's SyncGroup does not name. An observation is about all
    members that lost their assignment at the same step.
    """
    yield from _begin_again(step, memory)
    now = step.now
    if now.group_type is not GroupType.CLASSIC:
        yield from memory.end_all(now.at_ms)
        memory.notes.clear()
        return
    if step.is_end or now.state is not GroupState.STABLE:
        return
    without = {_name(member): member for member in without_assignment(step)}
    for name in [name for name in memory.notes if name not in without]:
        del memory.notes[name]
    replaced = {event.member_id for event in step.events if event.kind is EventKind.MEMBER_REPLACED}
    for name, member in without.items():
        memory.notes.setdefault(name, [f"{now.partition} {now.offset}", member.member_id in replaced])
    episodes: dict[str, list[str]] = {}
    for name, (begin, _) in memory.notes.items():
        episodes.setdefault(begin, []).append(name)
    for begin in [begin for begin in memory.open if begin not in episodes]:
        yield from memory.end(begin, now.at_ms)
    for begin, names in episodes.items():
        members = [without[name] for name in sorted(names)]
        since = memory.since(begin, now.at_ms)
        is_known = any(memory.notes[name][1] for name in names)
        memory.hold(
            begin,
            now,
            since,
            f"{_with_verb(members)} had an assignment of 0 bytes since {time_text(since)}: the leader's SyncGroup "
            f"named no assignment for {'this member id' if len(members) == 1 else 'these member ids'}"
            f"{f', {KAFKA_9801.as_possible}' if is_known else ''}",
            {
                "members": [member.member_id for member in members[:MOST_NAMED]],
                "clients": _names(members)[:MOST_NAMED],
                "member_count": len(members),
            },
            step.limits.unowned_ms,
            member_id=members[0].member_id if len(members) == 1 else None,
        )


def without_assignment(step: Step) -> list[Member]:
    """Return members of a classic group for which the leader sent no assignment."""
    if step.now.group_type is not GroupType.CLASSIC:
        return []
    members = (stay.member for stay in step.members.values())
    return [member for member in members if member.current is not None and not member.current.has_bytes]


def _name(member: Member) -> str:
    """Return the instance id of a static member, or the member id of a dynamic member."""
    return member.instance_id or member.member_id


def _with_verb(members: Sequence[Member]) -> str:
    if len(members) == 1:
        return f"member {members[0].member_id} of {_names(members)[0]} has"
    return f"{counted(len(members), 'member')} of {listed(_names(members), _MOST_SHOWN)} have"


class Part(NamedTuple):
    """Members of a group that have topics in common with each other, but not with other members.

    Attributes:
        topics: the topics that the members subscribe to, sorted.
        clients: client ids of the members, sorted.
        members: number of these members.
    """

    topics: list[str]
    clients: list[str]
    members: int

    def __str__(self) -> str:
        who = f"{counted(self.members, 'member')} of {listed(self.clients, _MOST_SHOWN)}"
        return f"{who} subscribed to {listed(self.topics, _MOST_SHOWN)}"


def disjoint_subscriptions(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield times in which the members of a group form several parts without a common topic (see ``Part``).

    An observation lasts as long as there are several parts, even if the parts change.
    """
    now, subscriptions = step.now, step.ownership.subscriptions
    if step.is_end:
        return
    if memory.notes and not subscriptions.has_changed:
        return
    memory.notes["is_seen"] = True
    parts = _parts(step) if now.group_type in _WITH_SUBSCRIPTIONS else []
    if len(parts) < 2:
        yield from memory.end_all(now.at_ms)
        return
    since = memory.since("parts", now.at_ms)
    memory.hold(
        "parts",
        now,
        since,
        f"the group has had members without a topic in common since {time_text(since)}; at the last change "
        f"{listed(parts, _MOST_SHOWN, '; ')}",
        {"parts": [part._asdict() for part in parts[:MOST_NAMED]], "part_count": len(parts)},
        step.limits.disjoint_ms,
    )


def _parts(step: Step) -> list[Part]:
    """Return the parts of a group: sets of members without a common topic (see ``Part``).

    Return an empty list if all members are in one part, or if the topics of a member are not known.
    """
    subscriptions = step.ownership.subscriptions
    parts = []
    disjoint = subscriptions.disjoint_topics()
    if len(disjoint) < 2:
        return []
    for topics in disjoint:
        asking = [
            stay.member
            for stay in step.members.values()
            if not topics.isdisjoint(subscriptions.of(stay.member.member_id))
        ]
        clients = {member.subscription_or_empty.client_id or member.member_id for member in asking}
        parts.append(Part(sorted(topics)[:MOST_NAMED], sorted(clients)[:MOST_NAMED], len(asking)))
    return sorted(parts)


SUBSCRIPTION_RULES: tuple[GroupRule, ...] = (
    topic_unowned,
    partition_never_owned,
    empty_assignment,
    disjoint_subscriptions,
)
