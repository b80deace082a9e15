"""Conversions between classic and consumer groups: online upgrade and downgrade.

When a KIP-848 member joins a classic group, the group becomes a consumer group (``upgrade``). When the last KIP-848
member leaves, or a classic static member takes its place, the group becomes a classic group again (``downgrade``).
``group.consumer.migration.policy`` sets which conversions are allowed. Mirrors ``convertToConsumerGroup`` and
``convertToClassicGroup`` of ``GroupMetadataManager``, ``ConsumerGroup.fromClassicGroup`` and
``ClassicGroup.fromConsumerGroup``.

Timers of the other protocol keep running. When they fire, they find another type of group and do nothing.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import NOTHING, Assignment, Current, GroupState, Member, MemberState, Record
from coordinator_replay.engine.reconciliation import assign_partitions
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.java_strings import string_hash
from coordinator_replay.records.blobs import (
    BlobError,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.assignor.server.group_spec import uuid_hash
from coordinator_replay.simulation.coordinator.classic.rebalance import (
    prepare_rebalance,
    refuse_join,
    schedule_heartbeat,
)
from coordinator_replay.simulation.coordinator.consumer.members import (
    GroupUpdate,
    consumer_group_tombstones,
    current_of,
    current_value,
    member_value,
)
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.java_order import HashOrder, TimelineOrder, hash_set
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.live_groups.consumer_group import ConsumerState
from coordinator_replay.simulation.coordinator.metadata_hash import group_hash
from coordinator_replay.simulation.coordinator.operations import Outcome
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import PARTITION, Shard
from coordinator_replay.simulation.coordinator.topics import Topics

# -- upgrade ---------------------------------------------------------------------------------------------------------


def upgrade(shard: Shard, live: LiveClassicGroup) -> tuple[GroupUpdate, dict[str, int]]:
    """Convert a classic group with members to a consumer group.

    All members keep their assignments, and are in the state STABLE. Their member epoch is the group's last generation.
    Requests that wait for an answer are answered with REBALANCE_IN_PROGRESS.

    Returns:
        The consumer group with the records to write, and the session timeout of each member by member id.

    Raises:
        RequestError: GROUP_ID_NOT_FOUND if the group can't be converted. UNKNOWN_SERVER_ERROR if a subscription is
            damaged, or if two members have the same partition.
    """
    _check_upgrade(shard, live)
    _answer_parked(live)
    group_id, generation = live.group_id, live.generation
    try:
        members = [_upgraded(live, member, shard.topics) for member in live.members.values()]
    except BlobError as problem:
        if not problem.is_expected:
            raise RequestError("UNKNOWN_SERVER_ERROR", str(problem)) from None
        raise _not_upgraded(group_id, "because the embedded consumer protocol is malformed.") from None
    _check_owners(members)
    order: TimelineOrder[str, Member] = TimelineOrder(string_hash)
    for member in members:
        order[member.member_id] = member
    names = {topic for member in members for topic in member.subscription_or_empty.topics or ()}
    records = [
        *(
            record_helpers.member_metadata(group_id, key, member_value(member.subscription_or_empty))
            for key, member in order.items()
        ),
        record_helpers.group_epoch(group_id, generation, group_hash(names, shard.topics)),
        *(
            record_helpers.target(group_id, key, current_of(member).assigned or NOTHING)
            for key, member in order.items()
        ),
        record_helpers.target_epoch(group_id, generation, 0),
        *(
            record_helpers.current_assignment(group_id, key, current_value(current_of(member)))
            for key, member in order.items()
        ),
    ]
    group, state = _replayed(shard, group_id, records)
    state.members = TimelineOrder(string_hash)
    for member in members:
        state.members[member.member_id] = None
    tombstone = record_helpers.tombstone("GroupMetadata", group=group_id)
    shard.note("Converted the classic group to a consumer group.")
    update = GroupUpdate(shard, group_id, group, state, records=[tombstone, *records])
    return update, {key: member.subscription_or_empty.session_timeout_ms or 0 for key, member in order.items()}


def _check_upgrade(shard: Shard, live: LiveClassicGroup) -> None:
    if not shard.config.allows_upgrade:
        raise _not_upgraded(live.group_id, "because online upgrade is disabled.")
    if live.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _not_upgraded(live.group_id, "because the group does not use the consumer embedded protocol.")
    if len(live.members) > shard.config.number("group.consumer.max.size"):
        raise _not_upgraded(live.group_id, "because the group size exceeds the consumer group maximum size.")


def _not_upgraded(group_id: str, reason: str) -> RequestError:
    return RequestError("GROUP_ID_NOT_FOUND", f"Cannot upgrade classic group {group_id} to consumer group {reason}")


def _answer_parked(live: LiveClassicGroup) -> None:
    for member_id in live.members:
        join = live.waiting_joins.pop(member_id, None)
        if join is not None:
            refuse_join(join, "REBALANCE_IN_PROGRESS", member_id)
    for member_id in live.members:
        sync = live.waiting_syncs.pop(member_id, None)
        if sync is not None:
            sync.send(RequestError("REBALANCE_IN_PROGRESS"))


def _upgraded(group: LiveClassicGroup, member: Member, topics: Topics) -> Member:
    """Convert a member of a classic group to a member of a consumer group.

    Raises:
        BlobError: the member's subscription or assignment can't be read.
        RequestError: GROUP_ID_NOT_FOUND, the member's assignment has user data, which a consumer group can't store.
    """
    blob = current_of(member).assignment_bytes
    assigned: Assignment = NOTHING
    if blob:
        assignment = read_assignment(blob)
        if assignment.user_data:
            raise _not_upgraded(
                group.group_id,
                "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                "default assignor before re-attempting the upgrade.",
            )
        assigned = _by_id(assignment.partitions, topics)
    subscription = member.subscription_or_empty
    metadata = read_subscription(group.metadata(member))
    epoch = group.generation
    epochs = {topic_id: (epoch,) * len(numbers) for topic_id, numbers in assigned.items()}
    return Member(
        member.member_id,
        subscription._replace(
            rack_id=metadata.rack_id or None,
            topics=tuple(sorted(set(metadata.topics))),
            uses_classic_protocol=True,
        ),
        Current(epoch, epoch, MemberState.STABLE, assigned, assigned_epochs=epochs),
    )


def _by_id(partitions: Iterable[tuple[str, tuple[int, ...]]], topics: Topics) -> Assignment:
    """Convert partitions by topic name to partitions by topic id, in Kafka's order.

    Topics that do not exist are left out.
    """
    assignment: HashOrder[str, tuple[int, ...]] = HashOrder(uuid_hash)
    for name, numbers in partitions:
        topic = topics.by_name.get(name)
        if topic is not None:
            assignment[topic.topic_id] = tuple(sorted(set(numbers)))
    return dict(assignment.items())


def _check_owners(members: Iterable[Member]) -> None:
    """Check that no partition is assigned to two members.

    Raises:
        RequestError: UNKNOWN_SERVER_ERROR.
    """
    gains = [(member.member_id, NOTHING, current_of(member).assigned or NOTHING) for member in members]
    for topic_id, number, _, _ in assign_partitions({}, gains):
        raise RequestError("UNKNOWN_SERVER_ERROR", f"{topic_id}-{number} is still owned")


def _replayed(shard: Shard, group_id: str, records: Iterable[NewRecord]) -> tuple[ConsumerGroup, ConsumerState]:
    """Replay records that are not written yet, and return the resulting group and its state."""
    replay, state = StateReplay(group_id), ConsumerState()
    for at, record in enumerate(records):
        written = Record(record.kind, record.key, record.value, PARTITION, at, shard.now_ms)
        replay.apply(written)
        if isinstance(replay.group, ConsumerGroup):
            state.take(written, replay.group)
    replay.finish()
    if not isinstance(replay.group, ConsumerGroup):
        raise RequestError("UNKNOWN_SERVER_ERROR", f"group {group_id} has no member left to upgrade")
    return replay.group, state


# -- downgrade -------------------------------------------------------------------------------------------------------


def downgrade_is_due(update: GroupUpdate, leaving: Set[str]) -> bool:
    """Return whether the group must become a classic group when some members leave.

    This is the case if other members remain, all of them use the classic protocol, and the configuration allows it.

    Args:
        update: the group, a consumer group.
        leaving: the ids of the members that leave.
    """
    left = [member for member_id, member in update.group.members.items() if member_id not in leaving]
    return (
        bool(left)
        and all(member.subscription_or_empty.uses_classic_protocol for member in left)
        and _may_be_classic(update.shard, len(left))
    )


def replacement_downgrade_is_due(update: GroupUpdate, replaced: Member) -> bool:
    """Return whether a classic member that takes the place of ``replaced`` makes the group a classic group.

    Args:
        update: the group, a consumer group.
        replaced: the static member whose place the classic member takes.
    """
    members, classic = update.group.members, update.classic_members()
    return replaced not in classic and len(classic) == len(members) - 1 and _may_be_classic(update.shard, len(members))


def _may_be_classic(shard: Shard, size: int) -> bool:
    return shard.config.allows_downgrade and size <= shard.config.number("group.max.size")


def downgrade_after_leaving(update: GroupUpdate, leaving: Set[str], response: Mapping[str, Any] | None) -> Outcome:
    """Convert a consumer group to a classic group without the members that leave, and start a rebalance."""
    members = [update.group.members[member_id] for member_id in update.state.members if member_id not in leaving]
    update.records += consumer_group_tombstones(update.shard, update.group)
    reason = f"Downgrade group {update.group_id} from consumer to classic for member leaving."
    _become_classic(update, members, {}, reason)
    return Outcome(update.records, response)


def downgrade_by_replacement(update: GroupUpdate, replaced: Member, joining: Member, *, rebalances: bool) -> None:
    """Convert a consumer group to a classic group, because a classic member replaces the last KIP-848 member.

    Args:
        update: the group; the function adds records to ``update.records``.
        replaced: the last member that uses KIP-848, a static member.
        joining: the classic member that replaces ``replaced``.
        rebalances: whether the members must join again.
    """
    renamed = {replaced.member_id: joining.member_id}
    members = [update.group.members[member_id] for member_id in update.state.members if member_id != replaced.member_id]
    update.records += consumer_group_tombstones(update.shard, update.group, renamed)
    reason = (
        f"Downgrade group {update.group_id} from consumer to classic with stale assignment." if rebalances else None
    )
    _become_classic(update, [*members, joining], {joining.member_id: replaced.member_id}, reason)


def _become_classic(
    update: GroupUpdate, members: Iterable[Member], old_ids: Mapping[str, str], rebalance_reason: str | None
) -> None:
    shard = update.shard
    group = LiveClassicGroup(update.group_id, shard.now_ms)
    group.generation, group.protocol_type = update.group.epoch, CONSUMER_PROTOCOL_TYPE
    group.state = GroupState.STABLE
    for member in members:
        subscription = member.subscription_or_empty._replace(topics=None, rack_id=None, regex=None, assignor=None)
        group.add(Member(member.member_id, subscription), protocol_type=CONSUMER_PROTOCOL_TYPE)
    group.protocol = group.select_protocol()
    group.topics = group.computed_topics()
    targets = {
        member_id: update.group.reconciliation.target_partitions(old_ids.get(member_id, member_id))
        for member_id in group.members
    }
    try:
        group.set_assignments(
            {
                member_id: target_blob(targets[member_id], group.metadata(member), shard.topics)
                for member_id, member in group.members.items()
            }
        )
    except BlobError as error:
        raise RequestError(
            "GROUP_ID_NOT_FOUND", f"Cannot downgrade the classic group {update.group_id}: {error}."
        ) from None
    update.records.append(group.record())
    shard.classic_groups[update.group_id] = group
    for member_id in group.members:
        schedule_heartbeat(shard, group, member_id)
    if rebalance_reason is not None:
        prepare_rebalance(shard, group, rebalance_reason)
    shard.note("Converted the consumer group to a classic group.")


def target_blob(assignment: Assignment, metadata: str, topics: Topics) -> str:
    """Return an assignment in the form of the classic protocol, as base64 text.

    The assignment has the version of the consumer's subscription. Topics and partitions are in the order of Kafka's
    hash tables. Deleted topics are left out.

    Args:
        assignment: partitions by topic id.
        metadata: the consumer's subscription, as base64 text.
        topics: the topics of the cluster.

    Raises:
        BlobError: the subscription has no version, or a negative one.
    """
    version = read_version(metadata)
    if version < 0:
        raise BlobError(f"version {version}")
    by_name = {
        topics.by_id[topic_id].name: list(hash_set(numbers := assignment[topic_id], int, len(numbers)))
        for topic_id in hash_set(assignment, uuid_hash)
        if topic_id in topics.by_id
    }
    return write_assignment(by_name, version)
