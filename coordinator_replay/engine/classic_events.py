"""Events that follow from a record of a classic group (kind 2, ``GroupMetadata``).

Kafka writes only the outcome of a rebalance, so a new generation means that a rebalance is over. If the generation rose
by more than one, the generations in between failed before they were written. If the generation stayed the same, a
static member came back under a new member id and no rebalance was needed.
"""

from typing import Any

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.member_events import note_arrival, note_subscription
from coordinator_replay.engine.model import GroupType
from coordinator_replay.engine.notes import MemberChange, Note, broken, is_new
from coordinator_replay.engine.operation import Header, Operation
from coordinator_replay.engine.rules import EPOCHS_RISE, WRITTEN_ONCE, check_generation


def note_classic(
    operation: Operation, before: Header | None, group: ClassicGroup, changes: list[MemberChange], notes: list[Note]
) -> None:
    """Add notes (drafts of events) for the changes of a classic group: members, leader, protocol and generation."""
    for rule, detail, offset in operation.damage:
        notes.append(broken(rule, offset, detail))
    is_converted = before is not None and before.group_type is not GroupType.CLASSIC
    for change in changes:
        note_arrival(change, notes)
        if not is_converted:
            note_subscription(change, notes)
    at = operation.at.get("generation")
    if at is None:
        return
    check_generation(group, at, notes)
    if is_converted:
        return
    if before is not None and not before.is_simple and not is_new(operation, before, group):
        _note_choices(before, group, at, notes)
        _note_progress(operation, before, group, at, changes, notes)
    elif group.generation or group.members:
        _note_generation(before, group, at, None, notes)


def _note_progress(
    operation: Operation, before: Header, group: ClassicGroup, at: int, changes: list[MemberChange], notes: list[Note]
) -> None:
    if group.generation == before.epoch:
        _note_rewritten(operation, group, at, changes, notes)
        return
    attempts: int | None = group.generation - before.epoch
    if group.generation < before.epoch:
        attempts = None
        epochs = {"epoch": [before.epoch, group.generation]}
        if operation.is_exact:
            notes.append(broken(EPOCHS_RISE, at, epochs))
        else:
            notes.append(Note(EventKind.GROUP_REBORN, at, changes=epochs))
    _note_generation(before, group, at, attempts if operation.is_exact else None, notes)


def _note_choices(before: Header, group: ClassicGroup, at: int, notes: list[Note]) -> None:
    if before.leader is not None and group.leader is not None and before.leader != group.leader:
        notes.append(Note(EventKind.LEADER_CHANGED, at, changes={"leader": [before.leader, group.leader]}))
    if before.protocol is not None and group.protocol is not None and before.protocol != group.protocol:
        notes.append(Note(EventKind.PROTOCOL_CHANGED, at, changes={"protocol": [before.protocol, group.protocol]}))


def _note_generation(
    before: Header | None, group: ClassicGroup, at: int, attempts: int | None, notes: list[Note]
) -> None:
    changes: dict[str, Any] = {
        "epoch": [before.epoch if before is not None else None, group.generation],
        "attempts": attempts,
        "join_done_ms": group.state_timestamp_ms,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
    }
    if group.members:
        kind = EventKind.REBALANCE_COMPLETED
    elif before is not None and before.member_count:
        kind = EventKind.GROUP_EMPTIED
    else:
        kind = EventKind.EPOCH_CHANGED
    notes.append(Note(kind, at, members=tuple(group.members.values()), changes=changes))


def _note_rewritten(
    operation: Operation, group: ClassicGroup, at: int, changes: list[MemberChange], notes: list[Note]
) -> None:
    is_suspicious = False
    for change in changes:
        before, after = change.before, change.after
        if before is None or after is None:
            is_suspicious |= before is not after
        elif after.current is not None and not after.current.is_same_as(before.current):
            is_suspicious = True
            notes.append(Note(EventKind.MEMBER_RECONCILED, at, after, before))
    if is_suspicious and operation.is_exact:
        notes.append(broken(WRITTEN_ONCE, at, {"epoch": group.generation}))
