"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The coordinator treats the member epoch of such a member as its generation. If the member's assignment changes, the
response to its heartbeat has the error REBALANCE_IN_PROGRESS, and the member joins again. Mirrors
``GroupMetadataManager.classicGroup…ToConsumerGroup``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE
from coordinator_replay.engine.model import NOTHING, Member, MemberState, Subscription
from coordinator_replay.records.blobs import (
    BlobError,
    ConsumerSubscription,
    read_subscription,
)
from coordinator_replay.simulation.coordinator.classic.join import protocols_of
from coordinator_replay.simulation.coordinator.classic.members import leave_answer
from coordinator_replay.simulation.coordinator.classic.rebalance import refuse_join
from coordinator_replay.simulation.coordinator.consumer.conversion import (
    downgrade_by_replacement,
    replacement_downgrade_is_due,
    target_blob,
)
from coordinator_replay.simulation.coordinator.consumer.heartbeat import progress, reconcile, take_over
from coordinator_replay.simulation.coordinator.consumer.members import (
    GroupUpdate,
    check_size,
    current_of,
    dynamic_member,
    existing_group,
    existing_member,
    static_member,
)
from coordinator_replay.simulation.coordinator.consumer.target_assignment_builder import last_target
from coordinator_replay.simulation.coordinator.consumer.timers import JOIN, SYNC, fence, start, start_session
from coordinator_replay.simulation.coordinator.errors import CODES, MemberSideError, RequestError
from coordinator_replay.simulation.coordinator.messages import Request
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome, Reply
from coordinator_replay.simulation.coordinator.shard import Shard

REQUIRES_MEMBER_ID_SINCE = 4


# -- JoinGroup -------------------------------------------------------------------------------------------------------


def join(shard: Shard, request: Request, reply: Reply) -> Outcome:
    """Handle JoinGroup of a classic member in a consumer group.

    Add the member if the group does not have it yet. Then reconcile the member with its target assignment by one step.

    Raises:
        MemberSideError: the member is refused.
    """
    try:
        return _join(shard, request, reply)
    except MemberSideError:
        raise
    except RequestError as error:
        raise MemberSideError(error.error) from error


def _join(shard: Shard, request: Request, reply: Reply) -> Outcome:
    body = request.body
    update = existing_group(shard, body["groupId"])
    if shard.config.migration_policy == "disabled":
        raise RequestError("INCONSISTENT_GROUP_PROTOCOL")
    is_unknown, instance_id = not body["memberId"], body["groupInstanceId"]
    member_id = shard.ids.short() if is_unknown else body["memberId"]
    check_size(update, member_id)
    _check_protocols(update, body)
    if is_unknown and instance_id is None and (request.version or 0) >= REQUIRES_MEMBER_ID_SINCE:
        refuse_join(reply, "MEMBER_ID_REQUIRED", member_id)
        return NOTHING_TO_DO
    replaced = update.static_member(instance_id)
    if instance_id is None:
        member = dynamic_member(update, member_id, is_joining=True)
    else:
        member = static_member(update, member_id, instance_id, is_joining=is_unknown, uses_classic_protocol=True)
    downgrades = replaced is not None and replacement_downgrade_is_due(update, replaced)
    metadata = _metadata(body)
    subscription = _subscription_after(member.subscription, request, metadata)
    update.named_topics = metadata.topics
    owned = [
        {"topicId": shard.topics.by_name[name].topic_id, "partitions": list(numbers)}
        for name, numbers in metadata.owned
        if name in shard.topics.by_name
    ]
    if downgrades and replaced is not None:
        updated = _downgrade(update, replaced, member, subscription, owned)
    else:
        updated = progress(update, member, subscription, owned)
    response = {
        "memberId": updated.member_id,
        "generationId": current_of(updated).epoch,
        "protocolType": CONSUMER_PROTOCOL_TYPE,
        "protocolName": body["protocols"][0]["name"],
    }

    def start_timers() -> None:
        shard.timers.cancel((JOIN, update.group_id, updated.member_id))
        if not downgrades:
            start_session(shard, update.group_id, updated.member_id, body["sessionTimeoutMs"])
            why = "the member failed to sync within timeout"
            start(shard, SYNC, update.group_id, updated.member_id, body["rebalanceTimeoutMs"], why)

    return Outcome(update.records, response, when_written=start_timers)


def _check_protocols(update: GroupUpdate, body: Mapping[str, Any]) -> None:
    """Refuse a member if no protocol is supported by this member and by all classic members.

    Raises:
        RequestError: INCONSISTENT_GROUP_PROTOCOL.
    """
    names = {entry["name"] for entry in body["protocols"]}
    classic = update.classic_members()
    votes = Counter(protocol.name for member in classic for protocol in member.subscription_or_empty.protocols)
    is_common = any(votes[name] == len(classic) for name in names)
    if body["protocolType"] != CONSUMER_PROTOCOL_TYPE or not is_common:
        raise RequestError("INCONSISTENT_GROUP_PROTOCOL")


def _metadata(body: Mapping[str, Any]) -> ConsumerSubscription:
    try:
        return read_subscription(body["protocols"][0]["metadata"])
    except BlobError as error:
        raise RequestError("UNKNOWN_SERVER_ERROR", f"subscription: {error}") from None


def _subscription_after(before: Subscription | None, request: Request, metadata: ConsumerSubscription) -> Subscription:
    """Return a member's subscription after a join.

    If the request has no instance id, rack or assignor, the old value stays.
    """
    body, old = request.body, before or Subscription()
    instance_id = body["groupInstanceId"]
    return Subscription(
        old.instance_id if instance_id is None else instance_id,
        metadata.rack_id or old.rack_id,
        request.client_id,
        f"/{request.client_host}",
        tuple(sorted(set(metadata.topics))),
        None,
        old.assignor,
        old.rebalance_timeout_ms if body["rebalanceTimeoutMs"] == -1 else body["rebalanceTimeoutMs"],
        body["sessionTimeoutMs"],
        True,
        protocols_of(body["protocols"]),
    )


def _downgrade(
    update: GroupUpdate,
    replaced: Member,
    member: Member,
    subscription: Subscription,
    owned: Sequence[Mapping[str, Any]],
) -> Member:
    """Convert a consumer group to a classic group, because a classic member replaces the last KIP-848 member.

    Args:
        update: the group.
        replaced: the last member that uses KIP-848, a static member.
        member: the classic member that replaces ``replaced``.
        subscription: the new subscription of ``member``.
        owned: the partitions that ``member`` says it owns.

    Returns:
        The classic member with its new subscription and assignment.
    """
    changed, epoch, _, has_changed = take_over(update, member, subscription)
    assignment_epoch = update.group.reconciliation.assignment_epoch
    is_behind = assignment_epoch < epoch
    if not is_behind:
        target = last_target(update, changed)
        changed = reconcile(update, changed, assignment_epoch, target, owned, has_subscription_changed=has_changed)
    downgrade_by_replacement(update, replaced, changed, rebalances=is_behind)
    return changed


# -- SyncGroup, Heartbeat --------------------------------------------------------------------------------------------


def sync(shard: Shard, request: Request) -> Outcome:
    """Handle SyncGroup: return the present assignment of a classic member.

    Raises:
        RequestError: the member, its generation or its protocol is wrong, or the member must join again.
    """
    body = request.body
    update, member, subscription = _classic_member(shard, body)
    current = current_of(member)
    _check_generation(member, body)
    _check_protocol(subscription, body)
    is_behind = update.group.reconciliation.assignment_epoch > current.epoch
    if is_behind and current.state is not MemberState.UNREVOKED_PARTITIONS:
        _start_join_if_absent(update, member, subscription)
        raise RequestError("REBALANCE_IN_PROGRESS")
    try:
        assignment = target_blob(current.assigned or NOTHING, subscription.protocols[0].metadata, shard.topics)
    except BlobError as error:
        raise RequestError("UNKNOWN_SERVER_ERROR", f"subscription: {error}") from None

    def start_timers() -> None:
        shard.timers.cancel((SYNC, update.group_id, member.member_id))
        start_session(shard, update.group_id, member.member_id, subscription.session_timeout_ms)

    response = {
        "protocolType": body["protocolType"],
        "protocolName": body["protocolName"],
        "assignment": assignment,
    }
    return Outcome(response=response, when_written=start_timers)


def heartbeat(shard: Shard, request: Request) -> Outcome:
    """Handle Heartbeat: restart a classic member's session, and answer whether the member has to join again.

    Raises:
        RequestError: the member or its generation is wrong.
    """
    update, member, subscription = _classic_member(shard, request.body)
    _check_generation(member, request.body)
    start_session(shard, update.group_id, member.member_id, subscription.session_timeout_ms)
    if not _must_join_again(update, member):
        return Outcome(response={"errorCode": CODES["NONE"]})
    _start_join_if_absent(update, member, subscription)
    return Outcome(response={"errorCode": CODES["REBALANCE_IN_PROGRESS"]})


def _must_join_again(update: GroupUpdate, member: Member) -> bool:
    current, reconciliation = current_of(member), update.group.reconciliation
    if current.epoch < reconciliation.assignment_epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    has = current.assigned or NOTHING
    return not any(
        partition not in has.get(topic_id, ()) and (topic_id, partition) in reconciliation.owners
        for topic_id, partitions in reconciliation.target_partitions(member.member_id).items()
        for partition in partitions
    )


def _classic_member(shard: Shard, body: Mapping[str, Any]) -> tuple[GroupUpdate, Member, Subscription]:
    update = existing_group(shard, body["groupId"])
    member = existing_member(update, body["memberId"], body["groupInstanceId"])
    subscription = member.subscription
    if subscription is None or not subscription.uses_classic_protocol:
        raise RequestError("UNKNOWN_MEMBER_ID", f"Member {member.member_id} does not use the classic protocol.")
    return update, member, subscription


def _check_generation(member: Member, body: Mapping[str, Any]) -> None:
    if current_of(member).epoch != body["generationId"]:
        raise RequestError("ILLEGAL_GENERATION")


def _check_protocol(subscription: Subscription, body: Mapping[str, Any]) -> None:
    protocol_type, name = body["protocolType"], body["protocolName"]
    if protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or name not in (None, subscription.protocols[0].name):
        raise RequestError("INCONSISTENT_GROUP_PROTOCOL")


def _start_join_if_absent(update: GroupUpdate, member: Member, subscription: Subscription) -> None:
    if not update.shard.timers.is_running((JOIN, update.group_id, member.member_id)):
        timeout_ms = subscription.rebalance_timeout_ms or 0
        why = "the classic member failed to join within the rebalance timeout"
        start(update.shard, JOIN, update.group_id, member.member_id, timeout_ms, why)


# -- LeaveGroup ------------------------------------------------------------------------------------------------------


def leave(shard: Shard, group_id: str, members: Sequence[Mapping[str, Any]]) -> Outcome:
    """Handle LeaveGroup: remove members of either protocol together, with one new group epoch.

    The response has an error code for each member.
    """
    update = existing_group(shard, group_id)
    answers, leaving = [], dict[str, Member]()
    for entry in members:
        try:
            member = _leaving_member(update, entry["memberId"], entry["groupInstanceId"])
        except RequestError as error:
            answers.append(leave_answer(entry, error.error))
            continue
        leaving[member.member_id] = member
        answers.append(leave_answer(entry))
    reason = "Member {} has left group through explicit `LeaveGroup` request."
    return fence(update, list(leaving.values()), {"members": answers}, reason)


def _leaving_member(update: GroupUpdate, member_id: str, instance_id: str | None) -> Member:
    static_member = update.static_member(instance_id)
    if instance_id is not None and static_member is not None and not member_id:
        return static_member
    return existing_member(update, member_id, instance_id)
