"""What Kafka's own coordinator does to groups of both protocols, which their properties have to allow for.

Both were seen with the oracle; the scripts ``42-upgrade-unassigned`` and ``43-downgrade-unreleased`` have its answers.

- A static member of the new protocol that takes the place of a classic one converts the group. Where its subscription
  is the old one's, nothing calls for a new group epoch, and no target is computed: if the classic group had not come to
  an assignment, its partitions stay without owner until the next epoch.
- When the last member of the new protocol leaves, the record of the classic group has what the classic members are to
  have, not what they still hold. A member of the new protocol that joins before they have rejoined converts the group
  again, and gets at once what they have not released.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from coordinator_replay.engine.model import Record
from coordinator_replay.records.blobs import read_assignment
from coordinator_replay.simulation.coordinator import Topic
from coordinator_replay.simulation.coordinator.assignor.client import Partition


class Owner(Protocol):
    """A consumer, as far as this is about it."""

    member_id: str
    owned: list[Partition]


class Conversions:
    """Watches the records of a group for the two.

    Attributes:
        is_unassigned: partitions have no owner since the group was converted.
    """

    def __init__(self) -> None:
        self.is_unassigned = False
        self._unreleased: dict[str, frozenset[Partition]] = {}

    def written(self, records: Sequence[Record], topics: Iterable[Topic], consumers: Iterable[Owner]) -> None:
        """Take note of a batch, before those who wait for it are answered."""
        epochs = [record for record in records if record.kind == "ConsumerGroupMetadata"]
        classic = [record for record in records if record.kind == "GroupMetadata"]
        if epochs:
            is_upgrade = any(record.value is None for record in classic)
            self.is_unassigned = is_upgrade and len(epochs) == 1 and bool(_wanted(records, topics) - _targets(records))
        for record in classic:
            if epochs and record.value is not None:
                told = {member["memberId"]: member["assignment"] for member in record.value["members"]}
                for one in consumers:
                    if one.member_id in told:
                        self._unreleased[one.member_id] = frozenset(one.owned) - _assigned(told[one.member_id])

    def assigned(self, member_id: str) -> None:
        """A classic member has got a new assignment, and has given up what is not in it."""
        self._unreleased.pop(member_id, None)

    def owned(self, consumers: Iterable[Owner]) -> Iterator[Partition]:
        """What consumers own, without what they have not released after a conversion."""
        for one in consumers:
            yield from set(one.owned) - self._unreleased.get(one.member_id, frozenset())


def _wanted(records: Iterable[Record], topics: Iterable[Topic]) -> set[Partition]:
    names = {
        name
        for record in records
        if record.kind == "ConsumerGroupMemberMetadata" and record.value is not None
        for name in record.value["subscribedTopicNames"]
    }
    return {(topic.topic_id, number) for topic in topics if topic.name in names for number in range(topic.partitions)}


def _targets(records: Iterable[Record]) -> set[Partition]:
    return {
        (topic["topicId"], number)
        for record in records
        if record.kind == "ConsumerGroupTargetAssignmentMember" and record.value is not None
        for topic in record.value["topicPartitions"]
        for number in topic["partitions"]
    }


def _assigned(assignment: str) -> set[Partition]:
    read = read_assignment(assignment).partitions if assignment else ()
    return {(topic, number) for topic, numbers in read for number in numbers}
