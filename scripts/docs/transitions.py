"""Transitions between the states of groups and members, with their reasons. ``docs/states.md`` shows them.

Tests compare the transitions with the engine and the simulated coordinator. Transitions of a classic group in memory
come from ``LEGAL_PREDECESSORS``. The others follow from the conditions in ``STATES``.
"""

from collections.abc import Mapping
from enum import StrEnum

from coordinator_replay.engine.model import GroupState, MemberState
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LEGAL_PREDECESSORS

Transitions = Mapping[tuple[StrEnum, StrEnum], str]

_EMPTY, _NOT_READY, _STABLE = GroupState.EMPTY, GroupState.NOT_READY, GroupState.STABLE
_ASSIGNING, _RECONCILING = GroupState.ASSIGNING, GroupState.RECONCILING

_REASONS: Mapping[GroupState, str] = {
    GroupState.EMPTY: "the join phase ended with nobody",
    GroupState.PREPARING_REBALANCE: "a member joins, leaves, times out or asks for a rebalance",
    GroupState.COMPLETING_REBALANCE: "the join phase ended, a protocol is chosen",
    GroupState.STABLE: "the leader's assignment is appended",
    GroupState.DEAD: "the group is removed",
}
"""The reason why a classic group enters a state."""

_REASONS_FROM_EMPTY: Mapping[GroupState, str] = {GroupState.PREPARING_REBALANCE: "a member joins"}
"""The reason why an Empty group enters a state, where only some of the usual reasons are possible."""

CLASSIC: Transitions = {
    (before, after): (_REASONS_FROM_EMPTY if before is _EMPTY else _REASONS).get(after, _REASONS[after])
    for after, predecessors in LEGAL_PREDECESSORS.items()
    for before in sorted(predecessors)
}
"""Transitions of a classic group in the coordinator's memory."""

WRITTEN: Transitions = {
    (_EMPTY, _STABLE): "a generation was synced",
    (_STABLE, _EMPTY): "a join phase ended with nobody",
}
"""Transitions of a classic group from one record to the next."""

CONSUMER: Transitions = {
    (_EMPTY, _ASSIGNING): "a member joins (targets are computed later)",
    (_EMPTY, _RECONCILING): "a member joins and gets a target it can't reach at once",
    (_EMPTY, _STABLE): "a member joins and gets all of its target, or its regular expression is not resolved yet",
    (_ASSIGNING, _RECONCILING): "targets are computed",
    (_ASSIGNING, _STABLE): "targets are computed and the only member with a new target reaches it",
    (_ASSIGNING, _EMPTY): "the last member was removed",
    (_RECONCILING, _STABLE): "the last member reaches its target",
    (_RECONCILING, _ASSIGNING): "a member joins or leaves, or topics change",
    (_RECONCILING, _EMPTY): "the last member was removed",
    (_STABLE, _ASSIGNING): "a member joins or leaves, or topics change (targets are computed later)",
    (
        _STABLE,
        _RECONCILING,
    ): "a member joins or leaves or topics change (targets are computed at once), or a static member left temporarily",
    (_STABLE, _EMPTY): "the last member was removed",
}
"""Transitions of a consumer group from one operation to the next."""

MEMBER: Transitions = {
    (MemberState.STABLE, MemberState.STABLE): "a new epoch, all partitions of the target are free",
    (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS): "the member has to revoke partitions",
    (MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS): "a new epoch, other members still own part of the target",
    (MemberState.UNREVOKED_PARTITIONS, MemberState.UNREVOKED_PARTITIONS): "the member has to revoke more partitions",
    (
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.STABLE,
    ): "revocation acknowledged, all partitions of the target are free",
    (
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.UNRELEASED_PARTITIONS,
    ): "revocation acknowledged, other members still own part of the target",
    (MemberState.UNRELEASED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS): "part of the target became free",
    (MemberState.UNRELEASED_PARTITIONS, MemberState.STABLE): "the rest of the target became free",
    (MemberState.UNRELEASED_PARTITIONS, MemberState.UNREVOKED_PARTITIONS): "a newer target takes partitions away",
}
"""Transitions of a member in its reconciliation (``CurrentAssignmentBuilder``)."""

SHARE: Transitions = {
    (_EMPTY, _STABLE): "a member joins",
    (_STABLE, _EMPTY): "the last member was removed",
}

STREAMS: Transitions = {
    (_EMPTY, _NOT_READY): "a member joins, topics have to be validated or created first",
    (_EMPTY, _ASSIGNING): "a member joins (targets are computed later)",
    (_EMPTY, _RECONCILING): "a member joins and gets a target it can't reach at once",
    (_EMPTY, _STABLE): "a member joins and gets all of its target",
    (_NOT_READY, _ASSIGNING): "the topology is validated",
    (_NOT_READY, _RECONCILING): "the topology is validated and targets are computed",
    (_NOT_READY, _STABLE): "the topology is validated and the only member reaches its target",
    (_NOT_READY, _EMPTY): "the last member was removed",
    (_ASSIGNING, _NOT_READY): "topics of the topology are missing",
    (_ASSIGNING, _RECONCILING): "targets are computed",
    (_ASSIGNING, _STABLE): "targets are computed and the only member with a new target reaches it",
    (_ASSIGNING, _EMPTY): "the last member was removed",
    (_RECONCILING, _NOT_READY): "topics of the topology are missing",
    (_RECONCILING, _ASSIGNING): "a member joins, changes or leaves",
    (_RECONCILING, _STABLE): "the last member reaches its target",
    (_RECONCILING, _EMPTY): "the last member was removed",
    (_STABLE, _NOT_READY): "topics of the topology are missing",
    (_STABLE, _ASSIGNING): "a member joins, changes or leaves (targets are computed later)",
    (_STABLE, _RECONCILING): "a member joins, changes or leaves (targets are computed at once)",
    (_STABLE, _EMPTY): "the last member was removed",
}
