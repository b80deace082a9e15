"""The inner state of all groups as JSON, for comparison with the state of Kafka's own coordinator."""

from typing import Any

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import Member
from coordinator_replay.simulation.coordinator.consumer.current_assignment_builder import (
    PartitionEpochs,
    assigned,
    pending,
)
from coordinator_replay.simulation.coordinator.consumer.members import current_of
from coordinator_replay.simulation.coordinator.consumer.target_assignment_builder import most_wanted_assignor
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.shard import Shard

State = dict[str, Any]


def dump(shard: Shard) -> State:
    """Return the inner state of each classic and consumer group, by group id.

    The members of a consumer group are in the order of their ids.
    """
    dumped = {}
    for group_id in sorted(shard.group_ids()):
        group = shard.group(group_id)
        if isinstance(group, LiveClassicGroup):
            dumped[group_id] = _classic(group)
        elif isinstance(group, ConsumerGroup):
            dumped[group_id] = _consumer(shard, group)
    return dumped


def _classic(group: LiveClassicGroup) -> State:
    return {
        "type": "classic",
        "state": str(group.state),
        "generation": group.generation,
        "protocolType": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": [_classic_member(group, member) for member in group.members.values()],
    }


def _classic_member(group: LiveClassicGroup, member: Member) -> State:
    subscription, member_id = member.subscription_or_empty, member.member_id
    return {
        "memberId": member_id,
        "instanceId": subscription.instance_id,
        "clientId": subscription.client_id,
        "clientHost": subscription.client_host,
        "sessionTimeoutMs": subscription.session_timeout_ms,
        "rebalanceTimeoutMs": subscription.rebalance_timeout_ms,
        "assignment": current_of(member).assignment_bytes,
        "awaitingJoin": member_id in group.waiting_joins,
        "awaitingSync": member_id in group.waiting_syncs,
    }


def _consumer(shard: Shard, group: ConsumerGroup) -> State:
    state = shard.consumer_states[group.group_id]
    return {
        "type": "consumer",
        "state": str(group.state),
        "epoch": group.epoch,
        "assignmentEpoch": group.assignment_epoch,
        "assignor": most_wanted_assignor(group, "") or None,
        "metadataHash": str(group.reconciliation.metadata_hash),
        "subscriptionType": "Homogeneous" if state.is_homogeneous else "Heterogeneous",
        "classicMembers": sum(member.subscription_or_empty.uses_classic_protocol for member in group.members.values()),
        "regexes": {name: sorted(group.regexes[name].topics) for name in sorted(group.regexes)},
        "members": [_member(shard, group, group.members[member_id]) for member_id in sorted(group.members)],
    }


def _member(shard: Shard, group: ConsumerGroup, member: Member) -> State:
    subscription, current = member.subscription_or_empty, current_of(member)
    holder: str | None = member.member_id
    if subscription.instance_id is not None:
        holder = shard.consumer_states[group.group_id].static_members.get(subscription.instance_id)
    target = group.reconciliation.target_of(holder) if holder is not None else None
    return {
        "memberId": member.member_id,
        "instanceId": subscription.instance_id,
        "clientId": subscription.client_id,
        "rackId": subscription.rack_id,
        "rebalanceTimeoutMs": subscription.rebalance_timeout_ms,
        "memberEpoch": current.epoch,
        "previousMemberEpoch": current.previous_epoch,
        "memberState": str(current.state),
        "topics": sorted(subscription.topics or ()),
        "regex": subscription.regex or "",
        "assignor": subscription.assignor,
        "usesClassicProtocol": subscription.uses_classic_protocol,
        "assigned": _epochs(assigned(current)),
        "pendingRevocation": _epochs(pending(current)),
        "target": {topic_id: list(ids) for topic_id, ids in target.assigned.items()} if target is not None else {},
    }


def _epochs(partitions: PartitionEpochs) -> State:
    return {topic_id: {str(number): epoch for number, epoch in ids.items()} for topic_id, ids in partitions.items()}
