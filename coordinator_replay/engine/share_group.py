"""A share group of KIP-932, from kinds 10 to 15.

Mirrors ``modern.share.ShareGroup``. Members may share partitions, nothing is revoked, so there are two states only:
Empty and Stable. A member whose epoch is below the assignment epoch has just not sent a heartbeat since; the engine
still calls a rebalance over only when every member has, because only then does everybody consume by the new targets.

The initialisation of partitions (kind 15) is kept beside the group and outlives it, as in the broker: it may be written
for a group that has no other record.
"""

from collections.abc import Callable, Mapping

from coordinator_replay.engine.consumer_group import read_target
from coordinator_replay.engine.model import (
    Current,
    GroupState,
    GroupType,
    Member,
    MemberState,
    Record,
    Subscription,
    partitions_by_topic,
)
from coordinator_replay.engine.operation import Header, Operation
from coordinator_replay.engine.reconciliation import Reconciliation, first_that_holds

STATES: tuple[tuple[GroupState, str, Callable[[Reconciliation], bool]], ...] = (
    (GroupState.EMPTY, "no members", lambda group: not group.members),
    (GroupState.STABLE, "otherwise", lambda group: True),
)

TRANSITIONS: Mapping[tuple[GroupState, GroupState], str] = {
    (GroupState.EMPTY, GroupState.STABLE): "a member joins",
    (GroupState.STABLE, GroupState.EMPTY): "the last member is gone",
}


class ShareGroup:
    """The replayed state of one share group."""

    group_type = GroupType.SHARE
    __slots__ = ("group_id", "reconciliation")

    def __init__(self, group_id: str, birth_missing: int | None = None) -> None:
        self.group_id = group_id
        self.reconciliation = Reconciliation(birth_missing)

    @property
    def state(self) -> GroupState:
        """The first state whose condition holds."""
        return first_that_holds(STATES, self.reconciliation)

    @property
    def members(self) -> Mapping[str, Member]:
        """Members by id."""
        return self.reconciliation.members

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.reconciliation.epoch

    @property
    def assignment_epoch(self) -> int:
        """The epoch of the targets, -1 when their record was deleted."""
        return self.reconciliation.assignment_epoch

    def header(self, state: GroupState) -> Header:
        """The group as it is, its members aside; the state is given because it has just been worked out."""
        group = self.reconciliation
        return Header(
            GroupType.SHARE,
            state,
            group.epoch,
            group.assignment_epoch,
            len(group.members),
            group.epoch_missing,
            group.assignment_missing,
            "share",
            metadata_hash=group.metadata_hash,
        )

    def replay_metadata(self, record: Record, operation: Operation) -> None:
        """Kind 11: group epoch and metadata hash."""
        value = record.value or {}
        self.reconciliation.bump(record, operation, value.get("epoch", 0), value.get("metadataHash", 0))

    def replay_member(self, record: Record, operation: Operation) -> None:
        """Kind 10: what a member told of itself."""
        value = record.value
        if value is None:
            self.reconciliation.remove(record, operation)
            return
        self.reconciliation.subscribe(
            record,
            operation,
            Subscription(
                None,
                value.get("rackId"),
                value.get("clientId"),
                value.get("clientHost"),
                tuple(value.get("subscribedTopicNames") or ()),
            ),
        )

    def replay_target_epoch(self, record: Record, operation: Operation) -> None:
        """Kind 12: the epoch of the targets."""
        self.reconciliation.install(record, operation)

    def replay_target(self, record: Record, operation: Operation) -> None:
        """Kind 13: what a member is to have."""
        self.reconciliation.aim(record, operation, read_target(record))

    def replay_current(self, record: Record, operation: Operation) -> None:
        """Kind 14: what a member has; its state byte is always 0."""
        value = record.value
        if value is None:
            self.reconciliation.release(record, operation)
            return
        self.reconciliation.assign(
            record,
            operation,
            Current(
                value.get("memberEpoch", 0),
                value.get("previousMemberEpoch", 0),
                MemberState.STABLE,
                partitions_by_topic(value.get("assignedPartitions")),
                missing=record.missing_before,
            ),
        )
