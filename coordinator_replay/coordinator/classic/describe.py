"""DescribeGroups: classic groups as they stand now, rebalances under way included.

Mirrors ``GroupMetadataManager.describeGroups``. A group that does not exist is described as Dead.
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_replay.coordinator.classic.classic_group import LiveClassicGroup
from coordinator_replay.coordinator.errors import CODES
from coordinator_replay.coordinator.messages import Request
from coordinator_replay.coordinator.operations import Outcome, Reply
from coordinator_replay.coordinator.shard import Shard
from coordinator_replay.engine import GroupState, Member

NOT_FOUND_SINCE = 6
"""Since this version a group that is not there is an error."""


def describe_groups(shard: Shard, request: Request, _: Reply) -> Outcome:
    """DescribeGroups."""
    return Outcome(response={"groups": [_describe(shard, group_id, request) for group_id in request.body["groups"]]})


def _describe(shard: Shard, group_id: str, request: Request) -> dict[str, Any]:
    group = shard.group(group_id)
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


HANDLERS: Mapping[str, Callable[[Shard, Request, Reply], Outcome]] = {"DescribeGroups": describe_groups}
