"""SyncGroup, Heartbeat and LeaveGroup of members of a classic group, and DescribeGroups.

Mirrors ``GroupMetadataManager.classicGroupSyncToClassicGroup``, ``classicGroupHeartbeatToClassicGroup``,
``classicGroupLeaveToClassicGroup`` and ``describeGroups``. Groups are described in their present state, also during a
rebalance. A group that does not exist is Dead.
"""

from collections.abc import Mapping
from typing import Any

from coordinator_replay.engine.model import GroupState, Member
from coordinator_replay.simulation.coordinator.classic import rebalance
from coordinator_replay.simulation.coordinator.errors import CODES, RequestError
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.messages import Request
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome, Reply
from coordinator_replay.simulation.coordinator.shard import Shard
from coordinator_replay.simulation.coordinator.truth import leave_reason


def sync(shard: Shard, live: LiveClassicGroup, request: Request, reply: Reply) -> Outcome:
    """Handle SyncGroup.

    In a Stable group, answer at once. Otherwise the request waits. The leader's request has the assignment. When the
    assignment is written, all waiting requests are answered.

    Raises:
        RequestError: the member, its generation or its protocol does not belong to the group, or the group is in its
            join phase.
    """
    body = request.body
    member_id, generation = body["memberId"], body["generationId"]
    live.validate(member_id, body["groupInstanceId"])
    if generation != live.generation:
        raise RequestError("ILLEGAL_GENERATION")
    if _differs(body["protocolType"], live.protocol_type) or _differs(body["protocolName"], live.protocol):
        raise RequestError("INCONSISTENT_GROUP_PROTOCOL")
    if live.state == GroupState.PREPARING_REBALANCE:
        raise RequestError("REBALANCE_IN_PROGRESS")
    rebalance.note_sync(shard, live, member_id)
    if live.state == GroupState.STABLE:
        return Outcome(response=rebalance.sync_body(live, member_id))
    live.waiting_syncs[member_id] = reply
    if member_id != live.leader:
        return NOTHING_TO_DO
    by_member = {entry["memberId"]: entry["assignment"] for entry in body["assignments"]}
    assignments = {member: by_member.get(member, "") for member in live.members}
    return Outcome(
        (live.record(assignments),),
        when_written=lambda: rebalance.take_assignment(shard, live, assignments, generation),
    )


def heartbeat(shard: Shard, live: LiveClassicGroup, request: Request) -> Outcome:
    """Handle Heartbeat: restart the member's session, and answer whether the member has to join again.

    Raises:
        RequestError: the member or its generation does not belong to the group.
    """
    body = request.body
    live.validate(body["memberId"], body["groupInstanceId"])
    if body["generationId"] != live.generation:
        raise RequestError("ILLEGAL_GENERATION")
    if live.state == GroupState.EMPTY:
        raise RequestError("UNKNOWN_MEMBER_ID")
    rebalance.schedule_heartbeat(shard, live, body["memberId"])
    joins_again = live.state == GroupState.PREPARING_REBALANCE
    return Outcome(response={"errorCode": CODES["REBALANCE_IN_PROGRESS"] if joins_again else CODES["NONE"]})


def leave(shard: Shard, live: LiveClassicGroup, members: list[Mapping[str, Any]]) -> Outcome:
    """Handle LeaveGroup: remove members one after the other.

    Then begin a rebalance, or end the present join phase if all remaining members have joined. The response has an
    error code for each member.
    """
    answers = [_leave_one(shard, live, member) for member in members]
    left = [answer["memberId"] for answer in answers if answer["errorCode"] == CODES["NONE"]]
    reason = f"explicit `LeaveGroup` request for ({', '.join(left)}) members."
    records = rebalance.NO_RECORDS
    if left:
        if live.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            records = rebalance.rebalance_or_complete_join(shard, live, reason)
        elif live.state == GroupState.PREPARING_REBALANCE:
            records = rebalance.maybe_complete_join(shard, live)
    return Outcome(records, {"members": answers})


def leave_answer(member: Mapping[str, Any], error: str = "NONE") -> dict[str, Any]:
    """Return the LeaveGroup answer for one member."""
    return {
        "memberId": member["memberId"],
        "groupInstanceId": member["groupInstanceId"],
        "errorCode": CODES[error],
    }


def _leave_one(shard: Shard, live: LiveClassicGroup, member: Mapping[str, Any]) -> dict[str, Any]:
    member_id, instance_id = member["memberId"], member["groupInstanceId"]
    if not member_id:
        # An administrator removes a static member by its instance id alone.
        holder = live.static_members.get(instance_id) if instance_id is not None else None
        if holder is None:
            return leave_answer(member, "UNKNOWN_MEMBER_ID")
        member_id = holder
    elif member_id not in live.pending_members:
        try:
            live.validate(member_id, instance_id)
        except RequestError as error:
            return leave_answer(member, error.error)
    shard.timers.cancel(rebalance.heartbeat_key(live.group_id, member_id))
    reason = f"explicit `LeaveGroup` request; client reason: {leave_reason(member)}"
    rebalance.forget_member(shard, live, member_id, reason)
    return leave_answer(member)


def _differs(sent: str | None, chosen: str | None) -> bool:
    return sent is not None and chosen is not None and sent != chosen


NOT_FOUND_SINCE = 6
"""Since this version of DescribeGroups, a missing group is an error."""


def describe_groups(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle DescribeGroups."""
    return Outcome(response={"groups": [_describe(shard, group_id, request) for group_id in request.body["groups"]]})


def _describe(shard: Shard, group_id: str, request: Request) -> dict[str, Any]:
    group = shard.committed_group(group_id)
    if isinstance(group, LiveClassicGroup):
        return _described(group)
    missing: dict[str, Any] = {"groupId": group_id, "groupState": GroupState.DEAD}
    if (request.version or 0) >= NOT_FOUND_SINCE:
        reason = "not found." if group is None else "is not a classic group."
        missing |= {"errorCode": CODES["GROUP_ID_NOT_FOUND"], "errorMessage": f"Group {group_id} {reason}"}
    return missing


def _described(group: LiveClassicGroup) -> dict[str, Any]:
    is_stable = group.state == GroupState.STABLE
    described = {
        "groupId": group.group_id,
        "groupState": group.state,
        "protocolType": group.protocol_type or "",
        "members": [
            _member(member, group.metadata(member) if is_stable else None) for member in group.members.values()
        ],
    }
    return {**described, "protocolData": group.protocol} if is_stable else described


def _member(member: Member, metadata: str | None) -> dict[str, Any]:
    subscription, current = member.subscription, member.current
    described: dict[str, Any] = {
        "memberId": member.member_id,
        "groupInstanceId": member.instance_id,
        "clientId": subscription.client_id if subscription is not None else "",
        "clientHost": subscription.client_host if subscription is not None else "",
        "memberAssignment": current.assignment_bytes if current is not None else "",
    }
    return described if metadata is None else {**described, "memberMetadata": metadata}
