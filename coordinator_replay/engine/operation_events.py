"""Events of an operation that has ended.

The events come from the difference between the group before and after the operation, not from single records. For
example, three tombstones and three records with the same instance id are one event: a static member came back. The
tombstone of a group, followed by records of another group type, is a conversion. The comparison is limited to the
members and the fields that the operation's records are about.
"""

from collections.abc import Mapping
from typing import Any

from coordinator_replay.engine.classic_events import note_classic
from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.member_events import member_changes, note_departures
from coordinator_replay.engine.model import GroupState
from coordinator_replay.engine.modern_events import note_modern
from coordinator_replay.engine.notes import Group, MemberChange, Note
from coordinator_replay.engine.operation import Operation

# A look-up in an enum costs a tenth of a microsecond, and every event would need several.
CREATED, DISCOVERED, DELETED = EventKind.GROUP_CREATED, EventKind.GROUP_DISCOVERED, EventKind.GROUP_DELETED
EMPTY, DEAD = GroupState.EMPTY, GroupState.DEAD

NAMES_THE_STATE: Mapping[GroupState, tuple[EventKind, ...]] = {
    GroupState.EMPTY: (EventKind.GROUP_CONVERTED, EventKind.GROUP_EMPTIED),
    GroupState.STABLE: (EventKind.GROUP_CONVERTED, EventKind.REBALANCE_COMPLETED),
    GroupState.ASSIGNING: (EventKind.GROUP_CONVERTED, EventKind.REBALANCE_STARTED),
    GroupState.RECONCILING: (
        EventKind.GROUP_CONVERTED,
        EventKind.REBALANCE_STARTED,
        EventKind.TARGET_ASSIGNED,
        EventKind.MEMBER_AWAY,
    ),
    GroupState.NOT_READY: (EventKind.GROUP_CONVERTED, EventKind.REBALANCE_STARTED),
}
"""For each state, the kinds of events that can carry the change to this state, the preferred kind first.

If the operation has events of several of these kinds, the kind that comes first decides which event carries the change.
If it has none, its last event carries the change.
"""


def operation_events(
    operation: Operation, group: Group | None, final: GroupState, *, is_state_exact: bool = True
) -> list[Event]:
    """Return the events of a finished operation, in the order of its records.

    Return no events if the group existed neither before nor after the operation.

    Args:
        operation: the finished operation.
        group: the group after the operation; None if the group was removed.
        final: the group's state after the operation.
        is_state_exact: whether the group is proven after the operation.
    """
    before = operation.before
    if before is None and group is None:
        return []
    notes: list[Note] = []
    changes = member_changes(operation, group)
    if group is None:
        note_departures(changes, notes)
        notes.append(Note(EventKind.GROUP_DELETED, operation.at.get("removed", operation.last_offset)))
    else:
        _note_life(operation, group, changes, notes)
        if isinstance(group, ClassicGroup):
            note_classic(operation, before, group, changes, notes)
        else:
            note_modern(operation, before, group, changes, notes)
    if len(notes) > 1:
        notes.sort(key=lambda note: note.offset)
    return _events(operation, group, final, notes, is_state_exact=is_state_exact)


def _note_life(operation: Operation, group: Group, changes: list[MemberChange], notes: list[Note]) -> None:
    before = operation.before
    if before is None:
        kind = EventKind.GROUP_CREATED if _is_beginning(operation, group) else EventKind.GROUP_DISCOVERED
        notes.append(Note(kind, operation.first_offset))
        return
    if operation.wrote_subscription or operation.at:
        note_departures(changes, notes)
    if before.group_type is not group.group_type:
        kept = tuple(change.after for change in changes if change.before is not None and change.after is not None)
        types: dict[str, Any] = {"group_type": [before.group_type, group.group_type]}
        if "removed" not in operation.at:
            types["has_no_tombstone"] = True
        notes.append(Note(EventKind.GROUP_CONVERTED, operation.first_offset, members=kept, changes=types))
    elif "removed" in operation.at:
        notes.append(Note(EventKind.GROUP_DELETED, operation.at["removed"]))
        notes.append(Note(EventKind.GROUP_CREATED, operation.at["created"]))


def _is_beginning(operation: Operation, group: Group) -> bool:
    """Return whether the group certainly did not exist before the operation.

    This is certain if no record is missing. It is also certain for an empty classic group of generation 0, which the
    coordinator writes at the first join.
    """
    if operation.is_exact:
        return True
    return isinstance(group, ClassicGroup) and not group.generation and not group.members and not group.is_simple


def _events(
    operation: Operation, group: Group | None, final: GroupState, notes: list[Note], *, is_state_exact: bool
) -> list[Event]:
    before = operation.before
    state = before.state if before is not None else None
    carrier = _carrier(notes, state, final)
    if carrier is None and not notes and state != final:
        notes.append(Note(EventKind.STATE_CHANGED, operation.last_offset))
        carrier = 0
    shown = group if group is not None else before
    if shown is None:
        return []
    count = len(group.members) if group is not None else 0
    events = []
    for index, note in enumerate(notes):
        kind = note.kind
        if kind is CREATED or kind is DISCOVERED:
            state, following = None, EMPTY
            if carrier is None:
                following = final
        elif kind is DELETED:
            following = DEAD
        elif index == carrier or state is None:
            following = final
        else:
            following = state
        events.append(
            Event(
                kind,
                shown.group_type,
                state,
                following,
                shown.epoch,
                shown.assignment_epoch,
                count,
                operation.is_exact or kind is CREATED,
                operation.partition,
                note.offset,
                operation.timestamp_ms,
                note.member,
                note.before,
                note.members,
                note.changes,
                is_state_exact,
            )
        )
        state = following
    return events


def _carrier(notes: list[Note], state: GroupState | None, final: GroupState) -> int | None:
    """Return the index of the note (the draft of an event) whose event shows the change of the group's state.

    The events of the other notes leave the state as it is. Return None if the state does not change, or changes only
    because the group begins.

    Args:
        notes: the notes of the operation.
        state: the group's state before the operation; None if the group did not exist.
        final: the group's state after the operation.
    """
    if state is final:
        return None
    kinds = [note.kind for note in notes]
    if final is DEAD:
        return kinds.index(DELETED)
    begins_at = next((index for index, kind in enumerate(kinds) if kind is CREATED or kind is DISCOVERED), None)
    if begins_at is None and not notes:
        return None
    if begins_at is not None and (final is EMPTY or begins_at == len(notes) - 1):
        return None
    start = 0 if begins_at is None else begins_at + 1
    for wanted in NAMES_THE_STATE.get(final, ()):
        for index in range(len(notes) - 1, start - 1, -1):
            if kinds[index] is wanted:
                return index
    return len(notes) - 1
