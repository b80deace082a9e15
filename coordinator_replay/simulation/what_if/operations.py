"""A group's records as operations of the coordinator, with the moments that a script of its life needs."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator_replay.analysis.reasons.topic_changes import CREATED, PARTITIONS_ADDED, DatedTopicChange
from coordinator_replay.engine.events import Event
from coordinator_replay.engine.model import GroupType, Member, Record
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.errors import UsageError


class RecordedOperation(NamedTuple):
    """The events of one operation.

    Attributes:
        at_ms: when its records were written.
        before_ms: when the group's operation before it was; None for the first.
        join_done_ms: end of the join phase, in a classic group.
    """

    at_ms: int
    before_ms: int | None
    events: Sequence[Event]
    join_done_ms: int | None

    @property
    def is_classic(self) -> bool:
        """Return whether the group was a classic group after it."""
        return self.events[-1].group_type is GroupType.CLASSIC

    @property
    def has_arrivals_or_departures(self) -> bool:
        """Return whether a member joined or left in it."""
        return any(str(event.kind) in ("MEMBER_JOINED", "MEMBER_LEFT") for event in self.events)

    def began_ms(self, heartbeat_ms: int, initial_delay_ms: int) -> int:
        """When its rebalance began; of a classic join phase, which is not on record, the most likely moment.

        Others notice with their next heartbeat; the first members of a group wait for its initial delay.
        """
        if not self.is_classic or self.join_done_ms is None:
            return self.at_ms
        member_count = self.events[-1].member_count
        joined = sum(str(event.kind) == "MEMBER_JOINED" for event in self.events)
        if joined and joined == member_count:
            # Each member that joins while the first one waits makes the coordinator wait once more.
            phase_ms = initial_delay_ms if joined == 1 else 2 * initial_delay_ms
        elif member_count:
            phase_ms = heartbeat_ms
        else:
            phase_ms = 0
        earliest = self.before_ms + 1 if self.before_ms is not None else self.join_done_ms - phase_ms
        return max(self.join_done_ms - phase_ms, earliest)


def operations_of(group_id: str, records: Iterable[Record]) -> list[RecordedOperation]:
    """Return every operation of a group with events, in order.

    What comes before the first record with a time counts as of that time: it was then at the latest.

    Raises:
        UsageError: no record of the group carries a time.
    """
    records = list(records)
    first_ms = next((record.timestamp_ms for record in records if record.timestamp_ms is not None), None)
    if records and first_ms is None:
        raise UsageError(f"no record of group {group_id} carries a time: its life can't be simulated")
    replay = StateReplay(group_id)
    operations: list[RecordedOperation] = []
    for record in records:
        for events in replay.apply_in_operations(record):
            _append(operations, events, first_ms or 0)
    _append(operations, replay.settle(), first_ms or 0)
    return operations


def _append(operations: list[RecordedOperation], events: Sequence[Event], first_ms: int) -> None:
    if not events:
        return
    done = [event.changes["join_done_ms"] for event in events if event.changes.get("join_done_ms") is not None]
    before_ms = operations[-1].at_ms if operations else None
    at_ms = max(events[-1].timestamp_ms or 0, before_ms or first_ms)
    join_done = min(max(done[-1], before_ms or 0), at_ms) if done else None
    operations.append(RecordedOperation(at_ms, before_ms, events, join_done))


def assigned_partitions(operations: Sequence[RecordedOperation]) -> dict[str, list[DatedTopicChange]]:
    """Return how many partitions each topic had at least, by what the records call it: by the highest assigned number.

    A topic is taken to have been there before the group, and to have grown when the rebalance began that first assigned
    more of it.
    """
    by_topic: dict[str, list[DatedTopicChange]] = {}
    for one in operations:
        for member in _members(one):
            for part in (member.current, member.target):
                for topic, numbers in ((part.assigned if part is not None else None) or {}).items():
                    changes = by_topic.setdefault(topic, [DatedTopicChange(0, CREATED, 0)])
                    count = max(numbers, default=-1) + 1
                    if not changes[-1].partition_count:
                        changes[-1] = DatedTopicChange(0, CREATED, count)
                    elif count > changes[-1].partition_count and changes[-1].at_ms == one.began_ms(0, 0):
                        changes[-1] = changes[-1]._replace(partition_count=count)
                    elif count > changes[-1].partition_count:
                        changes.append(DatedTopicChange(one.began_ms(0, 0), PARTITIONS_ADDED, count))
    return by_topic


def _members(operation: RecordedOperation) -> Iterable[Member]:
    for event in operation.events:
        if event.member is not None:
            yield event.member
        yield from event.members
