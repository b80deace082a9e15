"""Removal of offsets without a request: after their retention, or when their topic was deleted.

Mirrors ``GroupCoordinatorShard.cleanupGroupMetadata``, ``OffsetMetadataManager.cleanupExpiredOffsets`` and
``onTopicsDeleted``.
"""

from collections.abc import Callable

from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import GroupState
from coordinator_replay.engine.notes import Group
from coordinator_replay.engine.offsets import StoredOffset
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.config import BrokerFault
from coordinator_replay.simulation.coordinator.group_metadata_manager import group_tombstones
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.messages import ZERO_UUID
from coordinator_replay.simulation.coordinator.offsets.fetch import is_subscribed
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import Shard
from coordinator_replay.simulation.coordinator.topics import TopicChange
from coordinator_replay.simulation.coordinator.truth import Trigger, TriggerKind

CLEANUP = ("expire-group-metadata",)
GROUP_SIZE_COUNTER = ("group-size-counter",)
GROUP_SIZE_INTERVAL_MS = 60_000
MINUTE_MS = 60_000
TOPICS_CHANGED = Trigger(TriggerKind.TOPICS, "deleted")

Since = Callable[[StoredOffset], int]
"""A function that returns the time from which the retention of an offset counts."""


def load(shard: Shard) -> None:
    """Start the timers that look for expired offsets and count groups for Kafka's metrics."""
    _schedule_cleanup(shard)
    _schedule_counter(shard)


def topics_changed(shard: Shard, change: TopicChange) -> None:
    """Remove the offsets of topics that were deleted, in every group.

    A group that no longer exists may still have offsets. They are removed, too.
    """
    if change.deleted_ids:
        shard.run(lambda: Outcome(_offsets_of_deleted(shard, change)), TOPICS_CHANGED)


def clean_up(shard: Shard) -> Outcome:
    """Remove expired offsets, and groups that are Empty and have no offsets left.

    Also start the timer of the next clean-up.
    """
    records: list[NewRecord] = []
    for group_id in shard.group_ids():
        group = shard.group(group_id)
        if group is None:
            continue
        expired, is_without = _expired(shard, group_id, group)
        records += expired
        if is_without and group.state is GroupState.EMPTY:
            records += group_tombstones(shard, group)
    _schedule_cleanup(shard)
    return Outcome(records)


def _schedule_cleanup(shard: Shard) -> None:
    interval_ms = shard.config.number("offsets.retention.check.interval.ms")
    shard.schedule(CLEANUP, interval_ms, lambda: clean_up(shard), is_retried=True)


def _schedule_counter(shard: Shard) -> None:
    def count() -> Outcome:
        _schedule_counter(shard)
        return NOTHING_TO_DO

    shard.schedule(GROUP_SIZE_COUNTER, GROUP_SIZE_INTERVAL_MS, count, is_retried=True)


def _expired(shard: Shard, group_id: str, group: Group) -> tuple[list[NewRecord], bool]:
    """Return tombstones of a group's expired offsets, and whether the group then has no offsets left."""
    offsets = shard.offsets(group_id)
    if not offsets.stored:
        return [], not offsets.pending
    since = _since(shard, group)
    if since is None:
        return [], False
    retention_ms = shard.config.number("offsets.retention.minutes") * MINUTE_MS
    unstable = offsets.unstable
    records = []
    for (topic, partition), offset in offsets.stored.items():
        if is_subscribed(shard, group, topic) or (topic, partition) in unstable:
            continue
        if offset.expire_timestamp_ms is not None:
            is_over = shard.now_ms >= offset.expire_timestamp_ms
        else:
            is_over = shard.now_ms - since(offset) >= retention_ms
        if is_over:
            records.append(record_helpers.tombstone("OffsetCommit", group=group_id, topic=topic, partition=partition))
    return records, len(records) == len(offsets.stored) and not offsets.pending


def _since(shard: Shard, group: Group) -> Since | None:
    """Return a function that gives the time from which an offset's retention counts.

    Return None if no offset of the group may expire now.
    """
    if isinstance(group, ConsumerGroup):
        return lambda offset: offset.commit_timestamp_ms
    if not isinstance(group, LiveClassicGroup):
        return None
    emptied_ms = group.state_timestamp_ms
    if group.protocol_type is None:
        return lambda offset: offset.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        return lambda offset: emptied_ms if emptied_ms is not None else offset.commit_timestamp_ms
    is_stable = group.state is GroupState.STABLE or BrokerFault.EXPIRY_IN_REBALANCE in shard.config.faults
    if is_stable and group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.topics is not None:
        return lambda offset: offset.commit_timestamp_ms
    return None


def _offsets_of_deleted(shard: Shard, change: TopicChange) -> list[NewRecord]:
    records = []
    # A group that was forgotten has its offsets still.
    for group_id in dict.fromkeys((*shard.group_ids(), *shard.replays)):
        of_group = shard.offsets(group_id)
        for offsets in (of_group.stored, *of_group.pending.values()):
            records += [
                record_helpers.tombstone("OffsetCommit", group=group_id, topic=topic, partition=partition)
                for (topic, partition), offset in offsets.items()
                if topic in change.deleted_ids and offset.topic_id in (None, ZERO_UUID, change.deleted_ids[topic])
            ]
    return records
