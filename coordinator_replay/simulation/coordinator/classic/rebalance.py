"""The rebalance of a classic group: join phase, sync phase, and their timers.

Mirrors ``GroupMetadataManager.prepareRebalance``, ``completeClassicGroupJoin`` and the methods that they call. Every
function that can end a join phase returns the records to write. A record is written only if the group becomes empty,
or when the leader has sent an assignment.

Timers: ``join`` ends the join phase, ``sync`` ends the wait for SyncGroup, and ``heartbeat`` removes a member. Each
timer looks the group up again when it fires, and does nothing if the group no longer exists.
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_replay.engine.model import GroupState
from coordinator_replay.simulation.coordinator.errors import CODES
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome, Reply
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import Shard
from coordinator_replay.simulation.coordinator.timers import Key

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""Longest wait of a new member's first JoinGroup (``group.new.member.join.timeout``, not configurable)."""

NULL_PROTOCOL_SINCE = 7
"""Since this version, the protocol name in JoinGroup's response may be null."""

INITIAL_DELAY = "group.initial.rebalance.delay.ms"

Records = tuple[NewRecord, ...]
NO_RECORDS: Records = ()


def join_body(live: LiveClassicGroup, member_id: str, **fields: Any) -> dict[str, Any]:
    """Return a JoinGroup response with the present generation."""
    return {
        "memberId": member_id,
        "generationId": live.generation,
        "protocolType": live.protocol_type,
        "protocolName": live.protocol,
        "leader": live.leader or "",
        **fields,
    }


def refuse_join(reply: Reply, error: str, member_id: str, *, protocol_is_null: bool = False) -> None:
    """Answer a JoinGroup request with an error.

    Args:
        reply: the receiver of the response.
        error: Kafka's name of the error.
        member_id: the member id in the response.
        protocol_is_null: whether the protocol name is null instead of empty, in versions that allow null.
    """
    body: dict[str, Any] = {"errorCode": CODES[error], "memberId": member_id}
    if protocol_is_null and (reply.request.version or 0) >= NULL_PROTOCOL_SINCE:
        body["protocolName"] = None
    reply.send(body)


# -- timers ----------------------------------------------------------------------------------------------------------


def heartbeat_key(group_id: str, member_id: str) -> Key:
    """Return the key of the timer that removes a silent member."""
    return ("heartbeat", group_id, member_id)


def schedule_heartbeat(shard: Shard, live: LiveClassicGroup, member_id: str, timeout_ms: int | None = None) -> None:
    """Restart a member's heartbeat timer.

    Args:
        shard: the coordinator's state.
        live: the member's group.
        member_id: the member, or the member id that was given to a new client that has not joined yet.
        timeout_ms: the time until the timer fires; None for the member's session timeout.
    """
    group_id = live.group_id
    if timeout_ms is None:
        subscription = live.members[member_id].subscription
        timeout_ms = subscription.session_timeout_ms or 0 if subscription is not None else 0
    shard.schedule(heartbeat_key(group_id, member_id), timeout_ms, lambda: _expire_member(shard, group_id, member_id))


def _schedule(
    shard: Shard, live: LiveClassicGroup, phase: str, delay_ms: int, operation: Callable[[LiveClassicGroup], Records]
) -> None:
    """Start the timer of a classic group's join phase or sync phase.

    When the timer fires, run the operation on the group. Do nothing if the group is no longer a classic group.
    """
    group_id = live.group_id

    def run() -> Outcome:
        group = shard.group(group_id)
        return Outcome(operation(group)) if isinstance(group, LiveClassicGroup) else NOTHING_TO_DO

    shard.schedule((phase, group_id), delay_ms, run)


def _schedule_initial_join_end(shard: Shard, live: LiveClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    _schedule(shard, live, "join", delay_ms, lambda group: _end_initial_join(shard, group, delay_ms, remaining_ms))


# -- the join phase --------------------------------------------------------------------------------------------------


def rebalance_or_complete_join(shard: Shard, live: LiveClassicGroup, reason: str) -> Records:
    """Begin a rebalance, unless the group is in a join phase already.

    In a join phase, end the phase if all members have joined.
    """
    return prepare_rebalance(shard, live, reason) if live.can_rebalance() else maybe_complete_join(shard, live)


def prepare_rebalance(shard: Shard, live: LiveClassicGroup, reason: str) -> Records:
    """Begin a rebalance, in which all members must join again.

    If the group was Empty, only a timer ends the join phase. The timer runs for ``group.initial.rebalance.delay.ms``,
    even if this is 0. Otherwise the join phase ends when all members have joined. It lasts no longer than the largest
    rebalance timeout of the members.

    Args:
        shard: the coordinator's state.
        live: the group to rebalance.
        reason: why the group rebalances, as brokers log it.
    """
    shard.note_rebalance(live, reason)
    if live.state == GroupState.COMPLETING_REBALANCE:
        live.set_assignments({})
        answer_syncs(shard, live, "REBALANCE_IN_PROGRESS")
    live.pending_syncs.clear()
    shard.timers.cancel(("sync", live.group_id))
    is_first = live.state == GroupState.EMPTY
    if is_first:
        delay_ms = shard.config.number(INITIAL_DELAY)
        _schedule_initial_join_end(shard, live, delay_ms, max(live.rebalance_timeout_ms - delay_ms, 0))
    live.transition_to(GroupState.PREPARING_REBALANCE, shard.now_ms)
    if is_first:
        return NO_RECORDS
    if live.all_have_joined:
        return complete_join(shard, live)
    _schedule(shard, live, "join", live.rebalance_timeout_ms, lambda group: complete_join(shard, group))
    return NO_RECORDS


def maybe_complete_join(shard: Shard, live: LiveClassicGroup) -> Records:
    """End the join phase if all members have joined.

    If the group was Empty before the rebalance, only the timer ends the join phase.
    """
    if (
        live.state != GroupState.PREPARING_REBALANCE
        or live.previous_state == GroupState.EMPTY
        or not live.all_have_joined
    ):
        return NO_RECORDS
    return complete_join(shard, live)


def _end_initial_join(shard: Shard, live: LiveClassicGroup, delay_ms: int, remaining_ms: int) -> Records:
    """End the join phase that began in an Empty group, or extend it by another delay.

    The phase is extended if a member joined during the last delay and the rebalance timeout is not over.

    Args:
        shard: the coordinator's state.
        live: the group.
        delay_ms: the delay that has just ended.
        remaining_ms: time by which the phase may still be extended.
    """
    if not live.has_new_member or remaining_ms == 0:
        return complete_join(shard, live)
    live.has_new_member = False
    next_delay_ms = min(shard.config.number(INITIAL_DELAY), remaining_ms)
    _schedule_initial_join_end(shard, live, next_delay_ms, max(remaining_ms - delay_ms, 0))
    return NO_RECORDS


def complete_join(shard: Shard, live: LiveClassicGroup) -> Records:
    """End the join phase.

    Remove dynamic members that did not join, and answer the waiting JoinGroup requests with the new generation. If only
    static members are left and none of them has joined, restart the timer of the join phase instead.
    """
    shard.timers.cancel(("join", live.group_id))
    late = [
        member_id
        for member_id, member in live.members.items()
        if member_id not in live.waiting_joins and member.instance_id is None
    ]
    for member_id in late:
        shard.note_removal(live.group_id, member_id, "removed dynamic members who haven't joined")
        live.remove(member_id)
        shard.timers.cancel(heartbeat_key(live.group_id, member_id))
    if not live.elect_leader(live.waiting_joins.keys()) and live.members:
        _schedule(shard, live, "join", live.rebalance_timeout_ms, lambda group: complete_join(shard, group))
        return NO_RECORDS
    live.next_generation(shard.now_ms)
    if live.state == GroupState.EMPTY:
        return (live.record(),)
    for member_id in list(live.members):
        members = live.listed_members() if member_id == live.leader else []
        reply = live.waiting_joins.pop(member_id, None)
        if reply is not None:
            reply.send(join_body(live, member_id, members=members))
        schedule_heartbeat(shard, live, member_id)
        live.new_members.discard(member_id)
        live.pending_syncs.add(member_id)
    timeout_ms, generation = live.rebalance_timeout_ms, live.generation
    if shard.config.has_sync_timer:
        _schedule(shard, live, "sync", timeout_ms, lambda group: _expire_pending_syncs(shard, group, generation))
    return NO_RECORDS


# -- the sync phase --------------------------------------------------------------------------------------------------


def answer_syncs(shard: Shard, live: LiveClassicGroup, error: str = "NONE") -> None:
    """Answer every waiting SyncGroup with the member's assignment or an error."""
    for member_id in list(live.members):
        reply = live.waiting_syncs.pop(member_id, None)
        if reply is not None:
            reply.send(sync_body(live, member_id) if error == "NONE" else {"errorCode": CODES[error]})
            schedule_heartbeat(shard, live, member_id)


def sync_body(live: LiveClassicGroup, member_id: str) -> dict[str, Any]:
    """Return a SyncGroup response with a member's assignment."""
    current = live.members[member_id].current
    return {
        "protocolType": live.protocol_type,
        "protocolName": live.protocol,
        "assignment": current.assignment_bytes if current is not None else "",
    }


def take_assignment(shard: Shard, live: LiveClassicGroup, assignments: Mapping[str, str], generation: int) -> None:
    """Make the group Stable after its leader's assignment was written, unless another rebalance has begun since."""
    if live.state == GroupState.COMPLETING_REBALANCE and live.generation == generation:
        live.set_assignments(assignments)
        answer_syncs(shard, live)
        live.transition_to(GroupState.STABLE, shard.now_ms)


def note_sync(shard: Shard, live: LiveClassicGroup, member_id: str) -> None:
    """Remember that a member sent SyncGroup.

    When all members have sent SyncGroup, stop the timer of the sync phase.
    """
    live.pending_syncs.discard(member_id)
    if not live.pending_syncs:
        shard.timers.cancel(("sync", live.group_id))


def _expire_pending_syncs(shard: Shard, live: LiveClassicGroup, generation: int) -> Records:
    is_waiting = live.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    if live.generation != generation or not is_waiting or not live.pending_syncs:
        return NO_RECORDS
    pending = sorted(live.pending_syncs)
    reason = f"Removing [{', '.join(pending)}] on pending sync request expiration"
    for member_id in pending:
        shard.note_removal(live.group_id, member_id, reason)
        live.remove(member_id)
        shard.timers.cancel(heartbeat_key(live.group_id, member_id))
    return prepare_rebalance(shard, live, reason)


# -- members that are removed ----------------------------------------------------------------------------------------


def forget_member(shard: Shard, live: LiveClassicGroup, member_id: str, reason: str) -> None:
    """Remove a member, and answer its waiting JoinGroup with UNKNOWN_MEMBER_ID."""
    shard.note_removal(live.group_id, member_id, reason)
    reply: Reply | None = live.waiting_joins.get(member_id)
    if reply is not None:
        refuse_join(reply, "UNKNOWN_MEMBER_ID", "")
    live.remove(member_id)


def _expire_member(shard: Shard, group_id: str, member_id: str) -> Outcome:
    live = shard.group(group_id)
    if not isinstance(live, LiveClassicGroup):
        return NOTHING_TO_DO
    if member_id in live.pending_members:
        shard.note_removal(group_id, member_id, "removed after session timeout expiration")
        live.remove(member_id)
    elif member_id not in live.members or live.waits(member_id):
        return NOTHING_TO_DO
    else:
        reason = f"removing member {member_id} on heartbeat expiration."
        forget_member(shard, live, member_id, reason)
        if live.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return Outcome(rebalance_or_complete_join(shard, live, reason))
    if live.state == GroupState.PREPARING_REBALANCE and live.all_have_joined:
        return Outcome(complete_join(shard, live))
    return NOTHING_TO_DO
