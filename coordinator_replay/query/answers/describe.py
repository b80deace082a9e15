"""Answers about a group and its members."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.query.answers.answered import Answered
from coordinator_replay.query.basis import basis_at
from coordinator_replay.query.broker_logs.events import last_departures_note
from coordinator_replay.query.broker_logs.join_phases import awaited_members
from coordinator_replay.query.describe import (
    Description,
    describe_at,
    inherited_note,
    missing_records_note,
)
from coordinator_replay.query.groups import (
    UNRECORDED_STATES,
    join_phase_at,
    share_note,
)
from coordinator_replay.query.tables import END, Tables
from coordinator_replay.query.unread_subscriptions import unexpiring_note, unread_in


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer(Answered[Description]):
    """The answer to ``describe``: a group and its members.

    Attributes:
        of_members: those of ``notes`` that are about members.
        of_alone: those of ``notes`` to leave out if the same page or table describes several groups.
    """

    of_members: Sequence[str]
    of_alone: Sequence[str]


def describe(warehouse: Tables, group: str, at: datetime | None) -> GroupAnswer:
    """Return a group and its members at a point in time.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.
    """
    note = warehouse.check_moment(at)
    described = describe_at(warehouse, group, at)
    inherited = inherited_note((member.member_id, member.is_client_inherited) for member in described.members)
    phase = join_phase_note(warehouse, group, at) if described.group.state in UNRECORDED_STATES else None
    departed = last_departures_note(warehouse, group, at)
    unread = unexpiring_note(unread_in(described))
    share = f"{share_note(group)}." if described.group.group_type == GroupType.SHARE else None
    notes = [
        missing_records_note(described.group),
        described.waiting,
        phase,
        departed,
        inherited,
        unread,
        share,
        note,
    ]
    of_members = [about for about in (departed, inherited, share) if about is not None]
    basis = basis_at(warehouse, at or END, group=group)
    # A rollout has many groups in these states, and their notes would take the room of the groups.
    of_alone = [described.waiting] if described.waiting and described.group.state != GroupState.NOT_READY else []
    return GroupAnswer(content=described, notes=notes, basis=basis, of_members=of_members, of_alone=of_alone)


def join_phase_note(warehouse: Tables, group: str, at: datetime | None) -> str | None:
    """Return a note on a rebalance of a classic group that was in progress at a point in time.

    Return None if no broker's log shows such a rebalance.
    """
    phase = join_phase_at(warehouse, group, at)
    if phase is None:
        return None
    members = [member.member_id for member in describe_at(warehouse, group, at).members]
    return phase.note(group, awaited_members(warehouse, group, phase, members, at))
