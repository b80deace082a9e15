"""A small lawful coordinator of one consumer group: it keeps the group in memory and writes what Kafka would write.

It follows the steps of the consumer-group heartbeat, leave and fence, static leave and return, and deletion. It is the
other side the engine is held against, so it shares no code with it.
"""

from dataclasses import dataclass, field

from tests.engine.lives import Writer

TOPIC = "gS6zEb4DSH6x8wDtN-uZlA"
PARTITIONS = 6
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2


@dataclass
class Seat:
    """One member as the coordinator knows it."""

    instance_id: str | None
    epoch: int = 0
    previous: int = -1
    state: int = STABLE
    assigned: set[int] = field(default_factory=set)
    pending: set[int] = field(default_factory=set)


class Coordinator:
    """The group, and its log."""

    def __init__(self) -> None:
        self.log = Writer()
        self.exists = False
        self.epoch = 1
        self.assignment_epoch = 1
        self.metadata_hash = 7
        self.seats: dict[str, Seat] = {}
        self.targets: dict[str, set[int]] = {}
        self.made = 0

    @property
    def state(self) -> str:
        if not self.exists:
            return "Dead"
        if not self.seats:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if any((seat.state, seat.epoch) != (STABLE, self.assignment_epoch) for seat in self.seats.values()):
            return "Reconciling"
        return "Stable"

    def join(self, instance_id: str | None, *, at_once: bool) -> str:
        self.made += 1
        member_id = f"member-{self.made}"
        if not self.exists:
            self.exists, self.epoch, self.assignment_epoch = True, 1, 1
        self.seats[member_id] = Seat(instance_id)
        self._write_member(member_id)
        self._bump()
        if at_once:
            self._compute_targets()
        self._reconcile(member_id)
        return member_id

    def leave(self, member_id: str) -> None:
        self._write_gone(member_id)
        self._bump()

    def go_away(self, member_id: str) -> None:
        seat = self.seats[member_id]
        seat.previous, seat.epoch, seat.pending = seat.epoch, -2, set()
        self._write_current(member_id)

    def come_back(self, old_id: str) -> str:
        self.made += 1
        member_id = f"member-{self.made}"
        old, target = self.seats[old_id], self.targets.get(old_id, set())
        self._write_gone(old_id)
        seat = self.seats[member_id] = Seat(old.instance_id, 0, 0, old.state, set(old.assigned))
        self.targets[member_id] = target
        self._write_member(member_id)
        self._write_target(member_id)
        self._write_current(member_id)
        seat.state = STABLE
        self._reconcile(member_id, owned=set())
        return member_id

    def heartbeat(self, member_id: str) -> None:
        if self.epoch > self.assignment_epoch:
            self._compute_targets()
        self._reconcile(member_id)

    def acknowledge(self, member_id: str) -> None:
        self._reconcile(member_id, owned=set(self.seats[member_id].assigned))

    def change_topics(self) -> None:
        self.metadata_hash += 1
        self._bump()

    def delete(self) -> None:
        for kind in (
            "ConsumerGroupTargetAssignmentMetadata",
            "ConsumerGroupPartitionMetadata",
            "ConsumerGroupMetadata",
        ):
            self.log.write(kind)
        self.exists = False

    def _bump(self) -> None:
        self.epoch += 1
        self.log.write("ConsumerGroupMetadata", {"epoch": self.epoch, "metadataHash": self.metadata_hash})

    def _compute_targets(self) -> None:
        members = sorted(self.seats)
        for index, member_id in enumerate(members):
            target = {partition for partition in range(PARTITIONS) if partition % len(members) == index}
            if self.targets.get(member_id) != target:
                self.targets[member_id] = target
                self._write_target(member_id)
        self.assignment_epoch = self.epoch
        self.log.write("ConsumerGroupTargetAssignmentMetadata", {"assignmentEpoch": self.epoch})

    def _reconcile(self, member_id: str, owned: set[int] | None = None) -> None:
        seat = self.seats[member_id]
        if (seat.epoch, seat.state) == (self.assignment_epoch, STABLE):
            return
        before = (seat.epoch, seat.previous, seat.state, set(seat.assigned), set(seat.pending))
        target = self.targets.get(member_id, set())
        revoke = (seat.assigned | seat.pending) - target
        held = {
            partition
            for other_id, other in self.seats.items()
            if other_id != member_id
            for partition in other.assigned | other.pending
        }
        seat.previous = seat.epoch
        seat.assigned &= target
        if revoke and (owned is None or owned & revoke):
            seat.state, seat.pending = UNREVOKED, revoke
        else:
            seat.epoch, seat.pending = self.assignment_epoch, set()
            seat.assigned = seat.assigned | (target - held)
            seat.state = STABLE if seat.assigned == target else UNRELEASED
        if (seat.epoch, seat.previous, seat.state, seat.assigned, seat.pending) != before:
            self._write_current(member_id)

    def _write_gone(self, member_id: str) -> None:
        for kind in (
            "ConsumerGroupCurrentMemberAssignment",
            "ConsumerGroupTargetAssignmentMember",
            "ConsumerGroupMemberMetadata",
        ):
            self.log.write(kind, memberId=member_id)
        del self.seats[member_id]
        self.targets.pop(member_id, None)

    def _write_member(self, member_id: str) -> None:
        value = {
            "instanceId": self.seats[member_id].instance_id,
            "rackId": None,
            "clientId": "client",
            "clientHost": "/10.0.0.9",
            "subscribedTopicNames": ["move"],
            "subscribedTopicRegex": "",
            "rebalanceTimeoutMs": 300000,
            "serverAssignor": None,
            "classicMemberMetadata": None,
        }
        self.log.write("ConsumerGroupMemberMetadata", value, memberId=member_id)

    def _write_target(self, member_id: str) -> None:
        value = {"topicPartitions": _entries(self.targets[member_id])}
        self.log.write("ConsumerGroupTargetAssignmentMember", value, memberId=member_id)

    def _write_current(self, member_id: str) -> None:
        seat = self.seats[member_id]
        value = {
            "memberEpoch": seat.epoch,
            "previousMemberEpoch": seat.previous,
            "state": seat.state,
            "assignedPartitions": _entries(seat.assigned),
            "partitionsPendingRevocation": _entries(seat.pending),
        }
        self.log.write("ConsumerGroupCurrentMemberAssignment", value, memberId=member_id)


def _entries(partitions: set[int]) -> list[dict[str, object]]:
    return [{"topicId": TOPIC, "partitions": sorted(partitions)}] if partitions else []
