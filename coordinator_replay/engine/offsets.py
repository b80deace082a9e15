"""Committed offsets of one group, record by record: stored offsets, pending offsets, and markers.

Mirrors ``OffsetMetadataManager.replay`` and ``replayEndTransactionMarker``. A commit whose batch has a producer id is
pending until the same log partition has a control record of this producer. The producer id decides, not the
transactional bit. The marker's producer epoch is ignored, because with KIP-890 the marker has a newer epoch than the
commits. If the transaction is committed, a pending offset is stored only if its record is younger than the stored
offset's record. A tombstone removes the stored offset and the pending offsets of all producers at once.

The pipeline does the same in columns for millions of commits. The simulated coordinator uses this code, which takes
one record at a time. Tests compare the pipeline with this code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.engine.model import NO_PRODUCER, Marker, Record

COMMIT_KINDS = frozenset({"OffsetCommit", "LegacyOffsetCommit"})
NO_LEADER_EPOCH = -1
NO_EXPIRE_TIMESTAMP = -1

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """One committed offset.

    Attributes:
        committed_offset: the next offset to consume.
        leader_epoch: leader epoch of the consumed partition, from the commit's value; None if the value has none.
        expire_timestamp_ms: explicit time of expiry (value version 1); None if the record has none.
        log_offset: log offset of the commit's record; a commit with a lower log offset is older.
        producer_id: -1 for a plain commit.
    """

    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    topic_id: str | None
    log_partition: int
    log_offset: int
    producer_id: int = NO_PRODUCER


@dataclass(slots=True, eq=False)
class Offsets:
    """Committed offsets of one group.

    Attributes:
        stored: the stored offset of each topic and partition.
        pending: the offsets in transactions that have not ended, by producer id.
    """

    stored: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    pending: dict[int, dict[TopicPartition, StoredOffset]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.stored or self.pending)

    @property
    def unstable(self) -> frozenset[TopicPartition]:
        """Return the partitions with a pending offset, whose transaction has not ended.

        OffsetFetch with ``requireStable`` returns no offset of these partitions.
        """
        return frozenset(key for offsets in self.pending.values() for key in offsets)

    def apply(self, record: Record) -> None:
        """Apply a commit, or the tombstone of a commit."""
        key = (record.key["topic"], record.key["partition"])
        if record.value is None:
            self.stored.pop(key, None)
            for producer_id in list(self.pending):
                self._end(producer_id, key)
        elif record.producer_id == NO_PRODUCER:
            self.stored[key] = read_commit(record.key, record.value, record)
        else:
            self.pending.setdefault(record.producer_id, {})[key] = read_commit(record.key, record.value, record)

    def apply_marker(self, marker: Marker) -> None:
        """End a producer's transaction in a log partition.

        If the transaction is committed, store its pending offsets of this log partition. A newer stored offset stays.
        Pending offsets of other log partitions stay.
        """
        for key, offset in list(self.pending.get(marker.producer_id, {}).items()):
            if offset.log_partition == marker.partition:
                self._end(marker.producer_id, key)
                stored = self.stored.get(key)
                if marker.committed and (stored is None or offset.log_offset > stored.log_offset):
                    self.stored[key] = offset

    def _end(self, producer_id: int, key: TopicPartition) -> None:
        """Remove a producer's pending offset of a partition if there is one."""
        pending = self.pending[producer_id]
        pending.pop(key, None)
        if not pending:
            del self.pending[producer_id]


def read_commit(key: Mapping[str, Any], value: Mapping[str, Any], record: Record) -> StoredOffset:
    """Return the committed offset in a commit's key and value.

    A field that is -1 in the value, which means "not set", becomes None.
    """
    leader_epoch = value.get("leaderEpoch", NO_LEADER_EPOCH)
    expire = value.get("expireTimestamp", NO_EXPIRE_TIMESTAMP)
    return StoredOffset(
        key["topic"],
        key["partition"],
        value.get("offset", 0),
        leader_epoch if leader_epoch != NO_LEADER_EPOCH else None,
        value.get("metadata") or "",
        value.get("commitTimestamp", -1),
        expire if expire != NO_EXPIRE_TIMESTAMP else None,
        value.get("topicId"),
        record.partition,
        record.offset,
        record.producer_id,
    )
