"""Causes that may have begun a rebalance without a record that shows it.

The records of a classic group show its members at the end of a join phase. They do not show what began the phase. A
leader may have joined again. A member may have joined and left within the phase. A client may have got a member id, and
have left before it joined (KIP-394): its LeaveGroup begins a phase, too. A timeout may have removed a static member
that came back within the phase.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from coordinator_replay.analysis.reasons.change_rules import (
    grown_topics,
    is_follow_up_due,
    lost_topics,
    members_with_other_metadata,
    revoked_before,
)
from coordinator_replay.analysis.reasons.departures import timeouts_of
from coordinator_replay.analysis.reasons.history import Sign, topics_of
from coordinator_replay.analysis.reasons.join_phase import longest_timeout_ms
from coordinator_replay.analysis.reasons.member_rules import FIRST_EPOCH
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupType, Member
from coordinator_replay.times import elapsed_ms


def unseen_beginnings(situation: Situation, cause: Cause) -> tuple[Cause, ...]:
    """Return other causes that may have begun a rebalance but left no record.

    Args:
        situation: the rebalance.
        cause: the cause that records show.
    """
    if situation.group_type is not GroupType.CLASSIC:
        return tuple(_before_epoch(situation))
    if situation.before:
        return tuple(dict.fromkeys(_in_join_phase(situation, cause)))
    # If members join an empty group, it makes no difference which joined first.
    return () if cause is Cause.MEMBER_JOIN else (Cause.MEMBER_JOIN,)


def _before_epoch(situation: Situation) -> Iterator[Cause]:
    """Yield causes that may have begun a new epoch and left no record.

    - GROUP_CONVERSION: the group was converted at this time, and the conversion may have written two epochs. Then the
      second epoch comes from the conversion, too.
    - GROUP_CREATED: the epoch is one with which a new group begins. The epochs of an existing group only rise. So the
      group was deleted and created again, and no record shows this.
    """
    history = situation.history
    if history.conversion is None and situation.at_ms is not None and history.converted_ms == situation.at_ms:
        yield Cause.GROUP_CONVERSION
    elif not situation.before and situation.opening.epoch <= FIRST_EPOCH:
        yield Cause.GROUP_CREATED


def _in_join_phase(situation: Situation, cause: Cause) -> Iterator[Cause]:
    """Yield causes that may have begun the join phase of a group with members, and left no record.

    Args:
        situation: the rebalance.
        cause: the cause that records show.
    """
    yield Cause.LEADER_REJOIN
    yield Cause.MEMBER_JOIN
    if cause is Cause.MEMBER_JOIN and _has_dynamic_member(situation):
        yield Cause.MEMBER_LEAVE
    if members_with_other_metadata(situation):
        yield Cause.SUBSCRIPTION_CHANGE
    if is_follow_up_due(situation):
        yield Cause.COOPERATIVE_FOLLOW_UP
    if _have_topics_changed(situation):
        yield Cause.TOPIC_METADATA_CHANGE
    for event in situation.of_kind(EventKind.MEMBER_REPLACED):
        if event.before is not None:
            yield from timeouts_of(situation, event.before)
    if _may_await_sync(situation):
        yield Cause.REBALANCE_TIMEOUT


def _may_await_sync(situation: Situation) -> bool:
    """Return whether a static member came back while the coordinator may have waited for the SyncGroup of its old id.

    The coordinator waits for the largest rebalance timeout of the members, counted from the end of the join phase. Then
    it removes the old id, which begins a rebalance (GroupMetadataManager.expirePendingSync).
    """
    history, timeout_ms = situation.history, longest_timeout_ms(situation)
    synced = history.synced
    if synced is None:
        return False
    static = [member.member_id for member in situation.before.values() if member.instance_id is not None]
    back = [Sign(*history.seen[member_id]) for member_id in static if member_id in history.seen]
    waits = [elapsed_ms(synced.at_ms, sign.at_ms) for sign in back if sign.offset > synced.offset]
    return any(wait is None or timeout_ms is None or wait <= timeout_ms for wait in waits)


def _have_topics_changed(situation: Situation) -> bool:
    """Return whether topics that the group read before and after the rebalance have changed.

    The leader may have seen such a change, and joined again.
    """
    before, after = (_topics_of_all(members) for members in (situation.before.values(), situation.opening.members))
    read = before & after
    if not read:
        return False
    grew = set[str]() if revoked_before(situation) else _grown_since(situation.covered_before, situation.covered_after)
    moved = {*grown_topics(situation), *lost_topics(situation), *grew}
    return not read.isdisjoint(moved) or bool(situation.changes_since(read))


def _grown_since(before: Mapping[str, Collection[int]], after: Mapping[str, Collection[int]]) -> set[str]:
    """Return topics whose highest partition number is higher in a generation than in the previous generation.

    Such a topic grew. Or it was deleted and created again, if even earlier generations assigned as many partitions.

    Args:
        before: partitions that the previous generation assigned, by topic.
        after: partitions that the generation assigns, by topic.
    """
    highest = {topic: max(partitions, default=-1) for topic, partitions in before.items()}
    return {topic for topic, partitions in after.items() if max(partitions, default=-1) > highest.get(topic, -1)}


def _has_dynamic_member(situation: Situation) -> bool:
    """Return whether the group has clients that get a member id before they join; static members do not."""
    members = (*situation.before.values(), *situation.opening.members)
    return any(member.instance_id is None for member in members)


def _topics_of_all(members: Iterable[Member]) -> set[str]:
    return {topic for member in members for topic in topics_of(member)}
