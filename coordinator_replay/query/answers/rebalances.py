"""Answers about rebalances and their causes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.listing import counted
from coordinator_replay.query.answers.answered import Answered, Rows, nothing_note
from coordinator_replay.query.answers.describe import join_phase_note
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.coordinators import nearby_note
from coordinator_replay.query.groups import end_state_note
from coordinator_replay.query.hold_ups import HoldUp, hold_ups
from coordinator_replay.query.rebalance_summary import group_note, summary_between
from coordinator_replay.query.rebalances import Rebalance, cause_name, rebalances_at, rebalances_of
from coordinator_replay.query.resubscriptions import resubscription_note
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.who import (
    Who,
    groups_at_time,
    groups_in_range,
    unknown_members_in_range_note,
    unknown_members_note,
)
from coordinator_replay.times import moment_text


def rebalances(
    warehouse: Tables,
    group: str | None,
    start: datetime | None,
    end: datetime | None,
    *,
    causes: Sequence[str],
    last: int | None,
    who: Who,
) -> Rows[Rebalance]:
    """Return the rebalances of groups in a time range.

    Args:
        warehouse: the tables to read.
        group: only rebalances of this group; None for all groups.
        start: leave out rebalances that were over before this time; None for no lower bound.
        end: leave out rebalances that began at this time or later; None for no upper bound.
        causes: only rebalances whose cause or alternatives include one of these causes; empty for all rebalances.
        last: return only this number of rebalances, the latest; None to return all.
        who: conditions that groups must meet.
    """
    names = groups_in_range(warehouse, who, start, end)
    found = _in_range(warehouse, group, start, end, causes, last, names)
    basis = basis_from(warehouse, start, group=group)
    summed = (
        group_note(warehouse, group, found, is_complete=basis.is_complete)
        if group and not causes and last is None
        else None
    )
    return Rows(
        content=found,
        row_type=Rebalance,
        notes=[
            summed,
            _alternatives_note(found, causes),
            _open_causes_note(_any_cause(warehouse, group, start, end, causes, names), causes),
            nothing_note(warehouse, "rebalance", found, group),
            unknown_members_in_range_note(warehouse, who, names, start, end) if group is None else None,
        ],
        basis=basis,
    )


@dataclass(frozen=True, slots=True)
class Reasons:
    """Rebalances with causes and evidence, the members that blocked them, and a summary.

    Attributes:
        hold_ups: for a rebalance that a member blocked, this member, by rebalance id. Some of these rebalances may not
            be in ``rebalances``.
        summary: three sentences about all ``rebalances``; empty if there are only a few.
    """

    rebalances: Sequence[Rebalance]
    hold_ups: Mapping[str, HoldUp]
    summary: Sequence[str]


def why(
    warehouse: Tables,
    group: str | None,
    start: datetime | None,
    end: datetime | None,
    *,
    causes: Sequence[str],
    last: int | None,
    who: Who,
) -> Answered[Reasons]:
    """Return the rebalances in a time range, with explanations. The arguments are as for ``rebalances``."""
    names = groups_in_range(warehouse, who, start, end)
    found = _in_range(warehouse, group, start, end, causes, last, names)
    asked = None if group is None else resubscription_note(warehouse, group, start, end)
    # The note is about a rebalance in progress at the end of the log, which a time range with an end does not ask for.
    phase = None if group is None or end is not None else join_phase_note(warehouse, group, None)
    now = None if group is None or end is not None or phase is not None else end_state_note(warehouse, group)
    possible = _open_causes_note(_any_cause(warehouse, group, start, end, causes, names), causes)
    notes = [phase, nearby_note(warehouse, found), asked, now, possible]
    unknown = unknown_members_in_range_note(warehouse, who, names, start, end) if group is None else None
    return _reasons(warehouse, found, group, start, end, causes, notes, [unknown])


def why_at(warehouse: Tables, group: str | None, at: datetime, *, causes: Sequence[str], who: Who) -> Answered[Reasons]:
    """Return the rebalances in progress at a point in time, with explanations.

    If a group had no rebalance in progress, return the group's last rebalance before the point in time. Also return the
    first rebalance after the point in time, if its start is not on record and may have been earlier.

    Args:
        warehouse: the tables to read.
        group: only rebalances of this group; None for all groups that meet ``who``.
        at: the point in time.
        causes: only rebalances whose cause or alternatives include one of these causes; empty for all rebalances.
        who: conditions that groups must meet.
    """
    note = warehouse.check_moment(at)
    names = groups_at_time(warehouse, who, at)
    chosen = [group] if group is not None or names is None else sorted(names)

    def in_progress(causes: Sequence[str]) -> list[Rebalance]:
        begun = [rebalance for name in chosen for rebalance in rebalances_at(warehouse, name, at, causes=causes)]
        return [rebalance for rebalance in begun if names is None or rebalance.group_id in names]

    found, others = in_progress(causes), in_progress(()) if causes else []
    perhaps = None
    if group is not None and found and (found[-1].began_by or at) > at:
        perhaps = (
            f"At {moment_text(at)} the rebalance to generation {found[-1].epoch} may have begun already: "
            "the join phase of a classic group leaves no record."
        )
    phase = None if group is None else join_phase_note(warehouse, group, at)
    notes = [phase, perhaps, nearby_note(warehouse, found), _open_causes_note(others, causes)]
    unknown = unknown_members_note(warehouse, who, names, at) if group is None else None
    return _reasons(warehouse, found, group, at, None, causes, notes, [unknown, note])


def _reasons(
    warehouse: Tables,
    found: Sequence[Rebalance],
    group: str | None,
    start: datetime | None,
    end: datetime | None,
    causes: Sequence[str],
    notes: Sequence[str | None],
    last_notes: Sequence[str | None],
) -> Answered[Reasons]:
    """Make an answer from rebalances: add the members that blocked them, a summary, notes and the basis.

    Args:
        warehouse: the tables to read.
        found: the rebalances.
        group: the group that the user asks about; None for all groups.
        start: the point in time that the user asks about, or the start of the time range.
        end: end of the time range; None for a range without an end, and for a point in time.
        causes: the causes that the user asks for.
        notes: the first notes of the answer.
        last_notes: the last notes of the answer.
    """
    held_up = hold_ups(warehouse, group) if any(rebalance.held_up_by for rebalance in found) else {}
    absent = nothing_note(warehouse, "rebalance", found, group)
    basis = basis_from(warehouse, start, group=group)
    summary = summary_between(warehouse, found, start, end, is_complete=basis.is_complete)
    return Answered(
        content=Reasons(found, held_up, summary),
        notes=[*notes, _alternatives_note(found, causes), absent, *last_notes],
        basis=basis,
    )


def _in_range(
    warehouse: Tables,
    group: str | None,
    start: datetime | None,
    end: datetime | None,
    causes: Sequence[str],
    last: int | None,
    names: Collection[str] | None,
) -> list[Rebalance]:
    found = rebalances_of(warehouse, group, start, end, causes=causes)
    chosen = [rebalance for rebalance in found if names is None or rebalance.group_id in names]
    return chosen if last is None else chosen[max(len(chosen) - last, 0) :]


def _any_cause(
    warehouse: Tables,
    group: str | None,
    start: datetime | None,
    end: datetime | None,
    causes: Sequence[str],
    names: Collection[str] | None,
) -> Sequence[Rebalance]:
    """Return the rebalances of a time range with any cause; an empty list if the user did not ask for causes."""
    return _in_range(warehouse, group, start, end, (), None, names) if causes else ()


def _open_causes_note(rebalances: Sequence[Rebalance], causes: Sequence[str]) -> str | None:
    """Return a note on rebalances whose cause is not known, and so may be one of the causes asked for.

    Return None if there are no such rebalances, or if the user did not ask for causes.

    Args:
        rebalances: the rebalances with any cause.
        causes: the causes that the user asked for.
    """
    count = sum(rebalance.is_cause_open and rebalance.match(causes) is None for rebalance in rebalances)
    if not causes or not count:
        return None
    asked = " or ".join(map(cause_name, causes))
    shown = "it" if count == 1 else "them"
    return (
        f"The cause of {counted(count, 'more rebalance')} is open: it could be {asked}. --cause UNKNOWN shows {shown}."
    )


def _alternatives_note(rebalances: Sequence[Rebalance], causes: Sequence[str]) -> str | None:
    """Return a note on rebalances that an answer has only because of an alternative cause.

    Return None if there are no such rebalances.

    Args:
        rebalances: the rebalances of the answer.
        causes: the causes that the user asked for.
    """
    others = sum(rebalance.matched_by == "alternative" for rebalance in rebalances)
    if not others:
        return None
    asked = " or ".join(map(cause_name, causes))
    have = "has" if others == 1 else "have"
    return f"{others} of {len(rebalances)} {have} another cause and {asked} as an alternative: it could also be that."
