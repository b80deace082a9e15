"""Rounds of the log cleaner over a log partition.

After ``org.apache.kafka.storage.internals.log``: ``Cleaner`` (buildOffsetMap, groupSegmentsBySize, cleanSegments,
shouldRetainRecord), ``CleanedTransactionMetadata`` and ``MemoryRecords.filterTo``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.cleaner.batches import Batch, control_type
from tests.cleaner.broker_log import AbortedTransaction, BrokerLog, Producer, Segment
from tests.log.writer import LogEntry

_COMMIT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """How one round is done.

    Attributes:
        now_ms: The broker's clock.
        delete_retention_ms: delete.retention.ms: how long tombstones are kept after they were first met.
        map_slots: How many keys the offset map takes; None for as many as there are.
        segment_bytes: Segments are joined while they are together not larger.
        stop_after: After how many joined segments the round is stopped, so that there is no checkpoint; None: never.
        forgotten_producers: Producers that have expired: nothing is kept for their sake.
    """

    now_ms: int
    delete_retention_ms: int = 86_400_000
    map_slots: int | None = None
    segment_bytes: int = 100 << 20
    stop_after: int | None = None
    forgotten_producers: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Transactions:
    """Which transactions are under way while the cleaner walks: ``CleanedTransactionMetadata``."""

    aborted: list[AbortedTransaction]
    committed: set[int] = field(default_factory=set)
    aborting: dict[int, bool] = field(default_factory=dict)

    def is_discardable(self, batch: Batch) -> bool:
        """Whether a batch, met in log order, belongs to an aborted transaction, or is a marker of none that is left."""
        while self.aborted and self.aborted[0].first_offset <= batch.last_offset:
            self.aborting.setdefault(self.aborted.pop(0).producer_id, False)
        if batch.is_control:
            return self._is_marker_discardable(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self.aborting:
            self.aborting[batch.producer_id] = True
            return True
        self.committed.add(batch.producer_id)
        return False

    def _is_marker_discardable(self, batch: Batch) -> bool:
        if not batch.records:
            return True
        if batch.is_abort:
            return not self.aborting.pop(batch.producer_id, False)
        if control_type(batch.records[0]) == _COMMIT:
            is_seen = batch.producer_id in self.committed
            self.committed.discard(batch.producer_id)
            return not is_seen
        return False


@dataclass(slots=True)
class _OffsetMap:
    """The latest offset of each key in what is dirty, and up to where that was looked at."""

    slots: int | None
    offsets: dict[bytes, int] = field(default_factory=dict)
    latest: int = -1

    @property
    def is_full(self) -> bool:
        return self.slots is not None and len(self.offsets) >= self.slots


class _Retention(Enum):
    DELETE = auto()
    DELETE_EMPTY = auto()
    RETAIN_EMPTY = auto()


def clean(log: BrokerLog, how: Round) -> bool:
    """Clean a log; False where there is nothing to do, or the map takes not even one batch."""
    first_dirty, bound = log.checkpoint, max(log.checkpoint, log.first_uncleanable_offset)
    if first_dirty >= bound:
        return False
    offsets = _build_offset_map(log, first_dirty, bound, how)
    end = offsets.latest + 1
    if end <= first_dirty:
        return False
    groups = _group_by_size([one for one in log.segments if one.base_offset < end], how.segment_bytes)
    producers = {key: one for key, one in log.producers.items() if key not in how.forgotten_producers}
    cleaning = _Cleaning(offsets, _Transactions(log.aborted), producers, bound, how)
    for count, group in enumerate(groups):
        if count == how.stop_after:
            return True
        cleaned = cleaning.join(group)
        place = log.segments.index(group[0])
        log.segments[place : place + len(group)] = [cleaned]
    log.checkpoint = end
    return True


def _build_offset_map(log: BrokerLog, start: int, bound: int, how: Round) -> _OffsetMap:
    offsets = _OffsetMap(how.map_slots)
    transactions = _Transactions([one for one in log.aborted if one.last_offset >= start])
    segments = log.segments
    ends = [*(one.base_offset for one in segments[1:]), log.end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if end <= start or segment.base_offset >= bound:
            continue
        for batch in segment.batches:
            is_data = not transactions.is_discardable(batch) and not batch.is_control
            for record in batch.records if is_data else ():
                if record.key is not None and record.offset is not None and record.offset >= start:
                    if offsets.is_full:
                        return offsets
                    # A full map ends the round in mid-batch: what it holds was looked at, offset by offset.
                    offsets.offsets[record.key] = offsets.latest = record.offset
            if batch.last_offset >= start:
                offsets.latest = batch.last_offset
        offsets.latest = max(offsets.latest, end - 1)
    return offsets


def _group_by_size(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups and sum(one.size for one in groups[-1]) + segment.size <= segment_bytes:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


@dataclass(slots=True)
class _Cleaning:
    """What the segments of one round are cleaned by."""

    offsets: _OffsetMap
    transactions: _Transactions
    producers: dict[int, Producer]
    bound: int
    how: Round

    def join(self, segments: Sequence[Segment]) -> Segment:
        """Clean segments into one."""
        found = Segment(segments[0].base_offset)
        for batch in (batch for segment in segments for batch in segment.batches):
            left = self._clean_batch(batch)
            if left is not None:
                found.batches.append(left)
        return found

    def _clean_batch(self, batch: Batch) -> Batch | None:
        """``RecordFilter.checkBatchRetention`` and what ``filterTo`` makes of its result."""
        can_discard = self.transactions.is_discardable(batch)
        horizon = batch.delete_horizon_ms
        is_discarded = can_discard
        if batch.is_control:
            is_discarded = can_discard and horizon is not None and horizon <= self.how.now_ms
        retention = self._retention(batch, is_discarded=is_discarded)
        if retention is _Retention.DELETE:
            return None
        records = [one for one in batch.records if not is_discarded and self._is_retained(batch, one)]
        if not records:
            return batch.thinned([], None) if retention is _Retention.RETAIN_EMPTY else None
        has_tombstones = any(record.value is None for record in records)
        if horizon is None and (has_tombstones or (can_discard and batch.is_control)):
            return batch.thinned(records, self.how.now_ms + self.how.delete_retention_ms)
        if batch.magic == 2 and len(records) == len(batch.records):
            return batch
        return batch.thinned(records, horizon)

    def _retention(self, batch: Batch, *, is_discarded: bool) -> _Retention:
        producer = self.producers.get(batch.producer_id)
        if producer is not None and _is_last(batch, producer):
            return _Retention.RETAIN_EMPTY
        if batch.last_offset + 1 == self.bound:
            return _Retention.RETAIN_EMPTY if batch.magic == 2 else _Retention.DELETE_EMPTY
        return _Retention.DELETE if is_discarded else _Retention.DELETE_EMPTY

    def _is_retained(self, batch: Batch, record: LogEntry) -> bool:
        """``Cleaner.shouldRetainRecord``."""
        assert record.offset is not None
        if batch.is_control or record.offset > self.offsets.latest:
            return True
        if record.key is None or record.offset < self.offsets.offsets.get(record.key, -1):
            return False
        horizon = batch.delete_horizon_ms
        return record.value is not None or horizon is None or self.how.now_ms < horizon


def _is_last(batch: Batch, producer: Producer) -> bool:
    if producer.last_data_offset is not None:
        return batch.last_offset == producer.last_data_offset
    return batch.is_control and batch.producer_epoch == producer.epoch
