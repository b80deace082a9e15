"""Group epoch and target assignment of a consumer group.

Mirrors ``GroupMetadataManager.updateSubscriptionMetadata`` and ``maybeUpdateTargetAssignment`` with
``TargetAssignmentBuilder``.
"""

from collections.abc import Mapping, Sequence

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import NOTHING, Assignment, Member, Subscription
from coordinator_replay.java_strings import string_hash
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.assignor.server import (
    ASSIGNORS,
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
)
from coordinator_replay.simulation.coordinator.consumer.members import GroupUpdate
from coordinator_replay.simulation.coordinator.consumer.topic_regex_resolver import METADATA_REFRESH_INTERVAL_MS
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.java_order import HashOrder, TimelineOrder, hash_set
from coordinator_replay.simulation.coordinator.metadata_hash import group_hash


def update_epoch(update: GroupUpdate, old: Member, new: Member, *, is_bumped: bool) -> tuple[int, bool]:
    """Raise the group epoch if this is requested or if the metadata hash has changed.

    Args:
        update: the group; the function adds the record of the new epoch to ``update.records``.
        old: the member before the operation.
        new: the member after the operation.
        is_bumped: whether to raise the epoch even if the metadata hash is unchanged.

    Returns:
        The group epoch, and whether all members subscribe to the same topics, as far as the coordinator knows.
    """
    group, state, shard = update.group, update.state, update.shard
    before, after = old.subscription_or_empty, new.subscription_or_empty
    is_known = new.member_id in group.members or after.instance_id in state.static_members
    subscriptions = state.subscriptions.replaced(before if is_known else None, after)
    expressions = subscriptions.expressions
    regexes = {expression: regex for expression, regex in group.regexes.items() if expression in expressions}
    metadata_hash = group_hash(subscriptions.topics(regexes), shard.topics)
    epoch = group.epoch
    if metadata_hash != group.reconciliation.metadata_hash:
        shard.note(f"Computed new metadata hash: {metadata_hash}.")
    if is_bumped or metadata_hash != group.reconciliation.metadata_hash:
        epoch += 1
        update.records.append(record_helpers.group_epoch(update.group_id, epoch, metadata_hash))
    state.refresh_at_ms, state.refresh_epoch = shard.now_ms + METADATA_REFRESH_INTERVAL_MS, epoch
    if state.has_partition_metadata:
        update.records.append(record_helpers.tombstone("ConsumerGroupPartitionMetadata", groupId=update.group_id))
    return epoch, subscriptions.are_homogeneous(regexes)


def update_target(
    update: GroupUpdate, epoch: int, old: Member, new: Member, *, homogeneous: bool
) -> tuple[int, Assignment]:
    """Compute the target assignment if it is out of date.

    The target is computed if two conditions hold: the group epoch is above the assignment epoch, and
    ``consumer.assignment.interval.ms`` has passed since the last computation. Otherwise the last target stays.

    Args:
        update: the group; the function adds the records of a new target to ``update.records``.
        epoch: the group epoch.
        old: the member before the operation.
        new: the member after the operation.
        homogeneous: whether all members subscribe to the same topics, as far as the coordinator knows.

    Returns:
        The assignment epoch, and the target of ``new``.

    Raises:
        RequestError: UNKNOWN_SERVER_ERROR, the assignor fails.
    """
    reconciliation = update.group.reconciliation
    if reconciliation.assignment_epoch >= epoch or not _is_due(update):
        return reconciliation.assignment_epoch, last_target(update, new)
    try:
        assignments, order = _computed(update, old, new, homogeneous=homogeneous)
    except PartitionAssignorError as error:
        raise RequestError(
            "UNKNOWN_SERVER_ERROR", f"Failed to compute a new target assignment for epoch {epoch}: {error}"
        ) from error
    for member_id in order:
        target = assignments.get(member_id, NOTHING)
        before = reconciliation.target_of(member_id)
        if before is None or before.assigned != _ascending(target):
            update.records.append(record_helpers.target(update.group_id, member_id, target))
    update.records.append(record_helpers.target_epoch(update.group_id, epoch, update.shard.now_ms))
    return epoch, _ascending(assignments.get(new.member_id, NOTHING))


def _ascending(target: Assignment) -> Assignment:
    """Return an assignment with the partitions of each topic in ascending order, as the engine stores them."""
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in target.items()}


def last_target(update: GroupUpdate, member: Member) -> Assignment:
    """Return a member's last computed target; an empty assignment if there is none.

    The target of a static member is looked up by instance id, because its member id may be new.
    """
    owner = update.static_member(member.instance_id) if member.instance_id is not None else member
    return update.group.reconciliation.target_partitions(owner.member_id) if owner is not None else NOTHING


def subscribed_names(group: ConsumerGroup, subscription: Subscription) -> frozenset[str]:
    """Return the topics that a member subscribes to, by name and by its regex as far as the regex is resolved."""
    names = frozenset(subscription.topics or ())
    regex = group.regexes.get(subscription.regex) if subscription.regex is not None else None
    return names.union(regex.topics) if regex is not None else names


def preferred_assignor(group: ConsumerGroup, old: Member, new: Member, default: str) -> str:
    """Return the assignor that most members ask for after a request (``computePreferredServerAssignor``).

    The iteration order of Kafka's hash table breaks a tie.

    Args:
        group: the group before the request.
        old: the member that sent the request, before the request.
        new: the same member after the request.
        default: the result if no member asks for an assignor.
    """
    votes: HashOrder[str, int] = HashOrder.copy_of(string_hash, assignor_votes(group).items())
    before = old.subscription_or_empty.assignor
    after = new.subscription_or_empty.assignor
    if before is not None and before in votes:
        votes[before] -= 1
        if not votes[before]:
            del votes[before]
    if after is not None:
        votes.put_first(after, votes.get(after, 0) + 1)
    return max(votes, key=lambda name: votes[name], default=default)


def assignor_votes(group: ConsumerGroup) -> TimelineOrder[str, int]:
    """Return the number of members that ask for each assignor, in the order of Kafka's hash table."""
    votes: TimelineOrder[str, int] = TimelineOrder(string_hash)
    for name, count in group.assignors.items():
        votes[name] = count
    return votes


def most_wanted_assignor(group: ConsumerGroup, default: str) -> str:
    """Return the assignor that most members ask for; ``default`` if no member asks for an assignor.

    The iteration order of Kafka's hash table breaks a tie.
    """
    votes = assignor_votes(group)
    return max(votes, key=lambda name: votes[name], default=default)


def _is_due(update: GroupUpdate) -> bool:
    computed_ms = update.group.reconciliation.assignment_timestamp_ms
    interval_ms = update.shard.config.group_number(update.group_id, "consumer.assignment.interval.ms")
    return not computed_ms or not interval_ms or update.shard.now_ms >= computed_ms + interval_ms


def _names_in_order(group: ConsumerGroup, subscription: Subscription, named_topics: Sequence[str] = ()) -> list[str]:
    """Return a member's subscribed topics in the order in which Kafka's assignors get them (``UnionSet``).

    Args:
        group: the group, which has the topics that regexes were resolved to.
        subscription: the member's subscription.
        named_topics: names of topics in the order of the member's request. If empty, the names of ``subscription`` are
            used in alphabetical order.
    """
    listed = named_topics or sorted(subscription.topics or ())
    regex = group.regexes.get(subscription.regex) if subscription.regex is not None else None
    resolved = sorted(regex.topics) if regex is not None else []
    names, matching = (hash_set(some, string_hash, len(some)) for some in (listed, resolved))
    larger, smaller = (names, matching) if len(names) > len(matching) else (matching, names)
    return list(dict.fromkeys([*larger, *smaller]))


def _computed(
    update: GroupUpdate, old: Member, new: Member, *, homogeneous: bool
) -> tuple[Mapping[str, Assignment], list[str]]:
    """Compute the targets of all members.

    Returns:
        The targets by member id, and the ids of all members in the order of Kafka's hash table.
    """
    shard, group = update.shard, update.group
    members: HashOrder[str, MemberSpec] = HashOrder(string_hash)
    ids_by_subscription: dict[tuple[object, object], tuple[tuple[str, ...], int]] = {}

    def spec(member: Member, target: Assignment, named_topics: Sequence[str] = ()) -> MemberSpec:
        subscription = member.subscription_or_empty
        key = (tuple(named_topics) or subscription.topics, subscription.regex)
        interned = ids_by_subscription.get(key)
        if interned is None:
            names = _names_in_order(group, subscription, named_topics)
            by_name = shard.topics.by_name
            ids = tuple(by_name[name].topic_id for name in names if name in by_name)
            interned = ids_by_subscription[key] = ids, len(names)
        return MemberSpec(subscription.instance_id, *interned, target)

    state, targets = update.state, update.state.targets
    for member_id in state.members:
        members[member_id] = spec(group.members[member_id], targets.get(member_id, NOTHING))
    target_now = targets.get(new.member_id, NOTHING)
    instance_id = new.subscription_or_empty.instance_id
    replaced = state.static_members.get(instance_id) if instance_id is not None else None
    if replaced is not None and replaced != new.member_id:
        target_now = targets.get(replaced, NOTHING)
        members.pop(replaced, None)
    members[new.member_id] = spec(new, target_now, update.named_topics)
    name = preferred_assignor(group, old, new, shard.config.assignors[0])
    order = list(members)
    ordered = {member_id: members[member_id] for member_id in order}
    assigned = group.reconciliation.target_owners
    return ASSIGNORS[name](GroupSpec(ordered, homogeneous, shard.topics.by_id, assigned)), order
