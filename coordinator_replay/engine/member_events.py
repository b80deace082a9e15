"""Events of single members in an operation, for groups of all types."""

from typing import Any

from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import AWAY_EPOCH, Subscription
from coordinator_replay.engine.notes import Group, MemberChange, Note, is_reborn
from coordinator_replay.engine.operation import Operation
from coordinator_replay.engine.reconciliation import Reconciliation


def member_changes(operation: Operation, group: Group | None) -> list[MemberChange]:
    """Return each member that an operation touched, before and after the operation.

    If a static member came back under a new member id, a single change has the old member before and the new member
    after. If the operation deleted the group and created it again, a member of the old and of the new group has two
    changes.
    """
    members = group.members if group is not None else {}
    removed_at = operation.at.get("removed", operation.last_offset)
    starts_over = is_reborn(operation, group)
    changes: list[MemberChange] = []
    left: dict[str, MemberChange] = {}
    for member_id, touch in operation.members.items():
        before, after = touch.before, members.get(member_id)
        subscription_at = touch.subscription_at if touch.subscription_at is not None else touch.last_at
        if starts_over and before is not None:
            changes.append(MemberChange(before, None, removed_at, None, removed_at))
            before = None
        change = MemberChange(before, after, subscription_at, touch.current_at, touch.last_at)
        if before is not None and after is None and before.instance_id is not None:
            left[before.instance_id] = change
        changes.append(change)
    if left:
        _pair_static_members(left, changes)
    return changes


def _pair_static_members(left: dict[str, MemberChange], changes: list[MemberChange]) -> None:
    for change in changes:
        if change.before is None and change.after is not None and change.after.instance_id in left:
            departed = left[change.after.instance_id]
            change.before, departed.before = departed.before, None


def note_departures(changes: list[MemberChange], notes: list[Note]) -> None:
    """Add a note (the draft of an event) for each member that was removed."""
    notes.extend(
        Note(EventKind.MEMBER_LEFT, change.last_at, change.before, change.before)
        for change in changes
        if change.before is not None and change.after is None
    )


def note_arrival(change: MemberChange, notes: list[Note]) -> None:
    """Add a note (the draft of an event) if a member is new, or came back under a new member id."""
    before, after = change.before, change.after
    if after is None:
        return
    if before is None:
        notes.append(Note(EventKind.MEMBER_JOINED, change.subscription_at, after))
    elif before.member_id != after.member_id:
        notes.append(Note(EventKind.MEMBER_REPLACED, change.subscription_at, after, before))


def note_subscription(change: MemberChange, notes: list[Note]) -> None:
    """Add notes (drafts of events) for the changes of a subscription, if the member stays."""
    before, after = change.before, change.after
    if before is None or after is None or before.subscription == after.subscription:
        return
    old, new = before.subscription_or_empty, after.subscription_or_empty
    if _asked(old) != _asked(new):
        notes.append(Note(EventKind.SUBSCRIPTION_CHANGED, change.subscription_at, after, before))
    if before.member_id == after.member_id and _metadata(old) != _metadata(new):
        notes.append(Note(EventKind.METADATA_CHANGED, change.subscription_at, after, before))


def _asked(subscription: Subscription) -> tuple[frozenset[str] | None, str | None]:
    """Return the topics and the regex that a member subscribes to. The order of topics does not matter."""
    topics = subscription.topics
    return None if topics is None else frozenset(topics), subscription.regex


def _metadata(subscription: Subscription) -> tuple[Any, ...]:
    """Return what to compare for a METADATA_CHANGED event: a subscription without its topics and regex.

    For each protocol, the result has only the name and the version of the blob. So a blob with other content but the
    same version is no change.
    """
    versions = [(protocol.name, (protocol.fields or {}).get("version")) for protocol in subscription.protocols]
    return subscription._replace(topics=None, regex=None, protocols=()), versions


def note_step(change: MemberChange, state: Reconciliation, notes: list[Note]) -> None:
    """Add a note (the draft of an event) if a member's current assignment changed.

    The kind of the note tells whether the member went away, came back, is at its target, or is not there yet.
    """
    before, after = change.before, change.after
    if after is None or after.current is None or change.current_at is None:
        return
    old = before.current if before is not None else None
    if after.current.is_same_as(old):
        return
    if after.current.epoch == AWAY_EPOCH:
        kind = EventKind.MEMBER_AWAY
    elif old is not None and old.epoch < 0 and before is not None and before.member_id == after.member_id:
        kind = EventKind.MEMBER_REJOINED
    elif after.member_id in state.unreconciled:
        kind = EventKind.MEMBER_RECONCILING
    else:
        kind = EventKind.MEMBER_RECONCILED
    notes.append(Note(kind, change.current_at, after, before))
