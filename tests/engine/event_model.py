"""A group as somebody knows it who has read the events and nothing else."""

from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import Current, GroupState, GroupType, Member, Subscription, Target
from coordinator_replay.engine.replay import StateReplay


class EventModel:
    """Applies events to an empty group."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.group_type: GroupType | None = None
        self.state: GroupState | None = None
        self.epoch = 0
        self.assignment_epoch: int | None = None

    def apply(self, event: Event) -> None:
        assert event.from_state == self.state or event.kind in (EventKind.GROUP_CREATED, EventKind.GROUP_DISCOVERED)
        self.state = event.to_state
        self.group_type, self.epoch, self.assignment_epoch = event.group_type, event.epoch, event.assignment_epoch
        self._forget(event)
        if event.kind in (EventKind.MEMBER_LEFT, EventKind.INVARIANT_BROKEN):
            return
        for member in (event.member, *event.members):
            if member is not None:
                self.members[member.member_id] = member

    def _forget(self, event: Event) -> None:
        match event.kind:
            case EventKind.GROUP_DELETED:
                assert not self.members, "members leave before their group is deleted"
            case EventKind.MEMBER_LEFT:
                del self.members[event.member_id or ""]
            case EventKind.MEMBER_REPLACED:
                assert event.before is not None
                del self.members[event.before.member_id]

    def told(self) -> tuple[object, ...]:
        members = {member_id: _told(member) for member_id, member in self.members.items()}
        return self.group_type, self.state, self.epoch, self.assignment_epoch, members


def told_by(replay: StateReplay) -> tuple[object, ...]:
    """The same of the engine's group."""
    group = replay.group
    assert group is not None
    members = {member_id: _told(member) for member_id, member in group.members.items()}
    return group.group_type, group.state, group.epoch, group.assignment_epoch, members


def _told(member: Member) -> tuple[object, ...]:
    asked, has = member.subscription or Subscription(), member.current or Current()
    target = member.target or Target({})
    return (
        asked._replace(protocols=()),
        has.epoch,
        has.state,
        has.assigned,
        has.pending,
        has.standby,
        has.warmup,
        target.assigned,
        target.standby,
        target.warmup,
    )
