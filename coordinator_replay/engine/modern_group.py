"""The base of consumer, share and streams groups. Each type has its own states, members and assignments.

It corresponds to Kafka's class ``modern.ModernGroup``. The three types have different records of members.
``Reconciliation`` keeps the members of all three types in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from coordinator_replay.engine.model import (
    Current,
    GroupState,
    GroupType,
    Member,
    Record,
    Subscription,
    Target,
    draft_fields,
    partitions_by_topic,
)
from coordinator_replay.engine.operation import Header, Operation
from coordinator_replay.engine.reconciliation import Reconciliation

StateRule = tuple[GroupState, str, Callable[[Any], bool]]
"""A state of a group, its condition in words, and a function that checks the condition for a group."""

EMPTY: StateRule = (GroupState.EMPTY, "no members", lambda group: not group.reconciliation.members)
ASSIGNING: StateRule = (
    GroupState.ASSIGNING,
    "group epoch above the assignment epoch",
    lambda group: group.reconciliation.epoch > group.reconciliation.assignment_epoch,
)
RECONCILING: StateRule = (
    GroupState.RECONCILING,
    "a member is not STABLE, or its epoch is not the assignment epoch",
    lambda group: bool(group.reconciliation.unreconciled),
)
STABLE: StateRule = (GroupState.STABLE, "otherwise", lambda group: True)

DRAFT_TARGET_FIELDS = frozenset({"assignmentEpoch", "memberId", "error", "metadataVersion", "metadataBytes"})


@dataclass(eq=False)
class ReconcilingGroup(ABC):
    """A group whose members change their current assignments step by step until these equal their targets.

    Attributes:
        states: possible states of the group, with their conditions.
        group_type: type of the group.
        protocol_type: the broker's name for the protocol of the group's members.
        reconciliation: epochs, members and targets of the group.
    """

    states: ClassVar[Sequence[StateRule]]
    group_type: ClassVar[GroupType]
    protocol_type: ClassVar[str]
    group_id: str
    reconciliation: Reconciliation = field(default_factory=Reconciliation)

    @property
    def state(self) -> GroupState:
        """Return the group's state. It follows from the group's epochs and members (``states``)."""
        return next(state for state, _, holds in self.states if holds(self))

    @property
    def members(self) -> Mapping[str, Member]:
        """Return members by id."""
        return self.reconciliation.members

    @property
    def epoch(self) -> int:
        """Return the group epoch."""
        return self.reconciliation.epoch

    @property
    def assignment_epoch(self) -> int:
        """Return the target assignment epoch.

        Return -1 if a tombstone removed the record with this epoch.
        """
        return self.reconciliation.assignment_epoch

    @property
    def assignor(self) -> str | None:
        """Return the server-side assignor that the members ask for.

        Return None if no member asks for one, or if groups of this type can't choose one.
        """
        return None

    def header(self, state: GroupState) -> Header:
        """Return the group's present fields as a ``Header``, which has no members.

        Args:
            state: the group's state.
        """
        group = self.reconciliation
        return Header(
            self.group_type,
            state,
            group.epoch,
            group.assignment_epoch,
            len(group.members),
            group.epoch_missing,
            group.assignment_missing,
            self.protocol_type,
            self.assignor,
            metadata_hash=group.metadata_hash,
        )

    def replay_metadata(self, record: Record, operation: Operation) -> None:
        """Replay a record with the group epoch and the metadata hash."""
        value = record.value or {}
        self.reconciliation.bump_epoch(record, operation, value.get("epoch", 0), value.get("metadataHash", 0))

    def replay_member(self, record: Record, operation: Operation) -> None:
        """Replay a record with a member's subscription, or its tombstone."""
        if record.value is None:
            self.reconciliation.remove(record, operation)
        else:
            self.reconciliation.subscribe(record, operation, self.read_subscription(record.value))

    def replay_target_epoch(self, record: Record, operation: Operation) -> None:
        """Replay a record with the target assignment epoch."""
        self.reconciliation.install(record, operation)

    def replay_target(self, record: Record, operation: Operation) -> None:
        """Replay a record with a member's target assignment, or its tombstone."""
        target = None if record.value is None else self.read_target(record.value, record.missing_before)
        self.reconciliation.update_target(record, operation, target)

    def replay_current(self, record: Record, operation: Operation) -> None:
        """Replay a record with a member's current assignment, or its tombstone."""
        if record.value is None:
            self.reconciliation.remove_assignment(record, operation)
        else:
            self.reconciliation.assign(record, operation, self.read_current(record.value, record.missing_before))

    @abstractmethod
    def read_subscription(self, value: Mapping[str, Any]) -> Subscription:
        """Return a member's subscription from the value of its record."""

    def read_target(self, value: Mapping[str, Any], missing: int) -> Target:
        """Return a member's target assignment from the value of a ``…TargetAssignmentMember`` record.

        Args:
            value: value of the record.
            missing: the record's ``missing_before``.
        """
        draft = draft_fields(value, DRAFT_TARGET_FIELDS)
        return Target(partitions_by_topic(value.get("topicPartitions")), draft=draft, missing=missing)

    @abstractmethod
    def read_current(self, value: Mapping[str, Any], missing: int) -> Current:
        """Return a member's current assignment from the value of its record.

        Args:
            value: value of the record.
            missing: the record's ``missing_before``.
        """
