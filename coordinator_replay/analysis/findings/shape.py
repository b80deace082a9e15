"""Rules over the shape of a group: how many partitions its members own, and which protocols they use."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from coordinator_replay.analysis.findings.observation import MOST_NAMED, Observation, of_partitions
from coordinator_replay.analysis.findings.steps import GroupRule, Memory, Step
from coordinator_replay.analysis.findings.subscribed import without_assignment
from coordinator_replay.analysis.ownership import Unowned
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.listing import listed
from coordinator_replay.times import latest_ms, time_text

_ENDS = frozenset({EventKind.GROUP_DELETED, EventKind.GROUP_EMPTIED})
_BETWEEN = "\x00"
"""Separator between two members' names in the name of an observation."""
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
    """Yield partitions without an owner (see ``ownership``), if other partitions of their topic have one.

    An observation is about the partitions of a topic that lost their owner in one operation. It names the partitions
    that have had no owner since then. A partition that loses its owner later makes another observation.
    """
    now, owned = step.now, step.ownership
    if not step.kinds.isdisjoint(_ENDS):
        yield from memory.end_all(now.at_ms)
    if step.is_end or now.state is not GroupState.STABLE or now.group_type is GroupType.SHARE:
        return
    if not owned.gaps and not memory.open:
        return
    holes = _holes(step)
    for name in [name for name in memory.open if name not in holes]:
        yield from memory.end(name, now.at_ms)
    for name, (topic, gap, partitions) in holes.items():
        topic_id, topic_name = step.topics.shown(now.group_type, topic)[0]
        since = memory.since(name, latest_ms(gap.since_ms, step.exact_from))
        shown = of_partitions(str(topic_name or topic_id), partitions)
        without = [member.member_id for member in without_assignment(step)]
        words = f"; {listed(without, 3)} had an assignment of 0 bytes at the last change" if without else ""
        memory.hold(
            name,
            now,
            since,
            f"no member of the Stable group has owned {shown} since {time_text(since)}{words}",
            {
                "topic_id": topic_id,
                "partitions": partitions[:MOST_NAMED],
                "partition_count": len(partitions),
                "without_assignment": without[:MOST_NAMED],
            },
            step.limits.unowned_ms,
            subject=(topic, now.partition, gap.to_offset, gap.since_ms),
            topic=topic_name,
            topic_partition=partitions[0] if len(partitions) == 1 else None,
        )


def _holes(step: Step) -> dict[str, tuple[str, Unowned, list[int]]]:
    """Return the partitions that members miss, if other partitions of their topic are owned.

    An entry has the partitions of one topic that lost their owner in one operation. The key of the entry is the name of
    its observation.
    """
    owned = step.ownership
    topics_owned = {topic for topic, _ in owned.holders}
    holes: dict[str, tuple[str, Unowned, list[int]]] = {}
    for (topic, partition), gap in owned.gaps.items():
        if topic in topics_owned and gap.since_ms is not None:
            name = f"{gap.to_offset} {gap.since_ms} {topic}"
            holes.setdefault(name, (topic, gap, []))[2].append(partition)
    for _, _, partitions in holes.values():
        partitions.sort()
    return holes


class Share(NamedTuple):
    """A member, and the number of partitions that it owns.

    A static member is named by its instance id.
    """

    partitions: int
    name: str
    member_id: str


class Spread(NamedTuple):
    """The two members with the same subscription that own the most and the fewest partitions.

    Attributes:
        members: number of members with the subscription.
        partitions: number of partitions that all these members own.
    """

    most: Share
    least: Share
    members: int
    partitions: int

    @property
    def name(self) -> str:
        """Return the name of the observation. It consists of the names of the two members that it compares."""
        return f"{self.most.name}{_BETWEEN}{self.least.name}"

    @property
    def is_lopsided(self) -> bool:
        """Return whether the assignment is lopsided.

        This is so if ``most`` owns more than twice the average (rounded up), or if ``most`` owns several partitions and
        ``least`` owns none.
        """
        share = -(-self.partitions // self.members)
        return self.most.partitions > 2 * share or (self.least.partitions == 0 and self.most.partitions >= 2)


def unbalanced_assignment(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield two members that subscribe to the same topics and own very different numbers of partitions.

    An observation is about these two members, and lasts as long as the imbalance between them.
    """
    now = step.now
    if not step.kinds.isdisjoint(_ENDS):
        yield from memory.end_all(now.at_ms)
    if step.is_end or now.state is not GroupState.STABLE or now.group_type not in _ASSIGNED_APART:
        return
    spread = _lopsided(step, next(iter(memory.open), "")) if len(step.members) > 1 else None
    for name in [name for name in memory.open if spread is None or name != spread.name]:
        yield from memory.end(name, now.at_ms)
    if spread is None:
        return
    most, least = spread.most, spread.least
    since = memory.since(spread.name, now.at_ms)
    memory.hold(
        spread.name,
        now,
        since,
        f"of {spread.members} members with the same subscription {most.name} has owned too many partitions and "
        f"{least.name} too few since {time_text(since)}: {most.partitions} and {least.partitions} of "
        f"{spread.partitions} at the last change",
        {
            "members": spread.members,
            "partitions": spread.partitions,
            "most": {"member_id": most.member_id, "partitions": most.partitions},
            "least": {"member_id": least.member_id, "partitions": least.partitions},
        },
        step.limits.unbalanced_ms,
        member_id=most.member_id,
    )


def _lopsided(step: Step, open_name: str) -> Spread | None:
    """Return two members that own very different numbers of partitions. Prefer the members of the open observation.

    Return None if no two members with the same subscription differ so much.

    Args:
        step: the step of the group.
        open_name: name of the open observation, which consists of the names of its two members.
    """
    alike: dict[Any, dict[str, Share]] = {}
    for member_id, stay in step.members.items():
        subscription = stay.member.subscription
        if subscription is None or (subscription.topics is None and not subscription.regex):
            continue
        owned = step.ownership.owned.get(member_id, {})
        counted = sum(len(partitions) for partitions in owned.values())
        share = Share(counted, subscription.instance_id or member_id, member_id)
        alike.setdefault((subscription.topics, subscription.regex), {})[share.name] = share
    most, _, least = open_name.partition(_BETWEEN)
    new = None
    for shares in alike.values():
        count, partitions = len(shares), sum(share.partitions for share in shares.values())
        if most in shares and least in shares:
            spread = Spread(shares[most], shares[least], count, partitions)
            if spread.is_lopsided:
                return spread
        spread = Spread(max(shares.values()), min(shares.values()), count, partitions)
        if new is None and count > 1 and spread.is_lopsided:
            new = spread
    return new


def mixed_protocols(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield the time in which a consumer group has members of both protocols."""
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
        f"the group has had members of both protocols since {time_text(since)}: {len(classic)} of {len(protocols)} "
        "used the classic protocol at the last change",
        {"classic_members": sorted(classic)[:MOST_NAMED], "classic_count": len(classic), "members": len(protocols)},
        step.limits.mixed_protocols_ms,
    )


def group_near_member_limit(step: Step, memory: Memory) -> Iterator[Observation]:
    """Yield times in which the number of members was close to the brokers' limit for groups of the type."""
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
