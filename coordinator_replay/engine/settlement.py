"""An operation is over: what it did to the group, as events.

What happened is read from the difference between the group before and after the operation, not from single records:
three tombstones and three records under the same instance id are one static member that came back, a tombstone of one
type followed by records of another is a conversion. Only what the operation touched is looked at.
"""

from collections.abc import Mapping

from coordinator_replay.engine.classic_events import note_classic
from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.member_events import member_changes, note_departures
from coordinator_replay.engine.model import GroupState
from coordinator_replay.engine.modern_events import note_modern
from coordinator_replay.engine.notes import Change, Group, Note, is_reborn
from coordinator_replay.engine.operation import Header, Operation

BEGINNINGS = frozenset({EventKind.GROUP_CREATED, EventKind.GROUP_DISCOVERED})

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
"""Which event of an operation carries the group into a state: the first kind that is there, else the last event."""


def settle(operation: Operation, group: Group | None) -> list[Event]:
    """The events of a finished operation, in the order of its records.

    Args:
        operation: the operation.
        group: the group after it, None when it is gone.
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
        _note_life(operation, before, group, changes, notes)
        if isinstance(group, ClassicGroup):
            note_classic(operation, before, group, changes, notes)
        else:
            note_modern(operation, before, group, changes, notes)
    notes.sort(key=lambda note: note.offset)
    return _events(operation, before, group, notes)


def _note_life(
    operation: Operation, before: Header | None, group: Group, changes: list[Change], notes: list[Note]
) -> None:
    note_departures(changes, notes)
    if before is None:
        kind = EventKind.GROUP_CREATED if _is_beginning(operation, group) else EventKind.GROUP_DISCOVERED
        notes.append(Note(kind, operation.first_offset))
    elif before.group_type != group.group_type:
        kept = tuple(change.after for change in changes if change.before is not None and change.after is not None)
        types = {"group_type": [before.group_type, group.group_type]}
        notes.append(Note(EventKind.GROUP_CONVERTED, operation.first_offset, members=kept, changes=types))
    elif is_reborn(operation, group):
        notes.append(Note(EventKind.GROUP_DELETED, operation.at["removed"]))
        notes.append(Note(EventKind.GROUP_CREATED, operation.at["removed"]))


def _is_beginning(operation: Operation, group: Group) -> bool:
    """A group surely begins here: nothing is missing, or it is the empty record that a first join writes."""
    if operation.is_exact:
        return True
    return isinstance(group, ClassicGroup) and not group.generation and not group.members and not group.is_simple


def _events(operation: Operation, before: Header | None, group: Group | None, notes: list[Note]) -> list[Event]:
    state = before.state if before is not None else None
    final = group.state if group is not None else GroupState.DEAD
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
        if note.kind in BEGINNINGS:
            state = None
        following = final if index == carrier else _following(note.kind, state, final, carrier)
        events.append(
            Event(
                note.kind,
                shown.group_type,
                state,
                following,
                shown.epoch,
                shown.assignment_epoch,
                count,
                operation.is_exact or note.kind is EventKind.GROUP_CREATED,
                operation.partition,
                note.offset,
                operation.timestamp_ms,
                note.member,
                note.before,
                note.members,
                note.changes,
            )
        )
        state = following
    return events


def _following(kind: EventKind, state: GroupState | None, final: GroupState, carrier: int | None) -> GroupState:
    if kind is EventKind.GROUP_DELETED:
        return GroupState.DEAD
    if kind in BEGINNINGS:
        return final if carrier is None else GroupState.EMPTY
    return state or final


def _carrier(notes: list[Note], state: GroupState | None, final: GroupState) -> int | None:
    """Index of the note that carries the group into its final state, None where no note needs to."""
    kinds = [note.kind for note in notes]
    if final is GroupState.DEAD:
        return kinds.index(EventKind.GROUP_DELETED)
    begins_at = next((index for index, kind in enumerate(kinds) if kind in BEGINNINGS), None)
    if begins_at is None and (state == final or not notes):
        return None
    if begins_at is not None and (final is GroupState.EMPTY or begins_at == len(notes) - 1):
        return None
    start = 0 if begins_at is None else begins_at + 1
    for wanted in NAMES_THE_STATE.get(final, ()):
        for index in range(len(notes) - 1, start - 1, -1):
            if kinds[index] is wanted:
                return index
    return len(notes) - 1
