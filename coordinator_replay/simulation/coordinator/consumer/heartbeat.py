"""ConsumerGroupHeartbeat: the consumer group protocol of KIP-848.

Mirrors ``GroupMetadataManager.consumerGroupHeartbeat``: find the group and the member, take over the member's
subscription, raise the group epoch, compute the target assignment, take the member one step towards this target. The
records of all steps are one batch, in the order of the steps.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coordinator_replay.engine.model import (
    AWAY_EPOCH,
    LEFT_EPOCH,
    NOTHING,
    Assignment,
    GroupState,
    Member,
    MemberState,
    Subscription,
)
from coordinator_replay.java_strings import string_hash
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.consumer import conversion
from coordinator_replay.simulation.coordinator.consumer.current_assignment_builder import (
    CurrentAssignmentBuilder,
    Owned,
    as_topics,
    assigned,
    is_same,
    with_epochs,
)
from coordinator_replay.simulation.coordinator.consumer.members import (
    GroupUpdate,
    check_epoch,
    check_size,
    current_of,
    current_value,
    dynamic_member,
    existing_group,
    existing_member,
    member_value,
    new_group,
    static_member,
)
from coordinator_replay.simulation.coordinator.consumer.target_assignment_builder import (
    last_target,
    subscribed_names,
    update_epoch,
    update_target,
)
from coordinator_replay.simulation.coordinator.consumer.timers import fence, follow_reconciliation, start_session
from coordinator_replay.simulation.coordinator.consumer.topic_regex_resolver import update_expression
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.java_order import hash_set
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.messages import Body, Request
from coordinator_replay.simulation.coordinator.operations import Outcome, Reply
from coordinator_replay.simulation.coordinator.shard import Shard

MADE_BY_MEMBER_VERSION = 1
"""From this version on, members make their own ids."""

Check = tuple[str, Callable[[Mapping[str, Any], int], bool]]

CHECKS: tuple[Check, ...] = (
    (
        "MemberId can't be empty.",
        lambda body, version: (
            not body["memberId"].strip()
            and (version >= MADE_BY_MEMBER_VERSION or body["memberEpoch"] > 0 or body["memberEpoch"] == LEFT_EPOCH)
        ),
    ),
    ("GroupId can't be empty.", lambda body, _: not body["groupId"].strip()),
    ("InstanceId can't be empty.", lambda body, _: _is_blank(body["instanceId"])),
    ("RackId can't be empty.", lambda body, _: _is_blank(body["rackId"])),
    (
        "RebalanceTimeoutMs must be provided in first request.",
        lambda body, _: body["memberEpoch"] == 0 and body["rebalanceTimeoutMs"] == -1,
    ),
    (
        "TopicPartitions must be empty when (re-)joining.",
        lambda body, _: body["memberEpoch"] == 0 and body["topicPartitions"] != [],
    ),
    (
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        lambda body, _: (
            body["memberEpoch"] == 0 and body["subscribedTopicNames"] is None and body["subscribedTopicRegex"] is None
        ),
    ),
    (
        "InstanceId can't be null.",
        lambda body, _: body["memberEpoch"] == AWAY_EPOCH and body["instanceId"] is None,
    ),
    ("MemberEpoch is invalid.", lambda body, _: body["memberEpoch"] < AWAY_EPOCH),
)
"""Reasons to refuse a heartbeat before the group is examined: pairs of a message and a condition. The first true
condition counts."""


def heartbeat(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle a heartbeat: a member joins, leaves, changes its subscription, or shows that it is alive.

    Raises:
        RequestError: the request is refused; nothing changes.
    """
    check_fields(request)
    check_assignor(shard, request.body)
    if is_leaving(request.body):
        return leave(shard, request.body)
    update, member, subscription = find_member(shard, request)
    updated = progress(update, member, subscription, request.body["topicPartitions"])
    start_session(shard, update.group_id, updated.member_id)
    return Outcome(update.records, response_of(shard, request.body, member, updated))


def check_fields(request: Request, checks: Iterable[Check] = CHECKS) -> None:
    """Refuse a request whose fields Kafka refuses before it examines the group.

    Raises:
        RequestError: INVALID_REQUEST.
    """
    for message, is_refused in checks:
        if is_refused(request.body, request.version or 0):
            raise RequestError("INVALID_REQUEST", message)


def check_assignor(shard: Shard, body: Mapping[str, Any]) -> None:
    """Refuse an assignor that the broker does not have.

    Raises:
        RequestError: UNSUPPORTED_ASSIGNOR.
    """
    assignor = body["serverAssignor"]
    if assignor is not None and assignor not in shard.config.assignors:
        supported = ", ".join(hash_set(shard.config.assignors, string_hash))
        raise RequestError(
            "UNSUPPORTED_ASSIGNOR", f"ServerAssignor {assignor} is not supported. Supported assignors: {supported}."
        )


def is_leaving(body: Mapping[str, Any]) -> bool:
    """Return whether a heartbeat says that the member leaves. A static member may leave only for a restart."""
    return body["memberEpoch"] in (LEFT_EPOCH, AWAY_EPOCH)


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def find_member(shard: Shard, request: Request) -> tuple[GroupUpdate, Member, Subscription]:
    """Return the group, the member before the request (or a new member), and the subscription after the request.

    Raises:
        RequestError: the group or the member does not exist, the group is full, or the member is fenced.
    """
    body = request.body
    is_joining = body["memberEpoch"] == 0
    update = group_to_join(shard, body["groupId"]) if is_joining else _group_to_beat(shard, body["groupId"])
    check_size(update, body["memberId"])
    member = _member(update, body["memberId"] or shard.ids.short(), body, is_joining=is_joining)
    update.named_topics = body["subscribedTopicNames"] or ()
    return update, member, subscription_after(member.subscription, request)


def progress(
    update: GroupUpdate,
    member: Member,
    subscription: Subscription,
    owned: Owned,
    *,
    is_bumped: bool = False,
    keeps_target: bool = False,
) -> Member:
    """Store a member's new subscription, and reconcile the member with its target assignment by one step.

    Args:
        update: the group; the function adds records to ``update.records``.
        member: the member before the request, or a new member.
        subscription: the member's subscription from now on.
        owned: the partitions that the member's client says it owns.
        is_bumped: whether to raise the group epoch even if the subscription does not require it.
        keeps_target: whether to keep the present target assignment, even if the group epoch was raised since.

    Returns:
        The member as it is now.

    Raises:
        RequestError: INVALID_REGULAR_EXPRESSION, or UNKNOWN_SERVER_ERROR if the assignor fails.
    """
    changed, epoch, homogeneous, has_changed = take_over(update, member, subscription, is_bumped=is_bumped)
    if keeps_target:
        target_epoch, target = update.group.assignment_epoch, last_target(update, changed)
    else:
        target_epoch, target = update_target(update, epoch, member, changed, homogeneous=homogeneous)
    return reconcile(update, changed, target_epoch, target, owned, has_subscription_changed=has_changed)


def take_over(
    update: GroupUpdate, member: Member, subscription: Subscription, *, is_bumped: bool = False
) -> tuple[Member, int, bool, bool]:
    """Store a member's new subscription, and raise the group epoch if the subscription requires it.

    Returns:
        Four values: the member with its new subscription, the group epoch, whether all members subscribe to the same
        topics (as far as the coordinator knows), and whether the topic names or the regex of this member have changed.

    Raises:
        RequestError: INVALID_REGULAR_EXPRESSION.
    """
    changed = Member(member.member_id, subscription, current_of(member), member.target)
    has_new_names = note_subscription(update, member, subscription)
    has_new_expression, is_resolved = update_expression(update, member.subscription_or_empty.regex, subscription.regex)
    is_bumped = is_bumped or has_new_names or (has_new_expression and is_resolved)
    epoch, homogeneous = update.group.epoch, None
    if is_bumped or update.state.metadata_has_expired(update.shard.now_ms, epoch):
        epoch, homogeneous = update_epoch(update, member, changed, is_bumped=is_bumped)
    if homogeneous is None:
        homogeneous = update.state.is_homogeneous
    return changed, epoch, homogeneous, has_new_names or has_new_expression


def note_subscription(update: GroupUpdate, member: Member, subscription: Subscription) -> bool:
    """Add the record of a member's subscription to the group's records, if the subscription has changed.

    Return whether the names of subscribed topics have changed.
    """
    before = member.subscription
    if before is not None and before == subscription and member.member_id in update.group.members:
        return False
    if before == subscription and not update.is_new and _is_replacing(update, member):
        return False
    update.records.append(record_helpers.member_metadata(update.group_id, member.member_id, member_value(subscription)))
    is_changed = before is None or frozenset(before.topics or ()) != frozenset(subscription.topics or ())
    if is_changed:
        topics = ", ".join(subscription.topics or ())
        update.shard.note(f"Member {member.member_id} updated its subscribed topics to: [{topics}].")
    return is_changed


def _is_replacing(update: GroupUpdate, member: Member) -> bool:
    """Return whether the member has taken the place of a static member in this request."""
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
    """Take a member a step towards its target, and return the member after the step.

    If the current assignment changes, add its record to the group's records. Do nothing if the member has reached its
    target and its subscription is unchanged.
    """
    current = current_of(member)
    is_there = current.state is MemberState.STABLE and current.epoch == target_epoch
    if is_there and not has_subscription_changed:
        return member
    names = subscribed_names(update.group, member.subscription_or_empty)
    by_name = update.shard.topics.by_name
    builder = CurrentAssignmentBuilder(
        current,
        target_epoch,
        target,
        frozenset(by_name[name].topic_id for name in names if name in by_name),
        bool(names),
        has_subscription_changed,
        owned,
        update.group.reconciliation.owners,
    )
    reached = builder.build()
    if is_same(reached, current):
        return member
    moved = member._replace(current=reached)
    update.records.append(record_helpers.current_assignment(update.group_id, member.member_id, current_value(reached)))
    follow_reconciliation(update.shard, update.group_id, moved)
    return moved


def group_to_join(shard: Shard, group_id: str) -> GroupUpdate:
    """Return the group that a member joins.

    This is an existing group, a new group, or a converted classic group.

    Raises:
        RequestError: GROUP_ID_NOT_FOUND, the group has a type that can't be joined.
    """
    live = shard.group(group_id)
    if live is None:
        return new_group(shard, group_id)
    if not isinstance(live, LiveClassicGroup):
        return existing_group(shard, group_id)
    if live.state is GroupState.EMPTY:
        update = new_group(shard, group_id)
        update.records.append(record_helpers.tombstone("GroupMetadata", group=group_id))
        shard.note("Converted the empty classic group to a consumer group.")
        return update
    update, sessions = conversion.upgrade(shard, live)
    for member_id, timeout_ms in sessions.items():
        start_session(shard, group_id, member_id, timeout_ms)
    return update


def subscription_after(before: Subscription | None, request: Request) -> Subscription:
    """Return a member's subscription after a heartbeat.

    Fields that the request leaves out stay unchanged.
    """
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
    else:
        member = static_member(update, member_id, instance_id, is_joining=is_joining, uses_classic_protocol=False)
    check_epoch(member, body["memberEpoch"], body["topicPartitions"])
    return member


def response_of(shard: Shard, body: Mapping[str, Any], before: Member, after: Member) -> Body:
    """Return the response to a heartbeat.

    The response has the member's assignment in three cases:

    - The assignment has changed.
    - The member joins.
    - The request has the rebalance timeout, a subscription and the partitions that the client owns.
    """
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


def leave(shard: Shard, body: Mapping[str, Any]) -> Outcome:
    """Handle the heartbeat of a member that leaves.

    The member is removed. A static member that leaves only for a restart stays in the group.

    Raises:
        RequestError: the group or the member does not exist.
    """
    update = existing_group(shard, body["groupId"])
    member_id, epoch, instance_id = body["memberId"], body["memberEpoch"], body["instanceId"]
    response = {"memberId": member_id, "memberEpoch": epoch}
    member = existing_member(update, member_id, instance_id)
    if instance_id is None or epoch == LEFT_EPOCH:
        who = "Member {}" if instance_id is None else f"Static member {{}} with instance id {instance_id}"
        return fence(update, [member], response, f"{who} left the consumer group.")
    return Outcome([_away(update, member)], response)


def _away(update: GroupUpdate, member: Member) -> record_helpers.NewRecord:
    """Return the record of a static member that leaves for a restart.

    The member keeps its partitions, each with epoch 0.
    """
    current = current_of(member)
    zeros = {topic_id: (0,) * len(numbers) for topic_id, numbers in (current.assigned or NOTHING).items()}
    value = current_value(current._replace(epoch=AWAY_EPOCH, pending=NOTHING, pending_epochs=NOTHING))
    value["assignedPartitions"] = with_epochs(current.assigned or NOTHING, zeros, 0)
    return record_helpers.current_assignment(update.group_id, member.member_id, value)
