"""Rows of the decision table about changed subscriptions and topics, and about rebalances without a visible change."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from coordinator_replay.analysis.reasons.explanation import Explanation
from coordinator_replay.analysis.reasons.facts import Fact, FactKind, Place, Sentence, about, named
from coordinator_replay.analysis.reasons.history import topics_of
from coordinator_replay.analysis.reasons.rule import CLASSIC, CONSUMER, MODERN, RuleTable
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.topic_changes import PARTITIONS_ADDED, DatedTopicChange, change_fact
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupType, Member, Subscription, without
from coordinator_replay.listing import partition_range, partition_ranges, ranges_by_topic
from coordinator_replay.times import time_order

CHANGE_RULES = RuleTable()
"""Rows in the order of their rank; they follow the rows about members."""

CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE

_NOTHING_VISIBLE = (Cause.LEADER_REJOIN, Cause.COOPERATIVE_FOLLOW_UP)


def _asked(old: Subscription, new: Member) -> tuple[set[str], set[str]]:
    """Return the topics that a member newly subscribes to, and the topics that it no longer subscribes to.

    Both are empty if one of the two subscriptions can't be read.

    Args:
        old: the subscription before the change.
        new: the member after the change.
    """
    if not _is_readable(old) or not _is_readable(new.subscription):
        return set(), set()
    before, after = set(old.topics or ()), set(topics_of(new))
    return after - before, before - after


def _is_readable(subscription: Subscription | None) -> bool:
    """Return whether a member's topics are known.

    The metadata of a classic member may not show its topics.
    """
    return subscription is None or subscription.topics is not None or not subscription.uses_classic_protocol


@CHANGE_RULES.row(Cause.TOPIC_METADATA_CHANGE, CLASSIC, explains=(Cause.SUBSCRIPTION_CHANGE, *_NOTHING_VISIBLE))
def pattern_resolved(situation: Situation) -> Explanation | None:
    """A client's own pattern matched a new topic, or a topic that the pattern matched was deleted.

    Footprint: members added topics to their lists of topics, or dropped topics from them. The cluster metadata shows
        that each of these topics was created or deleted since the previous generation. So the members subscribe by a
        pattern.
    Confidence: likely.
    Look-alikes: SUBSCRIPTION_CHANGE to topics just created.
    """
    moved = {
        topic for old, new, _ in situation.resubscribed for topics_asked in _asked(old, new) for topic in topics_asked
    }
    changes = situation.changes_since(moved) if moved else []
    if not moved or {topic for topic, change in changes if change.change != PARTITIONS_ADDED} != moved:
        return None
    evidence = [(*_change(situation, topic, change), Fact(FactKind.BY_THEN)) for topic, change in changes]
    evidence += [_resubscribed(situation, *resubscription) for resubscription in situation.resubscribed]
    triggers = [member.member_id for _, member, _ in situation.resubscribed]
    return Explanation(LIKELY, evidence, (Cause.SUBSCRIPTION_CHANGE,), triggers, list(moved))


@CHANGE_RULES.row(Cause.SUBSCRIPTION_CHANGE, explains=(Cause.TOPIC_METADATA_CHANGE, *_NOTHING_VISIBLE))
def subscription_change(situation: Situation) -> Explanation | None:
    """A member subscribed to other topics.

    Footprint: a member stayed in the group, and changed its subscription to other topics or to another regex.
    Confidence: certain if the regex changed; else likely.
    Look-alikes: TOPIC_METADATA_CHANGE, if the client subscribes by a pattern of its own.
    """
    if not situation.resubscribed:
        return None
    by_regex = all(_changed_regex(old, new) for old, new, _ in situation.resubscribed)
    return Explanation(
        CERTAIN if by_regex else LIKELY,
        [_resubscribed(situation, *resubscription) for resubscription in situation.resubscribed],
        () if by_regex else (Cause.TOPIC_METADATA_CHANGE,),
        [member.member_id for _, member, _ in situation.resubscribed],
    )


def _changed_regex(old: Subscription, new: Member) -> bool:
    return new.subscription is not None and new.subscription.regex != old.regex


def _change(situation: Situation, topic: str, change: DatedTopicChange) -> Sentence:
    return (change_fact(situation.topic_changes, topic, change),)


def _resubscribed(situation: Situation, old: Subscription, new: Member, offset: int) -> Sentence:
    place = situation.place(offset)
    if not _is_readable(new.subscription):
        return (about(FactKind.UNREADABLE_SUBSCRIPTION, new, place=place),)
    if not _is_readable(old):
        return (_about_topics(FactKind.SUBSCRIBED_ANEW, new, topics_of(new), place),)
    added, dropped = _asked(old, new)
    facts = [_about_topics(FactKind.SUBSCRIBED, new, added, place)] if added else []
    if dropped:
        facts.append(_about_topics(FactKind.UNSUBSCRIBED, new, dropped, place))
    if _changed_regex(old, new) and new.subscription is not None:
        regex = new.subscription.regex
        kind = FactKind.REGEX_SUBSCRIBED if regex else FactKind.REGEX_DROPPED
        facts.append(about(kind, new, old=old.regex, new=regex, place=place))
    return tuple(facts) or (about(FactKind.SUBSCRIPTION_CHANGED, new, place=place),)


def _about_topics(kind: FactKind, member: Member, topics: Iterable[str], place: Place) -> Fact:
    of_topics = named(kind, sorted(topics))
    return about(kind, member, names=of_topics.names, number=of_topics.number, place=place)


@CHANGE_RULES.row(Cause.BROKER_UPGRADE, CONSUMER, explains=(Cause.TOPIC_METADATA_CHANGE,), is_quiet=True)
def broker_upgrade(situation: Situation) -> Explanation | None:
    """A broker that writes a hash of topic metadata took over from a broker that wrote the metadata itself.

    Footprint: one operation drops the topic metadata of brokers before 4.1, and writes the metadata hash for the first
        time. No member joined, was removed or changed its subscription.
    Confidence: likely.
    Look-alikes: TOPIC_METADATA_CHANGE at the same moment.
    """
    old, new = _hashes(situation)
    dropped = [event for event in situation.of_kind(EventKind.TOPIC_METADATA_CHANGED) if _dropped(event.changes)]
    if old != 0 or not new or not dropped:
        return None
    fact = Fact(FactKind.METADATA_HASHED, place=situation.place(dropped[0].offset))
    return Explanation(LIKELY, [(fact,)], (Cause.TOPIC_METADATA_CHANGE,))


def _dropped(changes: Mapping[str, list[object]]) -> bool:
    return "topics" in changes and changes["topics"][0] is not None and changes["topics"][1] is None


def _hashes(situation: Situation) -> tuple[int | None, int | None]:
    old, new = situation.opening.changes.get("metadata_hash") or (None, None)
    return old, new


@CHANGE_RULES.row(
    Cause.TOPIC_METADATA_CHANGE,
    MODERN,
    explains=(Cause.TOPOLOGY_CHANGE, Cause.SHARE_PARTITIONS_READY, Cause.MEMBER_METADATA_CHANGE),
    is_quiet=True,
)
def topic_metadata_change(situation: Situation) -> Explanation | None:
    """The topics that the group reads changed.

    Footprint: the metadata hash (up to 4.0: the topic metadata) changed, or a regex was resolved to other topics. No
        member joined, was removed or changed its subscription.
    Confidence: certain.
    Look-alikes: a change of the racks of replicas changes the hash too.
    """
    old, new = _hashes(situation)
    evidence: list[Sentence] = []
    if old is not None and old != new:
        evidence.append((Fact(FactKind.METADATA_HASH_CHANGED, place=situation.place(), old=str(old), new=str(new)),))
    evidence += [
        _of_regex(event.changes, situation.place(event.offset)) for event in situation.resolved if _moved(event.changes)
    ]
    evidence += [
        (Fact(FactKind.TOPIC_METADATA_CHANGED, place=situation.place(event.offset)),)
        for event in situation.of_kind(EventKind.TOPIC_METADATA_CHANGED)
        if "topics" in event.changes and event.changes["topics"][1] is not None
    ]
    if not evidence:
        return None
    changes = situation.changes_since(situation.subscribed)
    evidence += [_change(situation, topic, change) for topic, change in changes]
    return Explanation(CERTAIN, evidence, topics=[topic for topic, _ in changes])


def _moved(changes: Mapping[str, list[list[str] | None]]) -> bool:
    old, new = changes["topics"]
    return set(old or ()) != set(new or ())


def _of_regex(changes: Mapping[str, Any], place: Place) -> Sentence:
    regex, is_first = changes["regex"], changes["topics"][0] is None
    old, new = (set(topics or ()) for topics in changes["topics"])
    if is_first:
        return (named(FactKind.REGEX_RESOLVED, sorted(new), new=regex, place=place),)
    of_kinds = ((FactKind.REGEX_MATCHES, new - old), (FactKind.REGEX_MATCHES_NO_LONGER, old - new))
    return tuple(named(kind, sorted(topics), new=regex, place=place) for kind, topics in of_kinds if topics)


@CHANGE_RULES.row(Cause.TOPIC_METADATA_CHANGE, CLASSIC, explains=_NOTHING_VISIBLE, is_quiet=True)
def coverage_change(situation: Situation) -> Explanation | None:
    """The leader knows of other partitions than in the previous generation.

    Footprint: the members and their topics are the same. Partitions are assigned that were not assigned before, or a
        topic is no longer assigned at all.
    Confidence: certain if the cluster metadata shows the change; else likely.
    Look-alikes: an assignor that had left partitions out.
    """
    if not situation.covered_before or not situation.opening.members:
        return None
    grown, lost = grown_topics(situation), lost_topics(situation)
    if not grown and not lost:
        return None
    counts = situation.history.partition_counts
    evidence: list[Sentence] = [
        (named(FactKind.ASSIGNED_FIRST, [_range(topic, counts.get(topic, 0), count)], place=situation.place()),)
        for topic, count in grown.items()
    ]
    evidence += [(named(FactKind.NO_LONGER_ASSIGNED, [topic], place=situation.place()),) for topic in lost]
    shown = [change for topic in grown if (change := _that_made(situation, topic, grown[topic])) is not None]
    shown += situation.changes_since(set(lost))
    evidence += [_change(situation, topic, change) for topic, change in shown]
    return Explanation(
        CERTAIN if shown else LIKELY,
        evidence,
        () if shown else (Cause.LEADER_REJOIN,),
        topics=[topic for topic, _ in shown],
    )


def grown_topics(situation: Situation) -> dict[str, int]:
    """Return the topics that grew, each with its number of partitions.

    A topic grew if a classic generation assigns a partition with a higher number than any known before. The number of
    partitions follows from the highest assigned partition, so the topic may have more.
    """
    counts = situation.history.partition_counts
    numbers = {topic: max(partitions) + 1 for topic, partitions in situation.covered_after.items()}
    return {topic: number for topic, number in numbers.items() if number > counts.get(topic, 0)}


def lost_topics(situation: Situation) -> list[str]:
    """Return topics that a classic generation no longer assigns.

    Return an empty list between the two steps of a cooperative rebalance.
    """
    after = situation.covered_after
    return [topic for topic in situation.covered_before if topic not in after and not revoked_before(situation)]


def _range(topic: str, first: int, end: int) -> str:
    """Return partitions of a topic as text, from ``first`` to ``end`` (not included)."""
    return f"{topic}:{partition_range(first, end - 1)}"


def _that_made(situation: Situation, topic: str, count: int) -> tuple[str, DatedTopicChange] | None:
    """Return the last change that gave a topic ``count`` partitions, together with the topic's name.

    Leave out changes after the rebalance began. Return None if no such change is on record.
    """
    made = [
        change
        for change in situation.topic_changes.get(topic, ())
        if change.partition_count == count and change.at_ms <= time_order(situation.started_ms)
    ]
    return (topic, made[-1]) if made else None


def _revoked(members: Iterable[Member], covered: Mapping[str, set[int]]) -> dict[str, set[int]]:
    """Return partitions that members owned when they joined a generation, and that the generation assigns to nobody.

    Args:
        members: members of the generation.
        covered: the partitions that the generation assigns.
    """
    by_topic: dict[str, set[int]] = {}
    for member in members:
        blob = (
            member.subscription.protocols[0].fields if member.subscription and member.subscription.protocols else None
        )
        owned = {entry["topic"]: tuple(entry["partitions"]) for entry in (blob or {}).get("ownedPartitions") or ()}
        kept = (member.current.assigned if member.current is not None else None) or {}
        for topic, partitions in without(owned, kept).items():
            by_topic.setdefault(topic, set()).update(partitions)
    return {topic: left for topic, revoked in by_topic.items() if (left := revoked - covered.get(topic, set()))}


@CHANGE_RULES.row(Cause.SHARE_PARTITIONS_READY, frozenset({GroupType.SHARE}), is_quiet=True)
def share_partitions_ready(situation: Situation) -> Explanation | None:
    """Partitions were initialised, so that they can be assigned.

    Footprint: a new epoch with the metadata hash and members of the previous epoch, after partitions were initialised.
    Confidence: certain.
    """
    ready = situation.of_kind(EventKind.SHARE_STATE_CHANGED)
    place = (ready[0].partition, ready[0].offset) if ready else situation.history.ready_at
    if place is None:
        return None
    partition, offset = place
    fact = Fact(FactKind.PARTITIONS_READY, place=situation.place(offset, partition))
    return Explanation(CERTAIN, [(fact,)])


@CHANGE_RULES.row(Cause.TOPOLOGY_CHANGE, frozenset({GroupType.STREAMS}), is_quiet=True)
def topology_change(situation: Situation) -> Explanation | None:
    """The topology of a streams group was validated, or the group's assignment settings changed.

    The number of standby replicas is such a setting.

    Footprint: a new epoch with the metadata hash and members of the previous epoch.
    Confidence: likely.
    """
    if situation.of_kind(EventKind.METADATA_CHANGED):
        return None
    fact = Fact(FactKind.ONLY_EPOCH_CHANGED, place=situation.place())
    return Explanation(LIKELY, [(fact,)])


@CHANGE_RULES.row(Cause.MEMBER_METADATA_CHANGE, frozenset({GroupType.STREAMS}))
def member_metadata_change(situation: Situation) -> Explanation | None:
    """A member of a streams group changed something other than its topics.

    Footprint: the record of a member that stayed differs in something other than its topics.
    Confidence: certain.
    """
    changed = [event for event in situation.of_kind(EventKind.METADATA_CHANGED) if event.member is not None]
    if not changed:
        return None
    return Explanation(
        CERTAIN,
        [
            (about(FactKind.MEMBER_CHANGED, event.member, place=situation.place(event.offset)),)
            for event in changed
            if event.member
        ],
        triggers=[event.member_id for event in changed if event.member_id],
    )


@CHANGE_RULES.row(Cause.COOPERATIVE_FOLLOW_UP, CLASSIC, explains=(Cause.LEADER_REJOIN,))
def cooperative_follow_up(situation: Situation) -> Explanation | None:
    """The second step of a cooperative rebalance.

    Footprint: the previous generation took partitions from members and assigned them to nobody; now these partitions
        are assigned.
    Confidence: certain.
    """
    after = situation.covered_after
    handed = {topic: partitions & after.get(topic, set()) for topic, partitions in revoked_before(situation).items()}
    if not any(handed.values()):
        return None
    evidence = [(named(FactKind.HANDED_ON, _shown(handed), place=situation.place()),)]
    further = _revoked(situation.opening.members, after)
    if further:
        evidence.append((named(FactKind.TO_BE_HANDED_ON, _shown(further), place=situation.place()),))
    return Explanation(CERTAIN, evidence)


@lru_cache(maxsize=1)
def revoked_before(situation: Situation) -> Mapping[str, set[int]]:
    """Return partitions that the previous classic generation took from members, and assigned to nobody.

    The result is cached.
    """
    return _revoked(situation.before.values(), situation.covered_before)


def is_follow_up_due(situation: Situation) -> bool:
    """Return whether the previous classic generation took partitions from a member. Such a member must join again.

    It does not matter whether the generation assigned these partitions to another member or to nobody.
    """
    return bool(_revoked(situation.before.values(), {}))


def _shown(partitions: Mapping[str, set[int]]) -> list[str]:
    return [
        f"{topic}:{numbers}"
        for topic, revoked in sorted(partitions.items())
        if revoked
        for numbers in partition_ranges(sorted(revoked)).split(",")
    ]


@CHANGE_RULES.row(Cause.LEAVE_OR_TIMEOUT, CLASSIC, explains=(Cause.LEADER_REJOIN,), is_quiet=True)
def passed_through(situation: Situation) -> Explanation | None:
    """A member may have joined and left in a generation that has no record.

    Footprint: nothing on record changed, but the generation grew by more than one. The generations in between have no
        record, and a member may have joined and left in them.
    Confidence: possible.
    Look-alikes: MEMBER_LEAVE, SESSION_TIMEOUT, MEMBER_JOIN, LEADER_REJOIN.
    """
    attempts = situation.opening.changes.get("attempts") or 1
    if attempts < 2 or not situation.opening.members:
        return None
    passed = Fact(FactKind.GENERATIONS_PASSED, number=attempts)
    alternatives = (Cause.MEMBER_LEAVE, Cause.SESSION_TIMEOUT, Cause.MEMBER_JOIN, Cause.LEADER_REJOIN)
    return Explanation(POSSIBLE, [(*_unchanged(situation), passed)], alternatives)


def _unchanged(situation: Situation) -> Sentence:
    """Return facts about what is the same as in the previous generation, and about what differs."""
    members = (*situation.before.values(), *situation.opening.members)
    are_readable = all(_is_readable(member.subscription) for member in members)
    same = Fact(FactKind.MEMBERS_UNCHANGED if are_readable else FactKind.SAME_MEMBERS, place=situation.place())
    other = [about(FactKind.OTHER_METADATA, member) for member in members_with_other_metadata(situation)]
    before, after = _owners(situation.before.values()), _owners(situation.opening.members)
    if before is None or after is None:
        return same, Fact(FactKind.UNREADABLE_ASSIGNMENT), *other
    changed = [key for key in (*before, *(after.keys() - before)) if before.get(key) != after.get(key)]
    if changed:
        return same, Fact(FactKind.REASSIGNED, new=ranges_by_topic(changed)), *other
    return same._replace(kind=FactKind.UNCHANGED) if are_readable else same, *other


def members_with_other_metadata(situation: Situation) -> list[Member]:
    """Return members of a classic group whose metadata can't be read, and differs from the previous generation's."""
    stayed = ((situation.before.get(member.member_id), member) for member in situation.opening.members)
    return [
        after
        for before, after in stayed
        if before is not None and not _is_readable(after.subscription) and _metadata(before) != _metadata(after)
    ]


def _metadata(member: Member) -> list[str]:
    return [protocol.metadata for protocol in member.subscription_or_empty.protocols]


def _owners(members: Iterable[Member]) -> dict[tuple[str, int], str] | None:
    """Return the owner of each partition in a classic generation.

    Return None if an assignment can't be read.
    """
    owners: dict[tuple[str, int], str] = {}
    for member in members:
        assigned = member.current.assigned if member.current is not None else None
        if assigned is None:
            return None
        owners.update(((topic, number), member.member_id) for topic, numbers in assigned.items() for number in numbers)
    return owners


@CHANGE_RULES.row(Cause.LEADER_REJOIN, CLASSIC, is_quiet=True)
def leader_rejoin(situation: Situation) -> Explanation | None:
    """The leader asked for a rebalance, although nothing changed.

    If nothing changes in a stable group, only a request of its leader begins a rebalance.

    Footprint: a new generation with the members, topics and protocol of the previous generation.
    Confidence: possible.
    Look-alikes: a rebalance that the client's user enforced, a member that did not sync and came back, a failed write,
        a topic that changed and changed back.
    """
    if not situation.opening.members:
        return None
    alternatives = [Cause.TOPIC_METADATA_CHANGE, Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT]
    if "cooperative" in (situation.opening.changes.get("protocol") or ""):
        alternatives.append(Cause.COOPERATIVE_FOLLOW_UP)
    leader = situation.opening.changes.get("leader")
    return Explanation(POSSIBLE, [_unchanged(situation)], alternatives, (leader,) if leader else ())
