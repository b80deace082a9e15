"""Answers about the groups of a cluster."""

from collections.abc import Sequence
from datetime import datetime

from coordinator_replay.query.absence import missing_groups_note
from coordinator_replay.query.answers.answered import Rows, nothing_note, on_record
from coordinator_replay.query.basis import basis_at, basis_from
from coordinator_replay.query.group_partitions import unaudited_note
from coordinator_replay.query.groups import (
    UNKNOWN,
    Group,
    groups_at,
    in_progress_note,
    unknown_states_note,
    unrecorded_states_note,
)
from coordinator_replay.query.removed import DeletedGroup
from coordinator_replay.query.removed import deleted_groups as groups_deleted_by
from coordinator_replay.query.tables import END, Tables
from coordinator_replay.query.who import Who, groups_at_time, is_pattern, named_groups, unknown_members_note


def groups(
    warehouse: Tables, at: datetime | None, *, types: Sequence[str], states: Sequence[str], who: Who
) -> Rows[Group]:
    """Return the groups at a point in time.

    Args:
        warehouse: the tables to read.
        at: the point in time; the end of the log if None.
        types: only groups of these types; all if empty.
        states: only groups in these states, in upper or lower case; all if empty.
        who: only groups that meet these conditions, for example groups with a member on a certain host at ``at``.
    """
    note = warehouse.check_moment(at)
    names = groups_at_time(warehouse, who, at)
    of_types = [group for group in groups_at(warehouse, at, types=types) if names is None or group.group_id in names]
    wanted = {state.lower() for state in states}
    chosen = [group for group in of_types if not wanted or group.state.lower() in wanted]
    covered = f"cluster {warehouse.cluster!r} is covered from {warehouse.coverage}"
    nothing = None if chosen else f"No group{on_record(warehouse)} matches; {covered}."
    basis = basis_at(warehouse, at or END)
    notes = [
        nothing,
        # The basis already says of an earlier time that records are missing.
        missing_groups_note(warehouse, at) if basis.is_complete else None,
        unknown_members_note(warehouse, who, names, at),
        unknown_states_note(of_types, states),
        unrecorded_states_note(chosen, states, has_logs=warehouse.has_rows("broker_log")),
        in_progress_note(chosen, at),
        note,
    ]
    return Rows(
        content=chosen,
        row_type=Group,
        notes=[*notes, unaudited_note(warehouse)],
        basis=basis,
    )


def deleted_groups(warehouse: Tables, at: datetime | None, *, types: Sequence[str]) -> Rows[DeletedGroup]:
    """Return groups that existed before a point in time, but certainly did not exist at this time.

    Args:
        warehouse: the tables to read.
        at: the point in time; the end of the log if None.
        types: only groups of these types; all if empty.
    """
    note = warehouse.check_moment(at)
    deleted = groups_deleted_by(warehouse, at, types=types)
    if not warehouse.completeness.is_whole:
        # If a deleted group's state is Unknown, it may have been created again.
        unknown = {group.group_id for group in groups_at(warehouse, at, states=[UNKNOWN])}
        deleted = [deletion for deletion in deleted if deletion.group_id not in unknown]
    notes = [nothing_note(warehouse, "deleted group", deleted), note]
    # The answer includes deletions at any earlier time.
    return Rows(content=deleted, row_type=DeletedGroup, notes=notes, basis=basis_from(warehouse))


def chosen_groups(warehouse: Tables, typed: Sequence[str], at: datetime | None, *, is_all: bool, who: Who) -> list[str]:
    """Return the names of the groups that a user chose, by names, by patterns with ``*`` or by conditions.

    If the user gave only names, return these names in the same order, without a check that the groups exist.

    Args:
        warehouse: the tables to read.
        typed: names and patterns; if empty, every group that meets the conditions is chosen.
        at: the point in time at which a group must exist to match a pattern or a condition; the end of the log if None.
        is_all: ignore ``typed``, and choose every group that meets the conditions.
        who: conditions that the groups must meet.
    """
    if not is_all and who.is_everyone and not any(map(is_pattern, typed)):
        return list(dict.fromkeys(typed))
    warehouse.check_moment(at)
    there = [group.group_id for group in groups_at(warehouse, at)]
    names = groups_at_time(warehouse, who, at)
    chosen = there if is_all or not typed else named_groups(warehouse, typed, there)
    return [name for name in chosen if names is None or name in names]
