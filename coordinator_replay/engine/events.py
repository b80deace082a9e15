"""Events of a group, as plain data.

The events of one operation of the coordinator are made together, after its last record. They have the order of the
operation's records. Each event has the group's state before and after the event. If an operation changes a group's
state, exactly one of its events shows the change, unless the operation creates or removes the group.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from coordinator_replay.engine.model import NOTHING, Assignment, GroupState, GroupType, Member, Subscription


class EventKind(StrEnum):
    """Everything that can happen to a group.

    Attributes:
        GROUP_CREATED: the group's first record; no record is missing before it.
        GROUP_DISCOVERED: the first record seen of a group whose beginning is not in the log.
        GROUP_REBORN: the epoch fell, and records are missing in between, so the group was deleted and created again.
        GROUP_CONVERTED: the group and its members changed their type.
        GROUP_EMPTIED: the last member was removed.
        GROUP_DELETED: the group's tombstone.
        MEMBER_JOINED: a member joined under a new member id.
        MEMBER_LEFT: a member was removed; LeaveGroup, fencing and a timeout look the same.
        MEMBER_REPLACED: a static member joined under a new member id.
        MEMBER_AWAY: a static member left temporarily (member epoch -2).
        MEMBER_REJOINED: a member that was away or removed joined again under its old member id.
        SUBSCRIPTION_CHANGED: a member subscribed to other topics.
        METADATA_CHANGED: a member changed something else: host, rack, timeouts, assignor, protocols.
        LEADER_CHANGED: another member leads the classic group.
        PROTOCOL_CHANGED: another protocol was chosen, or another assignor is preferred by most members.
        REGEX_RESOLVED: a subscribed regex was resolved to topics.
        REGEX_REMOVED: no member subscribes to a regex any more.
        TOPOLOGY_CHANGED: the topology of a streams group was written or removed.
        TOPIC_METADATA_CHANGED: a record shows that the topics which the group reads have changed.
        SHARE_STATE_CHANGED: partitions of a share group began or ended their initialisation, or were deleted.
        EPOCH_CHANGED: the group epoch changed in a group without members.
        REBALANCE_STARTED: the group got a new group epoch, so members must get a new target.
        TARGET_ASSIGNED: new targets were computed.
        MEMBER_RECONCILING: a member's assignment changed, but the member is not yet at its target.
        MEMBER_RECONCILED: a member reached its target.
        REBALANCE_COMPLETED: every member reached its target; in a classic group, the generation was written after
            SyncGroup.
        STATE_CHANGED: the state of the group changed, and the operation has no other event.
        RECORDS_MISSING: records of the group may be missing from here on; the state follows from the remaining records.
        RECORDS_COMPLETE: from here on no record of the group is missing, so the state is proven again.
        GROUP_MOVED: from here on, the group's records in another log partition count instead.
        INVARIANT_BROKEN: a rule that every log keeps is broken, and no gap explains it.
    """

    GROUP_CREATED = "GROUP_CREATED"
    GROUP_DISCOVERED = "GROUP_DISCOVERED"
    GROUP_REBORN = "GROUP_REBORN"
    GROUP_CONVERTED = "GROUP_CONVERTED"
    GROUP_EMPTIED = "GROUP_EMPTIED"
    GROUP_DELETED = "GROUP_DELETED"
    MEMBER_JOINED = "MEMBER_JOINED"
    MEMBER_LEFT = "MEMBER_LEFT"
    MEMBER_REPLACED = "MEMBER_REPLACED"
    MEMBER_AWAY = "MEMBER_AWAY"
    MEMBER_REJOINED = "MEMBER_REJOINED"
    SUBSCRIPTION_CHANGED = "SUBSCRIPTION_CHANGED"
    METADATA_CHANGED = "METADATA_CHANGED"
    LEADER_CHANGED = "LEADER_CHANGED"
    PROTOCOL_CHANGED = "PROTOCOL_CHANGED"
    REGEX_RESOLVED = "REGEX_RESOLVED"
    REGEX_REMOVED = "REGEX_REMOVED"
    TOPOLOGY_CHANGED = "TOPOLOGY_CHANGED"
    TOPIC_METADATA_CHANGED = "TOPIC_METADATA_CHANGED"
    SHARE_STATE_CHANGED = "SHARE_STATE_CHANGED"
    EPOCH_CHANGED = "EPOCH_CHANGED"
    REBALANCE_STARTED = "REBALANCE_STARTED"
    TARGET_ASSIGNED = "TARGET_ASSIGNED"
    MEMBER_RECONCILING = "MEMBER_RECONCILING"
    MEMBER_RECONCILED = "MEMBER_RECONCILED"
    REBALANCE_COMPLETED = "REBALANCE_COMPLETED"
    STATE_CHANGED = "STATE_CHANGED"
    RECORDS_MISSING = "RECORDS_MISSING"
    RECORDS_COMPLETE = "RECORDS_COMPLETE"
    GROUP_MOVED = "GROUP_MOVED"
    INVARIANT_BROKEN = "INVARIANT_BROKEN"


NO_CHANGES: Mapping[str, Any] = {}


class Event(NamedTuple):
    """One thing that happened to a group.

    Attributes:
        kind: kind of event.
        group_type: the group's type after the event, or before the event if the group was removed.
        from_state: state of the group before the event; None if the group did not exist.
        to_state: state of the group after the event; ``Dead`` if the group was removed.
        epoch: generation or group epoch after the operation.
        assignment_epoch: epoch of the target assignment; None in a classic group.
        member_count: number of members after the operation.
        is_exact: whether the event is proven; False if the group before the event is not proven, or if records of the
            operation may be missing.
        partition: log partition of the record that shows the event.
        offset: log offset of this record.
        timestamp_ms: timestamp of this record; None if the record has none.
        member: the member concerned, after the operation; a removed member as it was before the operation.
        before: the same member before the operation; None if the member did not exist.
        members: all members concerned, if the event is about several.
        changes: changed fields of the group, each as ``[old, new]``.
        is_state_exact: whether the group is proven after the operation: no missing record can change its state.
    """

    kind: EventKind
    group_type: GroupType
    from_state: GroupState | None
    to_state: GroupState
    epoch: int
    assignment_epoch: int | None
    member_count: int
    is_exact: bool
    partition: int
    offset: int
    timestamp_ms: int | None
    member: Member | None = None
    before: Member | None = None
    members: tuple[Member, ...] = ()
    changes: Mapping[str, Any] = NO_CHANGES
    is_state_exact: bool = True

    @property
    def member_id(self) -> str | None:
        """Return the id of the member concerned; None if the event concerns no single member."""
        return self.member.member_id if self.member is not None else None

    @property
    def instance_id(self) -> str | None:
        """Return the instance id of the member concerned; None if the member is not static."""
        return self.member.instance_id if self.member is not None else None

    def detail(self, show: "Show | None" = None) -> dict[str, Any]:
        """Return the value of the column ``group_timeline.detail``: old and new values, in a form for JSON.

        Args:
            show: function that formats an assignment; ``listed`` by default.
        """
        describe = _DETAIL.get(self.kind)
        if describe is None:
            return dict(self.changes)
        differences = describe(self, show or listed)
        return {**self.changes, **differences} if self.changes else differences


Show = Callable[[Assignment], list[dict[str, Any]]]


def listed(assignment: Assignment) -> list[dict[str, Any]]:
    """Return an assignment as a list of dicts, whose ``topic`` is a topic id, a topic name or a subtopology."""
    return [{"topic": topic, "partitions": list(partitions)} for topic, partitions in sorted(assignment.items())]


def _shown(show: Show, assignment: Assignment | None) -> list[dict[str, Any]] | None:
    return show(assignment) if assignment is not None else None


def _differences(old: Subscription | None, new: Subscription | None) -> dict[str, Any]:
    old, new = old or Subscription(), new or Subscription()
    return {
        name: [getattr(old, name), getattr(new, name)]
        for name in SUBSCRIPTION_FIELDS
        if getattr(old, name) != getattr(new, name)
    }


SUBSCRIPTION_FIELDS = tuple(name for name in Subscription._fields if name != "protocols")


def _joined(event: Event, show: Show) -> dict[str, Any]:
    member = event.member
    if member is None or member.subscription is None:
        return {}
    differences = _differences(None, member.subscription)
    return {name: new for name, (_, new) in differences.items()}


def _left(event: Event, show: Show) -> dict[str, Any]:
    before = event.before
    if before is None or before.current is None:
        return {}
    return {"member_epoch": before.current.epoch, "assigned": show(before.current.owned())}


def _replaced(event: Event, show: Show) -> dict[str, Any]:
    if event.member is None or event.before is None:
        return {}
    return {
        "member_ids": [event.before.member_id, event.member.member_id],
        **_differences(event.before.subscription, event.member.subscription),
    }


def _changed(event: Event, show: Show) -> dict[str, Any]:
    if event.member is None or event.before is None:
        return {}
    differences = _differences(event.before.subscription, event.member.subscription)
    old, new = _protocols(event.before.subscription), _protocols(event.member.subscription)
    if old != new:
        differences["protocols"] = [old, new]
    return differences


def _protocols(subscription: Subscription | None) -> list[dict[str, Any]]:
    """Return the name of each supported protocol and the version of its blob."""
    return [
        {"name": protocol.name, "version": (protocol.fields or {}).get("version")}
        for protocol in (subscription.protocols if subscription is not None else ())
    ]


def _stepped(event: Event, show: Show) -> dict[str, Any]:
    if event.member is None or event.member.current is None:
        return {}
    new = event.member.current
    old = event.before.current if event.before is not None else None
    return {
        "member_epoch": [old.epoch if old else None, new.epoch],
        "member_state": [old.state if old else None, new.state],
        "assigned": [_shown(show, old.assigned if old else NOTHING), _shown(show, new.assigned)],
        "pending_revocation": [show(old.pending if old else NOTHING), show(new.pending)],
    }


def _targets(event: Event, show: Show) -> dict[str, Any]:
    return {
        "targets": {
            member.member_id: show(member.target.assigned) if member.target is not None else None
            for member in event.members
        }
    }


def _assignments(event: Event, show: Show) -> dict[str, Any]:
    if not event.members:
        return {}
    return {
        "assigned": {
            member.member_id: _shown(show, member.current.assigned) if member.current is not None else None
            for member in event.members
        }
    }


_DETAIL: Mapping[EventKind, Callable[[Event, Show], dict[str, Any]]] = {
    EventKind.MEMBER_JOINED: _joined,
    EventKind.MEMBER_LEFT: _left,
    EventKind.MEMBER_REPLACED: _replaced,
    EventKind.MEMBER_AWAY: _stepped,
    EventKind.MEMBER_REJOINED: _stepped,
    EventKind.MEMBER_RECONCILING: _stepped,
    EventKind.MEMBER_RECONCILED: _stepped,
    EventKind.SUBSCRIPTION_CHANGED: _changed,
    EventKind.METADATA_CHANGED: _changed,
    EventKind.TARGET_ASSIGNED: _targets,
    EventKind.REBALANCE_COMPLETED: _assignments,
    EventKind.GROUP_CONVERTED: _assignments,
}
