"""Events of an operation on a consumer, share or streams group.

A rebalance begins with a new group epoch. The rebalance is over when every member has reached its target of this epoch.
Consumer and streams groups are then Stable again. A share group is Stable during the whole rebalance.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.member_events import note_arrival, note_step, note_subscription
from coordinator_replay.engine.model import GroupType, Member, Regex, TopicMetadata, Topology
from coordinator_replay.engine.notes import MemberChange, ModernGroup, Note, broken, is_explained, is_new
from coordinator_replay.engine.operation import Header, Operation
from coordinator_replay.engine.reconciliation import INITIAL_EPOCH, Reconciliation
from coordinator_replay.engine.rules import EPOCHS_RISE, check_rules
from coordinator_replay.engine.streams_group import StreamsGroup

STATIC_MEMBER_KINDS = frozenset({EventKind.MEMBER_AWAY, EventKind.MEMBER_REPLACED, EventKind.MEMBER_REJOINED})


def note_modern(
    operation: Operation, before: Header | None, group: ModernGroup, changes: list[MemberChange], notes: list[Note]
) -> None:
    """Add notes (drafts of events) for the changes of a group that is not classic."""
    state = group.reconciliation
    # An upgrade keeps the members of the former type unchanged, so the event of the conversion lists them.
    is_upgrade = before is not None and before.group_type is not group.group_type and before.member_count > 0
    for change in changes:
        note_arrival(change, notes)
        if not is_upgrade or change.before is None:
            note_subscription(change, notes)
            note_step(change, state, notes)
    if operation.changes or operation.wrote_subscription:
        _note_group_changes(operation, before, group, notes)
    if not is_upgrade and (operation.at or operation.wrote_subscription or operation.wrote_target):
        _note_targets(operation, before, group, changes, notes)
        _note_epoch(operation, before, group, notes)
    check_rules(operation, before, group, notes)
    if state.incomplete or (state.birth_missing is None and _is_epoch_unseen(state)):
        operation.is_exact = False
    if state.is_rebalancing and is_explained(operation, [state.epoch_missing]) and _static_member_was_away(notes):
        state.is_rebalancing = None
    if state.is_rebalancing is not False and state.has_converged():
        operation.is_exact = operation.is_exact and state.is_rebalancing is not None
        state.is_rebalancing = False
        notes.append(Note(EventKind.REBALANCE_COMPLETED, operation.last_offset))


def _static_member_was_away(notes: Sequence[Note]) -> bool:
    """Return whether a static member left or came back.

    Either change puts a Stable group into the state Reconciling, without a new epoch.
    """
    return any(note.kind in STATIC_MEMBER_KINDS for note in notes)


def _is_epoch_unseen(state: Reconciliation) -> bool:
    """Return whether the log lacks a record of the group epoch or of the target assignment epoch.

    If the coordinator has not written such a record, the log lacks nothing. A new group has the epochs 1 and 1, and no
    records of them. So a group epoch above 2, or a member epoch above 1, shows that the coordinator has written both
    records.
    """
    if state.epoch_missing is not None and state.assignment_missing is not None:
        return False
    member_epochs = (member.current.epoch for member in state.members.values() if member.current is not None)
    return state.epoch > INITIAL_EPOCH + 1 or max(member_epochs, default=0) > INITIAL_EPOCH


def _note_group_changes(operation: Operation, before: Header | None, group: ModernGroup, notes: list[Note]) -> None:
    if isinstance(group, ConsumerGroup):
        _note_consumer(operation, before, group, notes)
    elif isinstance(group, StreamsGroup):
        _note_topology(operation, group.topology, notes)
    elif "share_state" in operation.at:
        changes = cast("Mapping[str, Any]", operation.changes["share_state"])
        notes.append(Note(EventKind.SHARE_STATE_CHANGED, operation.at["share_state"], changes=changes))


def _note_consumer(operation: Operation, before: Header | None, group: ConsumerGroup, notes: list[Note]) -> None:
    for name, old in operation.changes.items():
        if name == "topic_metadata":
            metadata = cast("tuple[TopicMetadata, ...] | None", old)
            changes = {"topics": [_topics(metadata), _topics(group.topic_metadata)]}
            notes.append(Note(EventKind.TOPIC_METADATA_CHANGED, operation.at[name], changes=changes))
        else:
            expression = name.removeprefix("regex ")
            _note_regex(expression, cast("Regex | None", old), group.regexes.get(expression), operation.at[name], notes)
    if before is None or before.group_type is not GroupType.CONSUMER or not operation.wrote_subscription:
        return
    if before.member_count and group.members and before.protocol != group.assignor:
        choices = {"assignor": [before.protocol, group.assignor]}
        notes.append(Note(EventKind.PROTOCOL_CHANGED, operation.last_offset, changes=choices))


def _note_regex(expression: str, old: Regex | None, new: Regex | None, at: int, notes: list[Note]) -> None:
    if old == new:
        return
    changes = {
        "regex": expression,
        "topics": [list(old.topics) if old else None, list(new.topics) if new else None],
        "version": new.version if new else None,
    }
    kind = EventKind.REGEX_RESOLVED if new is not None else EventKind.REGEX_REMOVED
    notes.append(Note(kind, at, changes=changes))


def _topics(metadata: Sequence[TopicMetadata] | None) -> list[dict[str, Any]] | None:
    if metadata is None:
        return None
    return [{"topic_id": topic.topic_id, "topic": topic.name, "partitions": topic.partitions} for topic in metadata]


def _note_topology(operation: Operation, new: Topology | None, notes: list[Note]) -> None:
    if "topology" not in operation.at:
        return
    old = cast("Topology | None", operation.changes["topology"])
    if old == new:
        return
    changes: dict[str, Any] = {
        "topology_epoch": [old.epoch if old else None, new.epoch if new else None],
        "source_topics": {key: list(topics) for key, topics in new.source_topics.items()} if new else None,
    }
    notes.append(Note(EventKind.TOPOLOGY_CHANGED, operation.at["topology"], changes=changes))


def _note_targets(
    operation: Operation, before: Header | None, group: ModernGroup, changes: list[MemberChange], notes: list[Note]
) -> None:
    moved = tuple(
        change.after for change in changes if change.after is not None and _has_new_target(change.before, change.after)
    )
    old = before.assignment_epoch if before is not None and not is_new(operation, before, group) else None
    at = operation.at.get("assignment_epoch")
    if not moved and (at is None or old == group.assignment_epoch):
        return
    if at is None:
        at = max(operation.members[member.member_id].target_at or operation.first_offset for member in moved)
    epochs = {"assignment_epoch": [old, group.assignment_epoch]}
    notes.append(Note(EventKind.TARGET_ASSIGNED, at, members=moved, changes=epochs))


def _has_new_target(before: Member | None, after: Member) -> bool:
    old = before.target if before is not None else None
    if after.target is None:
        return old is not None
    return not after.target.is_same_as(old)


def _note_epoch(operation: Operation, before: Header | None, group: ModernGroup, notes: list[Note]) -> None:
    state = group.reconciliation
    at = operation.at.get("epoch")
    previous = before if before is not None and not is_new(operation, before, group) else None
    is_first = previous is None or previous.epoch_missing is None
    changes: dict[str, Any] = {
        "epoch": [None if previous is None or is_first else previous.epoch, state.epoch],
        "metadata_hash": [None if previous is None or is_first else previous.metadata_hash, state.metadata_hash],
    }
    if previous is not None and previous.member_count and not state.members:
        state.is_rebalancing = False
        offset = at if at is not None else operation.last_offset
        notes.append(Note(EventKind.GROUP_EMPTIED, offset, changes=changes))
        return
    if at is None:
        return
    if previous is not None and not is_first and state.epoch <= previous.epoch:
        if state.epoch == previous.epoch:
            _note_hash(changes, at, notes)
            return
        _note_fall(operation, previous, changes, at, notes)
    if state.members:
        state.is_rebalancing = True
        notes.append(Note(EventKind.REBALANCE_STARTED, at, changes=changes))
    else:
        notes.append(Note(EventKind.EPOCH_CHANGED, at, changes=changes))


def _note_hash(changes: Mapping[str, Any], at: int, notes: list[Note]) -> None:
    old, new = changes["metadata_hash"]
    if old != new:
        notes.append(Note(EventKind.TOPIC_METADATA_CHANGED, at, changes=changes))


def _note_fall(operation: Operation, previous: Header, changes: Mapping[str, Any], at: int, notes: list[Note]) -> None:
    epochs = {"epoch": changes["epoch"]}
    if is_explained(operation, [previous.epoch_missing]):
        operation.is_exact = False
        notes.append(Note(EventKind.GROUP_REBORN, at, changes=epochs))
    else:
        notes.append(broken(EPOCHS_RISE, at, epochs))
