"""Requests to groups of more than one type: requests of the classic protocol, ListGroups and DeleteGroups.

The functions for JoinGroup, SyncGroup, Heartbeat and LeaveGroup first check the request itself. Then they call the code
for the group's type: ``classic`` for classic groups, ``consumer.classic_members`` for consumer groups. Mirrors the
parts of ``GroupCoordinatorService`` and ``GroupMetadataManager`` that choose between group types. Also mirrors the
changes that ``KafkaApis`` makes to requests of old versions.
"""

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import GroupState
from coordinator_replay.engine.notes import Group
from coordinator_replay.java_strings import string_hash
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.classic import members as classic_members
from coordinator_replay.simulation.coordinator.classic import rebalance
from coordinator_replay.simulation.coordinator.classic.join import Join
from coordinator_replay.simulation.coordinator.config import BrokerFault
from coordinator_replay.simulation.coordinator.consumer import classic_members as consumer_classic_members
from coordinator_replay.simulation.coordinator.consumer.members import consumer_group_tombstones
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.java_order import hash_set
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.messages import Request
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome, Reply
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import Shard

PROTOCOL_IN_SYNC_SINCE = 5
MEMBERS_IN_LEAVE_SINCE = 3


def join_group(shard: Shard, request: Request, reply: Reply) -> Outcome:
    """Handle JoinGroup.

    Raises:
        RequestError: the request is refused before it reaches a group.
    """
    body = request.body
    _check_group_id(body["groupId"])
    lowest, highest = (shard.config.number(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
    if not lowest <= body["sessionTimeoutMs"] <= highest:
        raise RequestError("INVALID_SESSION_TIMEOUT")
    if request.version == 0 and BrokerFault.JOIN_WITHOUT_TIMEOUT not in shard.config.faults:
        request = request._replace(body={**body, "rebalanceTimeoutMs": body["sessionTimeoutMs"]})
    group = shard.group(body["groupId"])
    if group is not None and not isinstance(group, ClassicGroup | ConsumerGroup):
        rebalance.refuse_join(reply, "INCONSISTENT_GROUP_PROTOCOL", "")
        return NOTHING_TO_DO
    if isinstance(group, ConsumerGroup) and group.state is not GroupState.EMPTY:
        return consumer_classic_members.join(shard, request, reply)
    return _join_classic_group(shard, request, reply)


def _join_classic_group(shard: Shard, request: Request, reply: Reply) -> Outcome:
    group_id = request.body["groupId"]
    empty = shard.group(group_id)
    if isinstance(empty, LiveClassicGroup):
        return Join(shard, empty, request, reply).run()
    if request.body["memberId"]:
        if empty is not None:
            # As in Kafka, the empty consumer group is dropped before the id is refused, and no record is written.
            shard.forget_group(group_id)
        rebalance.refuse_join(reply, "UNKNOWN_MEMBER_ID", request.body["memberId"])
        return NOTHING_TO_DO
    tombstones = consumer_group_tombstones(shard, empty) if isinstance(empty, ConsumerGroup) else []
    live = shard.classic_groups[group_id] = LiveClassicGroup(group_id, shard.now_ms)
    outcome = Join(shard, live, request, reply).run()
    if outcome.records:
        return outcome
    # As in Kafka, the record has the group as it was created, even if the group has changed since.
    created = record_helpers.classic_group(ClassicGroup(group_id, state_timestamp_ms=live.state_timestamp_ms))
    return outcome._replace(records=(*tombstones, created))


def sync_group(shard: Shard, request: Request, reply: Reply) -> Outcome:
    """Handle SyncGroup.

    Raises:
        RequestError: the request is refused.
    """
    body = request.body
    if (request.version or 0) >= PROTOCOL_IN_SYNC_SINCE and (
        body["protocolType"] is None or body["protocolName"] is None
    ):
        raise RequestError("INCONSISTENT_GROUP_PROTOCOL")
    _check_group_id(body["groupId"])
    group = shard.group(body["groupId"])
    if group is not None and group.state is not GroupState.EMPTY:
        if isinstance(group, LiveClassicGroup):
            return classic_members.sync(shard, group, request, reply)
        if isinstance(group, ConsumerGroup):
            return consumer_classic_members.sync(shard, request)
    raise RequestError("UNKNOWN_MEMBER_ID")


def heartbeat(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle Heartbeat.

    Raises:
        RequestError: the request is refused.
    """
    _check_group_id(request.body["groupId"])
    group = shard.group(request.body["groupId"])
    if isinstance(group, LiveClassicGroup):
        return classic_members.heartbeat(shard, group, request)
    if isinstance(group, ConsumerGroup):
        return consumer_classic_members.heartbeat(shard, request)
    raise RequestError("UNKNOWN_MEMBER_ID")


def leave_group(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle LeaveGroup.

    Before version 3 the request names one member, and the response has this member's error.

    Raises:
        RequestError: the request is refused.
    """
    body = request.body
    _check_group_id(body["groupId"])
    is_single = (request.version or 0) < MEMBERS_IN_LEAVE_SINCE
    members = [{"memberId": body["memberId"], "groupInstanceId": None}] if is_single else body["members"]
    group = shard.group(body["groupId"])
    if isinstance(group, LiveClassicGroup):
        outcome = classic_members.leave(shard, group, members)
    elif isinstance(group, ConsumerGroup):
        outcome = consumer_classic_members.leave(shard, group.group_id, members)
    else:
        answers = [classic_members.leave_answer(member, "UNKNOWN_MEMBER_ID") for member in members]
        outcome = Outcome(response={"members": answers})
    if is_single and outcome.response is not None:
        return outcome._replace(response={"errorCode": outcome.response["members"][0]["errorCode"]})
    return outcome


def list_groups(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle ListGroups: list the groups that have one of the wanted states and one of the wanted types.

    An empty filter accepts all groups. Filters ignore case.
    """
    states = {state.lower().strip() for state in request.body["statesFilter"]}
    types = {name.lower() for name in request.body["typesFilter"]}
    groups = []
    for group_id in shard.committed_group_ids():
        group = shard.committed_group(group_id)
        if group is None or (states and group.state.lower() not in states):
            continue
        if not types or group.group_type in types:
            groups.append(
                {
                    "groupId": group_id,
                    "protocolType": group.protocol_type or "",
                    "groupState": str(group.state),
                    "groupType": str(group.group_type),
                }
            )
    return Outcome(response={"groups": groups})


def delete_groups(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle DeleteGroups: delete groups without members, in the order of a hash set.

    For each group, the tombstones of its offsets come first, then the tombstones of its other records. Other groups get
    an error code in the response.
    """
    records: list[NewRecord] = []
    results = []
    for group_id in hash_set(request.body["groupsNames"], string_hash):
        try:
            group = deletable_group(shard, group_id)
        except RequestError as error:
            results.append({"groupId": group_id, "errorCode": error.code})
            continue
        records += offset_tombstones(shard, group_id)
        records += group_tombstones(shard, group)
        results.append({"groupId": group_id})
    return Outcome(records, {"results": results})


def deletable_group(shard: Shard, group_id: str) -> Group:
    """Return a group, which must exist and be Empty.

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
    """Return tombstones of all records of a classic or consumer group, except its offsets.

    Return none for groups of other types. For a classic group, also stop the timers of its join and sync phases.
    """
    if isinstance(group, ConsumerGroup):
        return consumer_group_tombstones(shard, group)
    if isinstance(group, ClassicGroup):
        shard.timers.cancel(("join", group.group_id))
        shard.timers.cancel(("sync", group.group_id))
        return [record_helpers.tombstone("GroupMetadata", group=group.group_id)]
    return []


def offset_tombstones(shard: Shard, group_id: str) -> list[NewRecord]:
    """Return tombstones of all offsets of a group, also of offsets in pending transactions."""
    offsets = shard.offsets(group_id)
    keys = [*offsets.stored, *(key for pending in offsets.pending.values() for key in pending)]
    return [
        record_helpers.tombstone("OffsetCommit", group=group_id, topic=topic, partition=partition)
        for topic, partition in dict.fromkeys(keys)
    ]


def load_group(shard: Shard, group_id: str) -> None:
    """Start the heartbeat timers of a classic group after its log partition was loaded.

    If the group has more members than ``group.max.size``, start a rebalance.
    """
    live = shard.group(group_id)
    if not isinstance(live, LiveClassicGroup):
        return
    for member_id in live.members:
        rebalance.schedule_heartbeat(shard, live, member_id)
    size, limit = len(live.members), shard.config.number("group.max.size")
    if size > limit:
        reason = (
            f"Freshly-loaded group {group_id} (size {size}) is over capacity {limit}. "
            "Rebalancing in order to give a chance for consumers to commit offsets"
        )
        rebalance.prepare_rebalance(shard, live, reason)


def unload(shard: Shard) -> None:
    """Answer all waiting requests of classic groups with NOT_COORDINATOR, because another broker becomes the leader."""
    for group_id in shard.group_ids():
        live = shard.group(group_id)
        if not isinstance(live, LiveClassicGroup):
            continue
        for member_id in live.members:
            join, sync = live.waiting_joins.pop(member_id, None), live.waiting_syncs.pop(member_id, None)
            if join is not None:
                rebalance.refuse_join(join, "NOT_COORDINATOR", member_id)
            elif sync is not None:
                sync.send(RequestError("NOT_COORDINATOR"))


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise RequestError("INVALID_GROUP_ID")
