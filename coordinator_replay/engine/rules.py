"""Rules that every log keeps. A rule is broken if records of a group contradict each other.

The rules are checked after every operation of the coordinator, because they need not hold between the records of an
operation. A broken rule becomes an INVARIANT_BROKEN event. But if records are missing after the oldest of the
contradicting records, the missing records may explain the contradiction. Then there is no event, and the operation is
marked as not exact.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.model import NOTHING, Current, GroupType, Member
from coordinator_replay.engine.notes import ModernGroup, Note, broken, is_explained, is_new
from coordinator_replay.engine.operation import Header, Operation
from coordinator_replay.engine.reconciliation import NO_ASSIGNMENT_EPOCH, Reconciliation, assign_partitions

ONE_OWNER = "one_owner_per_partition"
DISJOINT_TARGETS = "targets_are_disjoint"
MEMBER_EPOCH = "member_epoch_within_assignment_epoch"
ASSIGNMENT_EPOCH = "assignment_epoch_within_group_epoch"
EPOCHS_RISE = "epochs_never_fall"
WRITTEN_ONCE = "generation_is_written_once"

RULES: Mapping[str, str] = {
    ONE_OWNER: "a partition (an active task) belongs to one member at most; not in share groups",
    DISJOINT_TARGETS: "targets of one assignment epoch share no partition; not in share groups",
    MEMBER_EPOCH: "no member is ahead of the assignment epoch",
    ASSIGNMENT_EPOCH: "the assignment epoch is not ahead of the group epoch",
    EPOCHS_RISE: "generation, group epoch and assignment epoch never fall within one life of a group",
    WRITTEN_ONCE: "a generation is written again only for a static member that came back",
    "member_id_repeats": "a classic generation names a member once",
    "instance_id_repeats": "an instance id belongs to one member",
    "leader_is_not_a_member": "the leader of a classic generation is one of its members",
}


def check_generation(group: ClassicGroup, at: int, notes: list[Note]) -> None:
    """Add a note of a broken rule for each partition that a generation assigns to two members.

    A log may have such a generation, because the broker does not check the assignment that the group's leader sends.
    """
    gains = [
        (member_id, NOTHING, member.current.assigned or NOTHING)
        for member_id, member in group.members.items()
        if member.current is not None
    ]
    for topic, partition, holder, taker in assign_partitions({}, gains):
        notes.append(broken(ONE_OWNER, at, _contest(topic, partition, holder, taker)))


def check_rules(operation: Operation, before: Header | None, group: ModernGroup, notes: list[Note]) -> None:
    """Check the rules of consumer, share and streams groups after an operation.

    A rule is broken if two records contradict each other. Add a note for each broken rule. If missing records may
    explain the contradiction, mark the operation as not exact instead.
    """
    state = group.reconciliation
    if group.group_type is not GroupType.SHARE:
        _check_owners(operation, state, notes)
        if operation.wrote_target:
            _check_targets(operation, state, notes)
    _check_member_epochs(operation, state, notes)
    if state.assignment_epoch > state.epoch:
        _check_assignment_epoch(operation, state, notes)
    if "assignment_epoch" in operation.at and before is not None and not is_new(operation, before, group):
        _check_assignment_epoch_rises(operation, before, state, notes)


def _contest(topic: str, partition: int, holder: str, taker: str) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "member_ids": [holder, taker]}


def _check_owners(operation: Operation, state: Reconciliation, notes: list[Note]) -> None:
    moves = []
    for member_id, touch in operation.members.items():
        after = state.members.get(member_id)
        old = touch.before.current if touch.before is not None else None
        new = after.current if after is not None else None
        if old is not new and (old is None or new is None or _owns_others(old, new)):
            moves.append((member_id, old.owned() if old else NOTHING, new.owned() if new else NOTHING))
    for topic, partition, holder, taker in assign_partitions(state.owners, moves):
        stamps = [_current_missing(state.members.get(member_id)) for member_id in (holder, taker)]
        note = broken(ONE_OWNER, operation.last_offset, _contest(topic, partition, holder, taker))
        _note_broken(operation, stamps, note, notes)


def _owns_others(old: Current, new: Current) -> bool:
    return old.assigned != new.assigned or old.pending != new.pending


def _check_targets(operation: Operation, state: Reconciliation, notes: list[Note]) -> None:
    moves = []
    for member_id, touch in operation.members.items():
        if touch.target_at is not None:
            old, new = touch.target_before, state.target_of(member_id)
            moves.append((member_id, old.assigned if old else NOTHING, new.assigned if new else NOTHING))
    contested = assign_partitions(state.target_owners, moves)
    if "assignment_epoch" not in operation.at:
        return
    for topic, partition, holder, taker in contested:
        targets = [state.target_of(member_id) for member_id in (holder, taker)]
        stamps = [target.missing if target is not None else None for target in targets]
        note = broken(DISJOINT_TARGETS, operation.at["assignment_epoch"], _contest(topic, partition, holder, taker))
        _note_broken(operation, stamps, note, notes)


def _check_member_epochs(operation: Operation, state: Reconciliation, notes: list[Note]) -> None:
    for member_id, touch in operation.members.items():
        member = state.members.get(member_id)
        if member is None or member.current is None or member.current.epoch <= state.assignment_epoch:
            continue
        detail = {"member_epoch": member.current.epoch, "assignment_epoch": state.assignment_epoch}
        note = broken(MEMBER_EPOCH, touch.last_at, detail, member)
        _note_broken(operation, [member.current.missing, _assignment_seen(state)], note, notes)


def _check_assignment_epoch(operation: Operation, state: Reconciliation, notes: list[Note]) -> None:
    stamps = [_assignment_seen(state), state.epoch_missing if state.epoch_missing is not None else state.birth_missing]
    if "assignment_epoch" in operation.at or "epoch" in operation.at:
        detail = {"assignment_epoch": state.assignment_epoch, "epoch": state.epoch}
        _note_broken(operation, stamps, broken(ASSIGNMENT_EPOCH, operation.last_offset, detail), notes)
    elif is_explained(operation, stamps):
        operation.is_exact = False


def _check_assignment_epoch_rises(
    operation: Operation, before: Header, state: Reconciliation, notes: list[Note]
) -> None:
    old, at = before.assignment_epoch, operation.at["assignment_epoch"]
    if old is None or before.assignment_missing is None:
        return
    if NO_ASSIGNMENT_EPOCH < state.assignment_epoch < old:
        detail = {"assignment_epoch": [old, state.assignment_epoch]}
        _note_broken(operation, [before.assignment_missing], broken(EPOCHS_RISE, at, detail), notes)


def _assignment_seen(state: Reconciliation) -> int | None:
    return state.assignment_missing if state.assignment_missing is not None else state.birth_missing


def _current_missing(member: Member | None) -> int | None:
    return member.current.missing if member is not None and member.current is not None else None


def _note_broken(operation: Operation, stamps: Sequence[int | None], note: Note, notes: list[Note]) -> None:
    if is_explained(operation, stamps):
        operation.is_exact = False
    else:
        notes.append(note)
