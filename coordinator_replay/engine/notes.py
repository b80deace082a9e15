"""Notes: drafts of the events of an operation. ``operation_events`` makes an ``Event`` of each note.

A note has everything about an event except the states of the group before and after the event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.events import NO_CHANGES, EventKind
from coordinator_replay.engine.model import Member
from coordinator_replay.engine.operation import Header, Operation
from coordinator_replay.engine.share_group import ShareGroup
from coordinator_replay.engine.streams_group import StreamsGroup

ModernGroup = ConsumerGroup | ShareGroup | StreamsGroup
Group = ClassicGroup | ModernGroup


class Note(NamedTuple):
    """A draft of an event: the fields of ``Event`` that can differ between the events of one operation.

    The draft lacks the states of the group before and after the event.
    """

    kind: EventKind
    offset: int
    member: Member | None = None
    before: Member | None = None
    members: tuple[Member, ...] = ()
    changes: Mapping[str, Any] = NO_CHANGES


@dataclass(slots=True)
class MemberChange:
    """A member before and after the operation, with the log offsets of the operation's records about the member.

    Attributes:
        before: None if the member is new.
        after: None if the member was removed.
        subscription_at: log offset of the last record of the member's subscription; ``last_at`` if there is none.
        current_at: log offset of the last record of the member's current assignment; None if there is none.
        last_at: log offset of the last record about the member.
    """

    before: Member | None
    after: Member | None
    subscription_at: int
    current_at: int | None
    last_at: int


def is_reborn(operation: Operation, group: Group | None) -> bool:
    """Return whether the group was deleted and created again, as the same type, within the operation."""
    before = operation.before
    return (
        before is not None and group is not None and "removed" in operation.at and before.group_type == group.group_type
    )


def is_new(operation: Operation, before: Header | None, group: Group) -> bool:
    """Return whether the group began in the operation: it was created, converted, or deleted and created again.

    Args:
        operation: the operation.
        before: the group before the operation; None if the group did not exist.
        group: the group after the operation.
    """
    return before is None or before.group_type != group.group_type or is_reborn(operation, group)


def broken(rule: str, at: int, detail: Mapping[str, Any], member: Member | None = None) -> Note:
    """Return a note of an INVARIANT_BROKEN event: the log has broken a rule."""
    return Note(EventKind.INVARIANT_BROKEN, at, member, changes={"rule": rule, **detail})


def is_explained(operation: Operation, stamps: Sequence[int | None]) -> bool:
    """Return whether missing records can explain a contradiction between some records.

    This is so if records are missing between the oldest of these records and the end of the operation, or if one of
    these records was never seen.

    Args:
        operation: the group's last operation.
        stamps: ``missing_before`` of each of these records; None for a record that was never seen.
    """
    return any(stamp is None or operation.missing > stamp for stamp in stamps)
