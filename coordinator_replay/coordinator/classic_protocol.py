"""The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Each handler makes the checks that come before the group is looked at, and hands the request to the group's type:
``classic_join`` and ``classic_members`` for classic groups, ``classic_in_consumer`` for consumer groups. Mirrors the
parts of ``GroupCoordinatorService`` and ``GroupMetadataManager`` that choose between group types, and what
``KafkaApis`` does to requests of old versions.
"""

from collections.abc import Callable, Mapping

from coordinator_replay.coordinator import classic_in_consumer, classic_members
from coordinator_replay.coordinator import classic_rebalance as rebalance
from coordinator_replay.coordinator.classic_join import Join
from coordinator_replay.coordinator.classic_state import LiveClassicGroup
from coordinator_replay.coordinator.errors import RequestError
from coordinator_replay.coordinator.group_admin import consumer_group_tombstones
from coordinator_replay.coordinator.messages import Request
from coordinator_replay.coordinator.operations import NOTHING_TO_DO, Outcome, Reply
from coordinator_replay.coordinator.shard import Shard
from coordinator_replay.engine import ClassicGroup, ConsumerGroup, GroupState

PROTOCOL_IN_SYNC_SINCE = 5
MEMBERS_IN_LEAVE_SINCE = 3


def join_group(shard: Shard, request: Request, reply: Reply) -> Outcome:
    """JoinGroup.

    Raises:
        RequestError: the request is refused before it comes to a group.
    """
    body = request.body
    _check_group_id(body["groupId"])
    lowest, highest = (shard.config.number(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
    if not lowest <= body["sessionTimeoutMs"] <= highest:
        raise RequestError("INVALID_SESSION_TIMEOUT")
    if request.version == 0:
        request = request._replace(body={**body, "rebalanceTimeoutMs": body["sessionTimeoutMs"]})
    group = shard.group(body["groupId"])
    if group is not None and not isinstance(group, ClassicGroup | ConsumerGroup):
        rebalance.refuse_join(reply, "INCONSISTENT_GROUP_PROTOCOL", "")
        return NOTHING_TO_DO
    if isinstance(group, ConsumerGroup) and group.state is not GroupState.EMPTY:
        return classic_in_consumer.join(shard, request, reply)
    return _join_classic_group(shard, request, reply)


def _join_classic_group(shard: Shard, request: Request, reply: Reply) -> Outcome:
    group_id = request.body["groupId"]
    live = shard.classic_group(group_id)
    if live is not None:
        return Join(shard, live, request, reply).run()
    empty = shard.group(group_id)
    if request.body["memberId"]:
        if empty is not None:
            # As in Kafka, the empty consumer group is dropped before the id is refused, and no record tells of it.
            shard.forget_group(group_id)
        rebalance.refuse_join(reply, "UNKNOWN_MEMBER_ID", request.body["memberId"])
        return NOTHING_TO_DO
    tombstones = consumer_group_tombstones(shard, empty) if isinstance(empty, ConsumerGroup) else []
    live = shard.classic_groups[group_id] = LiveClassicGroup.created(group_id, shard.now_ms)
    outcome = Join(shard, live, request, reply).run()
    return outcome if outcome.records else outcome._replace(records=(*tombstones, live.empty_record()))


def sync_group(shard: Shard, request: Request, reply: Reply) -> Outcome:
    """SyncGroup.

    Raises:
        RequestError: the request is refused.
    """
    body = request.body
    if (request.version or 0) >= PROTOCOL_IN_SYNC_SINCE and (
        body["protocolType"] is None or body["protocolName"] is None
    ):
        raise RequestError("INCONSISTENT_GROUP_PROTOCOL")
    _check_group_id(body["groupId"])
    group, live = shard.group(body["groupId"]), shard.classic_group(body["groupId"])
    if group is None or group.state is GroupState.EMPTY:
        raise RequestError("UNKNOWN_MEMBER_ID")
    if live is not None:
        return classic_members.sync(shard, live, request, reply)
    return classic_in_consumer.sync(shard, request) if isinstance(group, ConsumerGroup) else _refuse_unknown()


def heartbeat(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Heartbeat.

    Raises:
        RequestError: the request is refused.
    """
    _check_group_id(request.body["groupId"])
    group, live = shard.group(request.body["groupId"]), shard.classic_group(request.body["groupId"])
    if live is not None:
        return classic_members.heartbeat(shard, live, request)
    return classic_in_consumer.heartbeat(shard, request) if isinstance(group, ConsumerGroup) else _refuse_unknown()


def leave_group(shard: Shard, request: Request, _: Reply) -> Outcome:
    """LeaveGroup; before version 3 with one member, whose error is the response's.

    Raises:
        RequestError: the request is refused.
    """
    body = request.body
    _check_group_id(body["groupId"])
    is_single = (request.version or 0) < MEMBERS_IN_LEAVE_SINCE
    members = [{"memberId": body["memberId"], "groupInstanceId": None}] if is_single else body["members"]
    group, live = shard.group(body["groupId"]), shard.classic_group(body["groupId"])
    if live is not None:
        outcome = classic_members.leave(shard, live, members)
    elif isinstance(group, ConsumerGroup):
        outcome = classic_in_consumer.leave(shard, group.group_id, members)
    else:
        answers = [classic_members.leave_answer(member, "UNKNOWN_MEMBER_ID") for member in members]
        outcome = Outcome(response={"members": answers})
    if is_single and outcome.response is not None:
        return outcome._replace(response={"errorCode": outcome.response["members"][0]["errorCode"]})
    return outcome


HANDLERS: Mapping[str, Callable[[Shard, Request, Reply], Outcome]] = {
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": heartbeat,
    "LeaveGroup": leave_group,
}


def load_group(shard: Shard, group_id: str) -> None:
    """Begin with a classic group of a loaded partition: heartbeat timers run, a group over the limit rebalances."""
    live = shard.classic_group(group_id)
    if live is None:
        return
    for member_id in live.group.members:
        rebalance.schedule_heartbeat(shard, live, member_id)
    if len(live.group.members) > shard.config.number("group.max.size"):
        rebalance.prepare_rebalance(shard, live)


def unload(shard: Shard) -> None:
    """Leave the classic groups to another leader: parked requests are answered with NOT_COORDINATOR."""
    for group_id in shard.group_ids():
        live = shard.classic_group(group_id)
        if live is None:
            continue
        for member_id in live.group.members:
            join, sync = live.waiting_joins.pop(member_id, None), live.waiting_syncs.pop(member_id, None)
            if join is not None:
                rebalance.refuse_join(join, "NOT_COORDINATOR", member_id)
            elif sync is not None:
                sync.refuse(RequestError("NOT_COORDINATOR"))


def _refuse_unknown() -> Outcome:
    raise RequestError("UNKNOWN_MEMBER_ID")


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise RequestError("INVALID_GROUP_ID")
