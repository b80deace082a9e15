"""What the broker's describe would answer for a group as it stands."""

from dataclasses import dataclass

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import (
    JOINING,
    Assignment,
    GroupState,
    GroupType,
    Member,
    MemberState,
    Subscription,
    Target,
)
from coordinator_replay.engine.notes import Group
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.engine.streams_group import StreamsGroup


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member.

    Attributes:
        member_epoch: None in a classic group.
        assigned: what it may use, without what it must give up; None where the blob can't be read.
        pending: what it still owns and must give up. The broker shows both together.
        is_upgraded: it speaks the consumer protocol; None where the group's type leaves no choice.
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str | None
    client_host: str | None
    member_epoch: int | None
    member_state: MemberState | None
    is_upgraded: bool | None
    topics: tuple[str, ...] | None
    regex: str | None
    assigned: Assignment | None
    pending: Assignment
    target: Target | None
    standby: Assignment
    warmup: Assignment
    process_id: str | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group.

    Attributes:
        epoch: generation of a classic group, group epoch of the others.
        assignor: protocol of a classic group; of a consumer group the assignor most members prefer, None when none
            has a preference and the broker's default counts.
        is_simple: the group has offsets and nothing else.
        is_exact: no record that is missing can make the group another.
    """

    group_id: str
    group_type: GroupType
    protocol_type: str | None
    state: GroupState
    epoch: int
    assignment_epoch: int | None
    assignor: str | None
    leader: str | None
    topology_epoch: int | None
    is_simple: bool
    is_exact: bool
    members: tuple[MemberDescription, ...]


def describe(replay: StateReplay, missing_before: int | None = None) -> GroupDescription | None:
    """What the broker's describe would say of a group now, None where there is none.

    Args:
        replay: the group's.
        missing_before: see ``StateReplay.is_exact``.
    """
    group, is_exact = replay.group, replay.is_exact(missing_before)
    if group is None:
        return None
    members = tuple(_member(group, group.members[member_id]) for member_id in sorted(group.members))
    if isinstance(group, ClassicGroup):
        return GroupDescription(
            group.group_id,
            GroupType.CLASSIC,
            group.protocol_type,
            group.state,
            group.generation,
            None,
            group.protocol,
            group.leader,
            None,
            group.protocol_type is None,
            is_exact,
            members,
        )
    topology = group.topology if isinstance(group, StreamsGroup) else None
    return GroupDescription(
        group.group_id,
        group.group_type,
        str(group.group_type),
        group.state,
        group.epoch,
        group.assignment_epoch,
        group.assignor if isinstance(group, ConsumerGroup) else None,
        None,
        topology.epoch if topology is not None else None,
        False,
        is_exact,
        members,
    )


def _member(group: Group, member: Member) -> MemberDescription:
    subscription = member.subscription or Subscription()
    current = member.current or JOINING
    is_classic = isinstance(group, ClassicGroup)
    return MemberDescription(
        member.member_id,
        subscription.instance_id,
        subscription.rack_id,
        subscription.client_id,
        subscription.client_host,
        None if is_classic else current.epoch,
        current.state,
        not subscription.uses_classic_protocol if isinstance(group, ConsumerGroup) else None,
        subscription.topics,
        subscription.regex,
        current.assigned,
        current.pending,
        member.target,
        current.standby,
        current.warmup,
        subscription.process_id,
    )
