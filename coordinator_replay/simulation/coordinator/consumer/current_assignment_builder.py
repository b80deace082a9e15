"""The current assignment of a member of a consumer group, and its next step towards the target assignment.

Mirrors ``CurrentAssignmentBuilder``. A member's state says what the member waits for:

* UNREVOKED_PARTITIONS: the member must first give up partitions outside its target. Its epoch stays.
* UNRELEASED_PARTITIONS: the member has the target's epoch, and waits for partitions that other members still own.
* STABLE: the member has the target's epoch and all partitions of its target.

Each new current assignment stores the epoch of the last one as its previous epoch, even if both epochs are equal.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_replay.engine.model import JOINING, Assignment, Current, MemberState
from coordinator_replay.simulation.coordinator.errors import RequestError

PartitionEpochs = dict[str, dict[int, int]]
"""The epoch of each partition, by topic id and partition number. Topics without partitions are left out."""


def with_epoch_of_each(partitions: Assignment, epochs: Assignment, member_epoch: int) -> PartitionEpochs:
    """Return the epoch of each partition.

    Args:
        partitions: the partitions, by topic id.
        epochs: epochs of the partitions of each topic, in the order of the partitions. Topics may be missing.
        member_epoch: the member's epoch, used for the partitions of topics that ``epochs`` does not have.
    """
    return {
        topic_id: dict(zip(numbers, epochs.get(topic_id) or (member_epoch,) * len(numbers), strict=True))
        for topic_id, numbers in partitions.items()
    }


def assigned(current: Current) -> PartitionEpochs:
    """Return the partitions that a member may use, with their epochs."""
    return with_epoch_of_each(current.assigned or {}, current.assigned_epochs, current.epoch)


def pending(current: Current) -> PartitionEpochs:
    """Return the partitions that a member must give up, with their epochs."""
    return with_epoch_of_each(current.pending, current.pending_epochs, current.epoch)


def split(partitions: PartitionEpochs) -> tuple[Assignment, Assignment]:
    """Return partitions and their epochs separately, both in ascending order of partitions."""
    numbers = {topic_id: tuple(sorted(some)) for topic_id, some in partitions.items() if some}
    epochs = {topic_id: tuple(partitions[topic_id][number] for number in some) for topic_id, some in numbers.items()}
    return numbers, epochs


def with_epochs(partitions: Assignment, epochs: Assignment, member_epoch: int) -> list[dict[str, Any]]:
    """Return partitions and their epochs in the form that records have.

    Args:
        partitions: the partitions, by topic id.
        epochs: epochs of the partitions of each topic, in the order of the partitions. Topics may be missing.
        member_epoch: the member's epoch, used for the partitions of topics that ``epochs`` does not have.
    """
    return [
        {
            "topicId": topic_id,
            "partitions": list(numbers),
            "assignmentEpochs": list(epochs.get(topic_id) or (member_epoch,) * len(numbers)),
        }
        for topic_id, numbers in partitions.items()
    ]


def as_topics(partitions: Assignment) -> list[dict[str, Any]]:
    """Return partitions in the form that responses have."""
    return [{"topicId": topic_id, "partitions": list(numbers)} for topic_id, numbers in partitions.items()]


Owned = Sequence[Mapping[str, Any]] | None
"""Partitions that a client says it owns, ``[{topicId, partitions}]``; None if its request lacks the field."""


def owns_any(owned: Owned, of: Assignment) -> bool:
    """Return whether a client may still own at least one partition of an assignment.

    Args:
        owned: the partitions that the client says it owns. If the client does not say so (None), return True.
        of: the assignment.
    """
    if owned is None:
        return True
    return any(partition in of.get(topic["topicId"], ()) for topic in owned for partition in topic["partitions"])


def owns_only(owned: Owned, of: Assignment) -> bool:
    """Return whether a client owns no partitions outside an assignment.

    Args:
        owned: the partitions that the client says it owns. If the client does not say so (None), return False.
        of: the assignment.
    """
    if owned is None:
        return False
    for topic in owned:
        if topic["topicId"] not in of or not set(topic["partitions"]) <= set(of[topic["topicId"]]):
            return False
    return True


UNREVOKED, UNRELEASED = MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


@dataclass(frozen=True, slots=True)
class CurrentAssignmentBuilder:
    """A step of a member towards its target assignment.

    ``build`` computes the member's next current assignment from the attributes.

    Attributes:
        current: the member's current assignment.
        target_epoch: the epoch of the target.
        target: the member's target assignment, by topic id.
        subscribed: ids of existing topics that the member subscribes to.
        subscribes: whether the member subscribes to any topics, existing or not.
        has_subscription_changed: whether the member's subscription changed in this request.
        owned: the partitions that the member's client says it owns.
        owners: the member that owns each partition, by topic id and number.
    """

    current: Current
    target_epoch: int
    target: Assignment
    subscribed: Collection[str]
    subscribes: bool
    has_subscription_changed: bool
    owned: Owned
    owners: Mapping[tuple[str, int], str]

    def build(self) -> Current:
        """Return the member's current assignment after the step.

        If nothing changes, return the same object.

        Raises:
            RequestError: FENCED_MEMBER_EPOCH, if a newer broker wrote a member state that Kafka 4.3 does not know, and
                the client may own partitions.
        """
        current = self.current
        match current.state:
            case MemberState.UNREVOKED_PARTITIONS:
                if owns_any(self.owned, current.pending):
                    return self._trimmed() if self.has_subscription_changed else current
                return self._next()
            case MemberState.UNRELEASED_PARTITIONS:
                return self._next()
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned:
                    raise RequestError(
                        "FENCED_MEMBER_EPOCH",
                        "The consumer group member is in a unknown state. "
                        "The member must abandon all its partitions and rejoin.",
                    )
                return self._next()
        if current.epoch != self.target_epoch:
            return self._next()
        return self._trimmed() if self.has_subscription_changed else current

    def _next(self) -> Current:
        """Return the current assignment after a step towards the target.

        First the member gives up partitions that are not in the target. After that, it takes those partitions of the
        target that no other member owns.
        """
        had, gives_up = assigned(self.current), self.current.pending
        keep: PartitionEpochs = {}
        revoke: PartitionEpochs = {}
        add: dict[str, list[int]] = {}
        has_unreleased = False
        for topic_id in {**self.target, **had}:
            owned = had.get(topic_id, {})
            wanted = self.target.get(topic_id, ()) if topic_id in self.subscribed else ()
            kept = {partition: owned[partition] for partition in wanted if partition in owned}
            if kept:
                keep[topic_id] = kept
            if len(kept) < len(owned):
                revoke[topic_id] = {number: epoch for number, epoch in owned.items() if number not in kept}
            for partition in wanted:
                if partition in owned:
                    continue
                if (topic_id, partition) in self.owners and partition not in gives_up.get(topic_id, ()):
                    has_unreleased = True
                else:
                    add.setdefault(topic_id, []).append(partition)
        if revoke and owns_any(self.owned, split(revoke)[0]):
            return self._moved(self.current.epoch, UNREVOKED, keep, revoke)
        for topic_id, partitions in add.items():
            keep.setdefault(topic_id, {}).update(dict.fromkeys(partitions, self.target_epoch))
        return self._moved(self.target_epoch, UNRELEASED if has_unreleased else MemberState.STABLE, keep, {})

    def _trimmed(self) -> Current:
        """Return the current assignment without topics that the member no longer subscribes to.

        The member epoch stays the same.
        """
        had = assigned(self.current)
        # A member that subscribes to nothing gets a new assignment, unless it is just joining. As in Kafka, only its
        # previous epoch then changes.
        gives_up_all = not self.subscribes and not self.current.pending and self.current is not JOINING
        if not gives_up_all and all(topic_id in self.subscribed for topic_id in had):
            return self.current
        left = {topic_id: partitions for topic_id, partitions in had.items() if topic_id in self.subscribed}
        revoke = pending(self.current)
        for topic_id, partitions in had.items():
            if topic_id not in self.subscribed:
                revoke[topic_id] = {**revoke.get(topic_id, {}), **partitions}
        if revoke and owns_any(self.owned, split(revoke)[0]):
            return self._moved(self.current.epoch, UNREVOKED, left, revoke)
        return self._moved(self.current.epoch, self.current.state or MemberState.STABLE, left, pending(self.current))

    def _moved(self, epoch: int, state: MemberState, has: PartitionEpochs, gives_up: PartitionEpochs) -> Current:
        numbers, epochs = split(has)
        pending_numbers, pending_epochs = split(gives_up)
        return Current(epoch, self.current.epoch, state, numbers, pending_numbers, epochs, pending_epochs)


def is_same(current: Current, other: Current) -> bool:
    """Return whether two current assignments are equal in all fields of their record.

    The previous epoch and the epochs of partitions are compared, too.
    """
    return current is other or (
        current.epoch == other.epoch
        and current.previous_epoch == other.previous_epoch
        and current.state is other.state
        and assigned(current) == assigned(other)
        and pending(current) == pending(other)
    )
