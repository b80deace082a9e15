"""ConsumerGroupDescribe, ListGroups and DeleteGroups."""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_replay.coordinator import new_records
from coordinator_replay.coordinator.consumer_members import NEW_SUBSCRIPTION, current_of, existing_group
from coordinator_replay.coordinator.consumer_target import assignor_votes
from coordinator_replay.coordinator.errors import CODES, RequestError
from coordinator_replay.coordinator.java_order import set_order, string_hash
from coordinator_replay.coordinator.messages import Body, Request
from coordinator_replay.coordinator.new_records import NewRecord
from coordinator_replay.coordinator.operations import Outcome, Reply
from coordinator_replay.coordinator.shard import Shard
from coordinator_replay.engine import ClassicGroup, ConsumerGroup, GroupState, GroupType, Member
from coordinator_replay.engine.model import NOTHING, Assignment
from coordinator_replay.engine.notes import Group

CONSUMER_MEMBER, CLASSIC_MEMBER = 1, 0
"""Types of members in ConsumerGroupDescribe: which protocol a member speaks."""

TYPE_NAMES: Mapping[GroupType, str] = {
    GroupType.CLASSIC: "classic",
    GroupType.CONSUMER: "consumer",
    GroupType.SHARE: "share",
    GroupType.STREAMS: "streams",
}


def describe(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Describe consumer groups; one that can't be described has an error of its own."""
    empty, others = [], []
    for group_id in request.body["groupIds"]:
        if not group_id:
            empty.append({"groupId": "", "errorCode": CODES["INVALID_GROUP_ID"]})
        else:
            others.append(_described(shard, group_id))
    return Outcome(response={"groups": empty + others})


def list_groups(shard: Shard, request: Request, _: Reply) -> Outcome:
    """List the groups whose state and type are asked for; no filter asks for all, case does not count."""
    states = {state.lower().strip() for state in request.body["statesFilter"]}
    types = {name.lower() for name in request.body["typesFilter"]}
    groups = []
    for group_id in shard.group_ids():
        group = shard.group(group_id)
        if group is None or (states and group.state.lower() not in states):
            continue
        kind = TYPE_NAMES[group.group_type]
        if not types or kind in types:
            groups.append(
                {
                    "groupId": group_id,
                    "protocolType": group.protocol_type or "",
                    "groupState": str(group.state),
                    "groupType": kind,
                }
            )
    return Outcome(response={"groups": groups})


def delete_groups(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Delete groups without members, in the order of a hash set: first offsets, then what else the records say."""
    records: list[NewRecord] = []
    results = []
    for group_id in set_order(request.body["groupsNames"], string_hash):
        try:
            group = deletable_group(shard, group_id)
        except RequestError as error:
            results.append({"groupId": group_id, "errorCode": error.code})
            continue
        records += offset_tombstones(shard, group_id)
        records += group_tombstones(shard, group)
        results.append({"groupId": group_id})
    return Outcome(records, {"results": results})


HANDLERS: Mapping[str, Callable[[Shard, Request, Reply], Outcome]] = {
    "ConsumerGroupDescribe": describe,
    "ListGroups": list_groups,
    "DeleteGroups": delete_groups,
}


def deletable_group(shard: Shard, group_id: str) -> Group:
    """A group that is Empty.

    Raises:
        RequestError: GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
    """
    group = shard.group(group_id)
    if group is None:
        raise RequestError("GROUP_ID_NOT_FOUND", f"Group {group_id} not found.")
    if group.state is not GroupState.EMPTY:
        raise RequestError("NON_EMPTY_GROUP")
    return group


def group_tombstones(shard: Shard, group: Group) -> list[NewRecord]:
    """Tombstones of all that a classic or consumer group's records say; its timers stop."""
    if isinstance(group, ConsumerGroup):
        return consumer_group_tombstones(shard, group)
    if isinstance(group, ClassicGroup):
        shard.timers.cancel(("join", group.group_id))
        shard.timers.cancel(("sync", group.group_id))
        return [new_records.classic_group_tombstone(group.group_id)]
    return []


def consumer_group_tombstones(
    shard: Shard, group: ConsumerGroup, renamed: Mapping[str, str] | None = None
) -> list[NewRecord]:
    """Tombstones of a consumer group with its members.

    Args:
        shard: the shard.
        group: the group.
        renamed: member ids that stand under another id.
    """
    group_id, other_ids = group.group_id, renamed or {}
    members = [other_ids.get(member_id, member_id) for member_id in shard.consumer_state(group_id).members]
    return [
        *(new_records.current_assignment_tombstone(group_id, member_id) for member_id in members),
        *(new_records.target_tombstone(group_id, member_id) for member_id in members),
        new_records.target_epoch_tombstone(group_id),
        *(new_records.member_metadata_tombstone(group_id, member_id) for member_id in members),
        *(new_records.regular_expression_tombstone(group_id, expression) for expression in group.regexes),
        new_records.partition_metadata_tombstone(group_id),
        new_records.group_epoch_tombstone(group_id),
    ]


def offset_tombstones(shard: Shard, group_id: str) -> list[NewRecord]:
    """Tombstones of all offsets of a group, pending ones too."""
    replay = shard.replays.get(group_id)
    if replay is None:
        return []
    keys = [*replay.offsets.stored, *(key for mine in replay.offsets.pending.values() for key in mine)]
    return [new_records.offset_commit_tombstone(group_id, *key) for key in dict.fromkeys(keys)]


def _described(shard: Shard, group_id: str) -> Body:
    try:
        update = existing_group(shard, group_id)
    except RequestError as error:
        return {"groupId": group_id, "errorCode": error.code, "errorMessage": error.message}
    group = update.group
    return {
        "groupId": group_id,
        "groupState": str(group.state),
        "groupEpoch": group.epoch,
        "assignmentEpoch": group.assignment_epoch,
        "assignorName": most_wanted_assignor(group, shard.config.assignors[0]),
        "members": [_member(shard, group, group.members[member_id]) for member_id in update.state.members],
    }


def most_wanted_assignor(group: ConsumerGroup, default: str) -> str:
    """The assignor most members ask for; of equals the first one in Kafka's table."""
    votes = assignor_votes(group)
    return max(votes, key=lambda name: votes[name], default=default)


def _member(shard: Shard, group: ConsumerGroup, member: Member) -> dict[str, Any]:
    told, current = member.subscription or NEW_SUBSCRIPTION, current_of(member)
    target = group.reconciliation.targets.get(member.member_id)
    return {
        "memberId": member.member_id,
        "instanceId": told.instance_id,
        "rackId": told.rack_id,
        "memberEpoch": current.epoch,
        "clientId": told.client_id or "",
        "clientHost": told.client_host or "",
        "subscribedTopicNames": sorted(told.topics or ()),
        "subscribedTopicRegex": told.regex or "",
        "assignment": _topics(shard, current.owned()),
        "targetAssignment": _topics(shard, target.assigned if target is not None else NOTHING),
        "memberType": CLASSIC_MEMBER if told.uses_classic_protocol else CONSUMER_MEMBER,
    }


def _topics(shard: Shard, assignment: Assignment) -> Body:
    """Partitions by topic, without topics that were deleted."""
    by_id = shard.topics.by_id
    return {
        "topicPartitions": [
            {"topicId": topic_id, "topicName": by_id[topic_id].name, "partitions": list(partitions)}
            for topic_id, partitions in assignment.items()
            if topic_id in by_id
        ]
    }
