"""The decision whether a rebalance timeout can have removed a member, at the end of a join phase or a sync phase.

The join phase of a classic group ends when every member has joined again, or else after the largest rebalance timeout
of the members (a negative one counts as 0). Dynamic members that have not joined again are removed then; static members
stay until their sessions time out (``GroupMetadataManager.completeClassicGroupJoin``). A join phase that begins while
the group is Empty lasts for the initial delay, and has no earlier members. From Kafka 2.8.1 on, the sync phase has a
timer of the same length, which removes dynamic and static members (``expirePendingSync``). In a consumer group, both
timers of a member on the classic protocol last for its own rebalance timeout.

No record shows that a timer ended. But records show whether there was enough time for the timer to end.
"""

from collections.abc import Sequence
from functools import lru_cache

from coordinator_replay.analysis.reasons.history import Sign
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.engine.model import GroupType, Member
from coordinator_replay.times import elapsed_ms

TIMER_SLACK_MS = 1_000
"""Longest delay with which a timer of the coordinator fires."""

NOTICED_MS = 5_000
"""Longest time that members still commit in a join phase: they learn of the phase from their next heartbeat."""


def could_expire(situation: Situation, member: Member) -> bool:
    """Return whether there was enough time for a rebalance timeout to remove a member."""
    if situation.group_type is GroupType.CLASSIC:
        since = situation.history.synced
        can_be_removed = True
    else:
        since = situation.history.last_seen(member.member_id)
        can_be_removed = member.subscription_or_empty.uses_classic_protocol
    waited_ms = None if since is None else elapsed_ms(since.at_ms, situation.removed_ms)
    if not can_be_removed or waited_ms is None:
        return can_be_removed
    return least_timeout_ms(situation, member) <= waited_ms and not _has_synced(situation, member, waited_ms)


def _has_synced(situation: Situation, member: Member, waited_ms: int) -> bool:
    """Return whether a static member was removed so late that the timer of the sync phase can't be the cause.

    The timer can be the cause of a removal only up to two rebalance timeouts after the join phase. Return False for a
    dynamic member, or if the timeouts are not known.

    Args:
        situation: the rebalance.
        member: the removed member.
        waited_ms: time from the end of the previous join phase to the removal.
    """
    attempts = situation.opening.changes.get("attempts") or 1
    if situation.group_type is not GroupType.CLASSIC or member.instance_id is None or attempts > 1:
        return False
    longest_ms = longest_join_ms(situation)
    return longest_ms is not None and waited_ms > 2 * longest_ms + TIMER_SLACK_MS


def least_timeout_ms(situation: Situation, member: Member) -> int:
    """Return the lowest possible duration of the timer that may have removed a member.

    In a classic group, the timer lasts for the largest timeout of all members. The removed member and the members that
    stayed were certainly among them.
    """
    own_ms = member.subscription_or_empty.least_rebalance_ms
    return max(own_ms, _least_of_stayers(situation)) if situation.group_type is GroupType.CLASSIC else own_ms


@lru_cache(maxsize=1)
def _least_of_stayers(situation: Situation) -> int:
    """Return the largest rebalance timeout of the members that stayed in the group; 0 if none stayed.

    If a member's timeout changed, its lower value counts.

    The result is cached.
    """
    timeouts = [0]
    for after in situation.opening.members:
        before = situation.before.get(after.member_id)
        if before is not None:
            both = (before.subscription_or_empty, after.subscription_or_empty)
            timeouts.append(min(subscription.least_rebalance_ms for subscription in both))
    return max(timeouts)


@lru_cache(maxsize=1)
def longest_timeout_ms(situation: Situation) -> int | None:
    """Return the largest rebalance timeout of a classic group's members.

    Return None if the timeout of a member is not on record.
    """
    subscriptions = [member.subscription_or_empty for member in _members(situation)]
    if any(subscription.rebalance_timeout_ms is None for subscription in subscriptions):
        return None
    return max((subscription.loaded_rebalance_ms for subscription in subscriptions), default=0)


def longest_join_ms(situation: Situation) -> int | None:
    """Return the longest possible duration of the join phase before a classic generation.

    This is the largest rebalance timeout of the members. Return None in three cases:

    - The group was Empty. Then the phase lasted for the initial delay, which is not on record.
    - The rebalance timeout of a member is not on record.
    - The group had static members, and no dynamic member is in the new generation. Then perhaps nobody had joined when
      the timer ended, and the phase went on.
    """
    before = situation.before
    if not before:
        return None
    has_static = any(member.instance_id is not None for member in before.values())
    is_one_round = any(
        member.instance_id is None and member.member_id in before for member in situation.opening.members
    )
    return longest_timeout_ms(situation) if is_one_round or not has_static else None


@lru_cache(maxsize=1)
def has_no_time_to_join(situation: Situation) -> bool:
    """Return whether each member's rebalance timeout counts as 0, so that the coordinator waits for no member."""
    subscriptions = [member.subscription_or_empty for member in _members(situation)]
    return all(
        subscription.rebalance_timeout_ms is not None and subscription.least_rebalance_ms == 0
        for subscription in subscriptions
    )


def did_others_wait(situation: Situation, others: Sign | None) -> bool | None:
    """Return whether the other members stopped committing for as long as the timer of the join phase runs.

    Members that have joined wait and commit nothing. Return None if the commits don't show whether the others waited.

    Args:
        situation: the rebalance.
        others: the last commit of the other members' partitions.
    """
    timeout_ms = longest_timeout_ms(situation)
    silent_ms = None if others is None else elapsed_ms(others.at_ms, situation.removed_ms)
    if timeout_ms is None or silent_ms is None or silent_ms > timeout_ms + NOTICED_MS:
        return None
    return silent_ms >= max(timeout_ms - NOTICED_MS, timeout_ms // 2)


def rebalance_timeout_ms(situation: Situation, member: Member) -> int | None:
    """Return the rebalance timeout that applies to a member.

    In a classic group, this is the largest rebalance timeout of all members. The timeout is returned as it is on
    record, so it may be -1. Return None if it is not on record.
    """
    is_classic = situation.group_type is GroupType.CLASSIC
    return _largest_on_record(situation) if is_classic else member.subscription_or_empty.rebalance_timeout_ms


@lru_cache(maxsize=1)
def _largest_on_record(situation: Situation) -> int | None:
    """Return the largest rebalance timeout of all members as it is on record, so it may be -1.

    Return None if the timeout of a member is not on record.
    """
    timeouts = [member.subscription_or_empty.rebalance_timeout_ms for member in _members(situation)]
    known = [timeout for timeout in timeouts if timeout is not None]
    return max(known) if known and len(known) == len(timeouts) else None


def _members(situation: Situation) -> Sequence[Member]:
    """Return the members on record before and after a classic rebalance."""
    return [*situation.before.values(), *situation.opening.members]
