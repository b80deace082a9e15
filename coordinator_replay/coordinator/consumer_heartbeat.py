"""ConsumerGroupHeartbeat: the consumer group protocol of KIP-848.

Mirrors ``GroupMetadataManager.consumerGroupHeartbeat``: find the group and the member, take over what the member
tells, raise the group epoch, compute the target assignment, take the member one step towards it. The records of all
steps are one batch, in the order of the steps.
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_replay.coordinator import client_assignment, conversion, new_records
from coordinator_replay.coordinator.consumer_members import (
    GroupUpdate,
    check_epoch,
    check_size,
    current_of,
    current_value,
    dynamic_member,
    existing_group,
    member_value,
    new_group,
    owning_static_member,
    static_member,
)
from coordinator_replay.coordinator.consumer_reconciliation import Step, is_same
from coordinator_replay.coordinator.consumer_regexes import Change, update_expression
from coordinator_replay.coordinator.consumer_target import last_target, subscribed_names, update_epoch, update_target
from coordinator_replay.coordinator.consumer_timers import fence, follow_reconciliation, start_session
from coordinator_replay.coordinator.errors import RequestError
from coordinator_replay.coordinator.held_partitions import Owned, as_topics, assigned, with_epochs
from coordinator_replay.coordinator.java_order import set_order, string_hash
from coordinator_replay.coordinator.messages import Body, Request
from coordinator_replay.coordinator.operations import Outcome, Reply
from coordinator_replay.coordinator.shard import Shard
from coordinator_replay.engine import GroupState, Member, MemberState
from coordinator_replay.engine.model import (
    AWAY_EPOCH,
    LEFT_EPOCH,
    NOTHING,
    Assignment,
    Subscription,
)

MADE_BY_MEMBER_VERSION = 1
"""From this version on members bring an id of their own."""

Check = tuple[str, str, Callable[[Body, int], bool]]

CHECKS: tuple[Check, ...] = (
    (
        "INVALID_REQUEST",
        "MemberId can't be empty.",
        lambda body, version: (
            not body["memberId"].strip()
            and (version >= MADE_BY_MEMBER_VERSION or body["memberEpoch"] > 0 or body["memberEpoch"] == LEFT_EPOCH)
        ),
    ),
    ("INVALID_REQUEST", "GroupId can't be empty.", lambda body, _: not body["groupId"].strip()),
    ("INVALID_REQUEST", "InstanceId can't be empty.", lambda body, _: _is_blank(body["instanceId"])),
    ("INVALID_REQUEST", "RackId can't be empty.", lambda body, _: _is_blank(body["rackId"])),
    (
        "INVALID_REQUEST",
        "RebalanceTimeoutMs must be provided in first request.",
        lambda body, _: body["memberEpoch"] == 0 and body["rebalanceTimeoutMs"] == -1,
    ),
    (
        "INVALID_REQUEST",
        "TopicPartitions must be empty when (re-)joining.",
        lambda body, _: body["memberEpoch"] == 0 and body["topicPartitions"] != [],
    ),
    (
        "INVALID_REQUEST",
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        lambda body, _: (
            body["memberEpoch"] == 0 and body["subscribedTopicNames"] is None and body["subscribedTopicRegex"] is None
        ),
    ),
    (
        "INVALID_REQUEST",
        "InstanceId can't be null.",
        lambda body, _: body["memberEpoch"] == AWAY_EPOCH and body["instanceId"] is None,
    ),
    ("INVALID_REQUEST", "MemberEpoch is invalid.", lambda body, _: body["memberEpoch"] < AWAY_EPOCH),
)
"""What is looked at before the group is: error, message, and when it is refused; the first that holds counts."""


def heartbeat(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle a heartbeat: a member joins, leaves, tells what changed, or shows that it is alive.

    Raises:
        RequestError: the request is refused, nothing changes.
    """
    body = request.body
    _check_request(shard, request)
    if body["memberEpoch"] in (LEFT_EPOCH, AWAY_EPOCH):
        return _leave(shard, body)
    return _beat(shard, request)


HANDLERS: Mapping[str, Callable[[Shard, Request, Reply], Outcome]] = {"ConsumerGroupHeartbeat": heartbeat}


def _check_request(shard: Shard, request: Request) -> None:
    body, version = request.body, request.version or 0
    for error, message, is_refused in CHECKS:
        if is_refused(dict(body) if not isinstance(body, dict) else body, version):
            raise RequestError(error, message)
    if shard.config.client_assignors:
        client_assignment.check(body)
    assignor = body["serverAssignor"]
    if assignor is not None and assignor not in shard.config.assignors:
        known = ", ".join(set_order(shard.config.assignors, string_hash))
        raise RequestError(
            "UNSUPPORTED_ASSIGNOR", f"ServerAssignor {assignor} is not supported. Supported assignors: {known}."
        )


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def _beat(shard: Shard, request: Request) -> Outcome:
    body = request.body
    epoch, owned = body["memberEpoch"], body["topicPartitions"]
    is_joining = epoch == 0
    update = group_to_join(shard, body["groupId"]) if is_joining else _group_to_beat(shard, body["groupId"])
    check_size(update, body["memberId"])
    member_id = body["memberId"] or shard.ids.short()
    member = _member(update, member_id, body, is_joining=is_joining)
    told = told_by_heartbeat(member.subscription, request)
    update.named_topics = body["subscribedTopicNames"] or ()
    if not shard.config.client_assignors:
        updated = progress(update, member, told, owned)
        start_session(shard, update.group_id, member_id)
        return Outcome(update.records, _response(shard, body, member, updated))
    offer = client_assignment.offer(update, member_id, body["clientAssignors"])
    updated = progress(update, member, told, owned, offer)
    start_session(shard, update.group_id, member_id)
    response = _response(shard, body, member, updated)
    follow_up = client_assignment.follow_up(shard, update.group_id, updated, offer, response)
    return Outcome(update.records, response, follow_up)


def progress(
    update: GroupUpdate,
    member: Member,
    told: Subscription,
    owned: Owned,
    offer: client_assignment.Offer | None = None,
) -> Member:
    """Take over what a member tells and take it a step further; the records are added to the update.

    Args:
        update: the group.
        member: the member as it was, or a new one.
        told: its subscription from now on.
        owned: what its client says it owns.
        offer: what it means for an assignment on the client's side, None where there is no such thing.

    Returns:
        The member as it is now.

    Raises:
        RequestError: INVALID_REGULAR_EXPRESSION, UNKNOWN_SERVER_ERROR.
    """
    changed = Member(member.member_id, told, current_of(member), member.target)
    has_new_names = note_subscription(update, member, told)
    before = member.subscription.regex if member.subscription is not None else None
    expression = update_expression(update, before, told.regex)
    is_bumped = has_new_names or expression is Change.CHANGED_AND_RESOLVED or (offer is not None and offer.is_new)
    epoch, homogeneous = update.group.epoch, None
    if is_bumped or update.state.metadata_has_expired(update.shard.now_ms, epoch):
        epoch, homogeneous = update_epoch(update, member, changed, is_bumped=is_bumped)
    if homogeneous is None:
        homogeneous = update.state.is_homogeneous()
    if offer is not None and offer.name is not None:
        target_epoch, target = update.group.assignment_epoch, last_target(update, changed)
    else:
        target_epoch, target = update_target(update, epoch, member, changed, homogeneous=homogeneous)
    has_changed = has_new_names or expression is not Change.NONE
    return reconcile(update, changed, target_epoch, target, owned, has_subscription_changed=has_changed)


def note_subscription(update: GroupUpdate, member: Member, told: Subscription) -> bool:
    """Write down what a member tells where it is new; True where its names are others."""
    before = member.subscription
    if before is not None and before == told and member.member_id in update.group.members:
        return False
    if before == told and not update.is_new and _is_replacing(update, member):
        return False
    update.records.append(new_records.member_metadata(update.group_id, member.member_id, member_value(told)))
    return before is None or frozenset(before.topics or ()) != frozenset(told.topics or ())


def _is_replacing(update: GroupUpdate, member: Member) -> bool:
    """The records of a replaced static member are already under the new id."""
    instance_id = member.subscription.instance_id if member.subscription is not None else None
    return instance_id is not None and instance_id in update.state.static_members


def reconcile(
    update: GroupUpdate,
    member: Member,
    target_epoch: int,
    target: Assignment,
    owned: Owned,
    *,
    has_subscription_changed: bool,
) -> Member:
    """Take a member a step towards its target, unless it is there; writes down what has changed."""
    current = current_of(member)
    is_there = current.state is MemberState.STABLE and current.epoch == target_epoch
    if is_there and not has_subscription_changed:
        return member
    names = subscribed_names(update.group, member.subscription or Subscription())
    by_name = update.shard.topics.by_name
    step = Step(
        current,
        target_epoch,
        target,
        frozenset(by_name[name].topic_id for name in names if name in by_name),
        bool(names),
        has_subscription_changed,
        owned,
        update.group.reconciliation.owners,
    )
    reached = step.take()
    if is_same(reached, current):
        return member
    moved = member._replace(current=reached)
    update.records.append(new_records.current_assignment(update.group_id, member.member_id, current_value(reached)))
    follow_reconciliation(update.shard, update.group_id, moved)
    return moved


def group_to_join(shard: Shard, group_id: str) -> GroupUpdate:
    """The group a member wants to join: there, new, in place of an empty classic one, or made of one with members.

    Raises:
        RequestError: GROUP_ID_NOT_FOUND, the group is of a type that can't be joined.
    """
    live = shard.classic_group(group_id)
    if live is None:
        return new_group(shard, group_id) if shard.group(group_id) is None else existing_group(shard, group_id)
    if live.state is GroupState.EMPTY:
        update = new_group(shard, group_id)
        update.records.append(new_records.classic_group_tombstone(group_id))
        return update
    update, sessions = conversion.upgrade(shard, live)
    for member_id, timeout_ms in sessions.items():
        start_session(shard, group_id, member_id, timeout_ms)
    return update


def told_by_heartbeat(before: Subscription | None, request: Request) -> Subscription:
    """A member's subscription after a heartbeat: what the request leaves out stays as it was."""
    body = request.body
    old = before or Subscription()
    names, regex = body["subscribedTopicNames"], body["subscribedTopicRegex"]
    return Subscription(
        _else(body["instanceId"], old.instance_id),
        _else(body["rackId"], old.rack_id),
        request.client_id,
        f"/{request.client_host}",
        (old.topics or ()) if names is None else tuple(sorted(set(names))),
        old.regex if regex is None else (regex or None),
        _else(body["serverAssignor"], old.assignor),
        old.rebalance_timeout_ms if body["rebalanceTimeoutMs"] == -1 else body["rebalanceTimeoutMs"],
    )


def _else(value: str | None, old: str | None) -> str | None:
    return old if value is None else value


def _group_to_beat(shard: Shard, group_id: str) -> GroupUpdate:
    if shard.group(group_id) is None:
        raise RequestError("GROUP_ID_NOT_FOUND", f"Consumer group {group_id} not found.")
    return existing_group(shard, group_id)


def _member(update: GroupUpdate, member_id: str, body: Mapping[str, Any], *, is_joining: bool) -> Member:
    instance_id = body["instanceId"]
    if instance_id is None:
        member = dynamic_member(update, member_id, is_joining=is_joining)
        check_epoch(member, body["memberEpoch"], body["topicPartitions"])
        return member
    member = static_member(update, member_id, instance_id, is_joining=is_joining, uses_classic_protocol=False)
    if not is_joining:
        check_epoch(member, body["memberEpoch"], body["topicPartitions"])
    return member


def _response(shard: Shard, body: Mapping[str, Any], before: Member, after: Member) -> Body:
    current = current_of(after)
    is_full = (
        body["rebalanceTimeoutMs"] != -1
        and (body["subscribedTopicNames"] is not None or body["subscribedTopicRegex"] is not None)
        and body["topicPartitions"] is not None
    )
    response: Body = {
        "memberId": after.member_id,
        "memberEpoch": current.epoch,
        "heartbeatIntervalMs": shard.config.group_number(body["groupId"], "consumer.heartbeat.interval.ms"),
    }
    if body["memberEpoch"] == 0 or is_full or assigned(current_of(before)) != assigned(current):
        response["assignment"] = {"topicPartitions": as_topics(current.assigned or NOTHING)}
    return response


def _leave(shard: Shard, body: Mapping[str, Any]) -> Outcome:
    update = existing_group(shard, body["groupId"])
    member_id, epoch, instance_id = body["memberId"], body["memberEpoch"], body["instanceId"]
    response = {"memberId": member_id, "memberEpoch": epoch}
    if instance_id is None:
        return fence(update, [dynamic_member(update, member_id, is_joining=False)], response)
    member = owning_static_member(update.static_member(instance_id), member_id, instance_id)
    if epoch == LEFT_EPOCH:
        return fence(update, [member], response)
    return Outcome([_away(update, member)], response)


def _away(update: GroupUpdate, member: Member) -> new_records.NewRecord:
    """A static member leaves for a restart: it keeps what it has, at epochs that say nothing."""
    current = current_of(member)
    zeros = {topic_id: (0,) * len(numbers) for topic_id, numbers in (current.assigned or NOTHING).items()}
    value = current_value(current._replace(epoch=AWAY_EPOCH, pending=NOTHING, pending_epochs=NOTHING))
    value["assignedPartitions"] = with_epochs(current.assigned or NOTHING, zeros, 0)
    return new_records.current_assignment(update.group_id, member.member_id, value)
