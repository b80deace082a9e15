"""Events as rows of ``group_timeline``."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_replay.analysis.rows import RecordTopics, Row
from coordinator_replay.engine.events import Event
from coordinator_replay.engine.model import Assignment, GroupState, GroupType

TABLE = "group_timeline"


@dataclass(slots=True)
class Timeline:
    """The numbering of a group's events, one row for each event.

    Attributes:
        encode: the function that writes JSON.
        topics: the names of topics.
        seq: number of the next event.
    """

    encode: Callable[[Any], str]
    topics: RecordTopics
    seq: int = 0

    def fold(self, events: Sequence[Event], rebalance_id: str | None) -> Iterator[Row]:
        """Yield one row for each event of an operation."""
        for event in events:
            is_known, member = event.to_state is not GroupState.UNKNOWN, event.member
            yield (
                TABLE,
                {
                    "group_type": event.group_type,
                    "seq": self.seq,
                    "event": event.kind,
                    "from_state": event.from_state,
                    "to_state": event.to_state,
                    "epoch": event.epoch if is_known else None,
                    "assignment_epoch": event.assignment_epoch if is_known else None,
                    "member_id": None if member is None else member.member_id,
                    "instance_id": None if member is None else member.instance_id,
                    "member_count": event.member_count if is_known else None,
                    "rebalance_id": rebalance_id,
                    "detail": self._detail(event),
                    "is_exact": event.is_exact,
                    "is_state_exact": event.is_state_exact,
                    "log_partition": event.partition,
                    "log_offset": event.offset,
                    "log_timestamp": event.timestamp_ms,
                },
            )
            self.seq += 1

    def _detail(self, event: Event) -> str:
        group_type = event.group_type

        def show(assignment: Assignment) -> list[dict[str, Any]]:
            return [self._topic(topic, partitions, group_type) for topic, partitions in sorted(assignment.items())]

        return self.encode(event.detail(show))

    def _topic(self, topic: str, partitions: tuple[int, ...], group_type: GroupType) -> dict[str, Any]:
        # A conversion has members of both types. Their topics may be names or ids, so a topic with a known name becomes
        # its id.
        name = self.topics.names.get(topic)
        if name is not None or group_type is GroupType.CONSUMER or group_type is GroupType.SHARE:
            return {"topic_id": topic, "topic": name, "partitions": partitions}
        if group_type is GroupType.STREAMS:
            return {"subtopology": topic, "partitions": partitions}
        return {"topic": topic, "partitions": partitions}
