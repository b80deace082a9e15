"""Timers of members of consumer groups, and the removal of members by a timer or a request.

Mirrors ``GroupMetadataManager.consumerGroupFenceMembers``, the ``schedule...Timeout`` methods, ``onLoaded`` and
``onMetadataUpdate``. A timer that fires looks the group up again, because the group may be deleted or have another
type.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import Member, MemberState
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.consumer import conversion
from coordinator_replay.simulation.coordinator.consumer.members import (
    GroupUpdate,
    current_of,
    dynamic_member,
    existing_group,
    removal_records,
)
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.metadata_hash import group_hash
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome
from coordinator_replay.simulation.coordinator.shard import Shard
from coordinator_replay.simulation.coordinator.topics import TopicChange

SESSION, REBALANCE = "session-timeout", "rebalance-timeout"
JOIN, SYNC = "join", "sync"
"""Timers of a classic member. JOIN runs until the member joins again. SYNC runs from JoinGroup to SyncGroup."""

MEMBER_TIMERS = (SESSION, REBALANCE, JOIN, SYNC)
"""Timers of a member of a consumer group."""


def start_session(shard: Shard, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
    """Start a member's session timer now.

    Args:
        shard: the coordinator's state.
        group_id: the member's group.
        member_id: the member to remove when the session ends.
        timeout_ms: length of the session; None for the group's configured session timeout.
    """
    if timeout_ms is None:
        timeout_ms = shard.config.group_number(group_id, "consumer.session.timeout.ms")
    start(shard, SESSION, group_id, member_id, timeout_ms, "the member session expired")


def start(
    shard: Shard, timer: str, group_id: str, member_id: str, timeout_ms: int, why: str, *, epoch: int | None = None
) -> None:
    """Start a timer that removes a member when it fires.

    Args:
        shard: the coordinator's state.
        timer: name of the timer.
        group_id: the member's group.
        member_id: the member that the timer is for.
        timeout_ms: the time until the timer fires.
        why: why the member is removed, as brokers log it.
        epoch: the member epoch at which the timer removes the member. If the member has another epoch by then, the
            timer does nothing. None for any epoch.
    """
    shard.schedule(
        (timer, group_id, member_id),
        timeout_ms,
        lambda: fence_if_there(shard, group_id, member_id, why, epoch),
        is_retried=True,
    )


def start_rebalance(shard: Shard, group_id: str, member: Member) -> None:
    """Start the rebalance timer of a member that must give up partitions."""
    timeout_ms = (member.subscription.rebalance_timeout_ms or 0) if member.subscription is not None else 0
    epoch = current_of(member).epoch
    why = f"it failed to transition from epoch {epoch} within {timeout_ms}ms"
    start(shard, REBALANCE, group_id, member.member_id, timeout_ms, why, epoch=epoch)


def follow_reconciliation(shard: Shard, group_id: str, member: Member) -> None:
    """Start or stop the rebalance timer of a KIP-848 member whose assignment has changed.

    The timer runs while the member must revoke partitions. If the member uses the classic protocol, do nothing.
    """
    if member.subscription_or_empty.uses_classic_protocol:
        return
    if current_of(member).state is MemberState.UNREVOKED_PARTITIONS:
        start_rebalance(shard, group_id, member)
    else:
        shard.timers.cancel((REBALANCE, group_id, member.member_id))


def fence_if_there(shard: Shard, group_id: str, member_id: str, why: str, epoch: int | None = None) -> Outcome:
    """Remove a member; do nothing if the member was removed already, or has another epoch than ``epoch``."""
    try:
        update = existing_group(shard, group_id)
        member = dynamic_member(update, member_id, is_joining=False)
    except RequestError:
        return NOTHING_TO_DO
    if epoch is not None and current_of(member).epoch != epoch:
        return NOTHING_TO_DO
    return fence(update, [member], None, f"Member {{}} fenced from the group because {why}.")


def fence(update: GroupUpdate, members: Sequence[Member], response: Mapping[str, Any] | None, reason: str) -> Outcome:
    """Remove members and raise the group epoch.

    If the group has to become a classic group when these members are gone, convert it instead.

    Args:
        update: the group; the function adds records to ``update.records``.
        members: members to remove.
        response: response to the request; None if there is no request.
        reason: why the members are removed, as brokers log it, with braces in place of the member's id.
    """
    if not members:
        return Outcome(response=response)
    shard, group_id = update.shard, update.group_id
    for member in members:
        text = reason.replace("{}", member.member_id)
        shard.note(text)
        shard.note_removal(group_id, member.member_id, text, is_written=True)
    leaving = {member.member_id for member in members}
    if conversion.downgrade_is_due(update, leaving):
        return conversion.downgrade_after_leaving(update, leaving, response)
    for member in members:
        update.records += removal_records(group_id, member.member_id)
    metadata_hash = group_hash(_topics_left(update, members), shard.topics)
    update.records.append(record_helpers.group_epoch(group_id, update.group.epoch + 1, metadata_hash))
    for member in members:
        cancel_timers(shard, group_id, member.member_id)
    return Outcome(update.records, response)


def _topics_left(update: GroupUpdate, leaving: Sequence[Member]) -> set[str]:
    """Return the topics to which members still subscribe after some members have left.

    Also add to the group's records a tombstone for each regex that only leaving members use.
    """
    left = update.state.subscriptions
    for member in leaving:
        left = left.replaced(member.subscription, None)
    used = left.expressions
    for expression in dict.fromkeys(member.subscription_or_empty.regex for member in leaving):
        if expression is not None and expression not in used:
            update.records.append(
                record_helpers.tombstone(
                    "ConsumerGroupRegularExpression", groupId=update.group_id, regularExpression=expression
                )
            )
    return left.topics(update.group.regexes)


def cancel_timers(shard: Shard, group_id: str, member_id: str) -> None:
    """Stop all timers of a member."""
    for name in MEMBER_TIMERS:
        shard.timers.cancel((name, group_id, member_id))


def load(shard: Shard) -> None:
    """Make groups look up the topics of their regular expressions again, after the log partition was loaded."""
    shard.topics.version_with_new = shard.topics.version


def load_group(shard: Shard, group_id: str) -> None:
    """Start the timers of a consumer group after its log partition was loaded.

    Session and rebalance timeouts count from now on.
    """
    group = shard.group(group_id)
    if not isinstance(group, ConsumerGroup):
        return
    for member_id in shard.consumer_states[group_id].members:
        start_session(shard, group_id, member_id)
        member = group.members[member_id]
        if current_of(member).state is MemberState.UNREVOKED_PARTITIONS:
            start_rebalance(shard, group_id, member)


def topics_changed(shard: Shard, topics: TopicChange) -> None:
    """Let each group that subscribes to a changed topic compute its metadata hash again.

    The group does this at its next heartbeat.
    """
    for group_id, state in shard.consumer_states.items():
        group = shard.group(group_id)
        if isinstance(group, ConsumerGroup) and topics.names & state.subscriptions.topics(group.regexes):
            state.request_refresh()
