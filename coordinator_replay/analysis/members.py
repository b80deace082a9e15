"""Members of the group over time: rows of ``member_timeline``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from coordinator_replay.analysis.rows import RecordTopics, Row
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import JOINING, GroupType, Member
from coordinator_replay.engine.plain import Fields

TABLE = "member_timeline"

# Looked up once, because every event needs them.
BROKEN, LEFT, REPLACED = EventKind.INVARIANT_BROKEN, EventKind.MEMBER_LEFT, EventKind.MEMBER_REPLACED


class OpenMemberInterval(NamedTuple):
    """An interval that is not over: a member's present state, with the time and the record since which it has lasted.

    Attributes:
        is_client_inherited: whether client id and host on record may be those of an earlier process of this static
            member.
        is_exact: whether the group has been proven since the interval began.
        is_begin_open: whether the member may have been in this state earlier, because records are missing.
    """

    member: Member
    group_type: GroupType
    from_ms: int | None
    from_offset: int
    partition: int
    is_client_inherited: bool = False
    is_exact: bool = True
    is_begin_open: bool = False


Changed = Mapping[str, tuple[Member | None, int]]
"""The members that an operation changed, by member id.

Each value has the member after the operation, None if the member was removed, and the log offset of the first record
that shows this member.
"""


def members_after(events: Sequence[Event]) -> Changed:
    """Return the members that an operation's events changed."""
    changed: dict[str, tuple[Member | None, int]] = {}
    for event in events:
        kind, subject = event.kind, event.member
        if kind is BROKEN:
            continue
        if kind is LEFT:
            changed[event.member_id or ""] = None, event.offset
            continue
        if kind is REPLACED and event.before is not None:
            changed[event.before.member_id] = None, event.offset
        for member in event.members if subject is None else (subject,):
            earlier = changed.get(member.member_id)
            if earlier is None or earlier[0] is not member:
                changed[member.member_id] = member, event.offset
    return changed


@dataclass(slots=True)
class MemberReplay:
    """The fold over members.

    Attributes:
        topics: names of the topics in the group's records.
        stays: open intervals by member id.
        lost: ids of members with a record that is unreadable or may be missing, until the group is proven again.
    """

    topics: RecordTopics
    stays: dict[str, OpenMemberInterval] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    def fold(self, events: Sequence[Event], changed: Changed, at_ms: int | None) -> Iterator[Row]:
        """Apply the coordinator's operation to the intervals of members.

        Yield the closed intervals.

        Args:
            events: the events of one operation.
            changed: the members that the operation changed.
            at_ms: time of the operation.
        """
        group_type, partition = events[-1].group_type, events[-1].partition
        is_classic = group_type is GroupType.CLASSIC
        replaced = {event.member_id for event in events if event.kind is REPLACED} if is_classic else ()
        last = events[-1]
        is_unseen = is_classic and not last.is_exact
        for member_id, (member, offset) in changed.items():
            stay = self.stays.get(member_id)
            if stay is not None:
                if member is not None and stay.group_type is group_type and _looks_alike(stay.member, member):
                    self.stays[member_id] = stay._replace(member=member)
                    continue
                yield self._row(stay, at_ms, offset)
                del self.stays[member_id]
            if member is not None:
                inherited = stay is not None and stay.is_client_inherited and _client(stay.member) == _client(member)
                inherited = inherited or member_id in replaced
                if is_unseen and stay is None:
                    inherited = member.subscription is not None and member.subscription.instance_id is not None
                is_unknown = stay is None or _is_incomplete(stay.member) or member_id in self.lost
                is_begin_open = not last.is_exact and is_unknown
                self.stays[member_id] = OpenMemberInterval(
                    member, group_type, at_ms, offset, partition, inherited, last.is_state_exact, is_begin_open
                )
        self.lost = set() if last.is_state_exact else self.lost & self.stays.keys()

    def open_rows(self) -> Iterator[Row]:
        """Yield the rows of intervals that are not over."""
        for stay in self.stays.values():
            yield self._row(stay, None, None)

    def interrupt(self, confirmed: "MemberReplay", at_ms: int | None, offset: int) -> Iterator[Row]:
        """End and yield all membership intervals at the first missing record.

        Then begin a new interval for each member in ``confirmed``.

        Args:
            confirmed: a replay of the group's records that a newer dump still has.
            at_ms: the time from which records are missing.
            offset: the first missing log offset.
        """
        for stay in self.stays.values():
            yield self._row(stay, at_ms, offset)
        self.stays = {
            member_id: stay._replace(from_ms=at_ms, from_offset=offset, is_exact=False, is_begin_open=True)
            for member_id, stay in confirmed.stays.items()
        }
        self.lost = set(confirmed.lost)

    def lose(self, members: Iterable[Member]) -> None:
        """Note that records about these members are missing or can't be read."""
        self.lost |= {member.member_id for member in members}

    def _row(self, stay: OpenMemberInterval, to_ms: int | None, to_offset: int | None) -> Row:
        member, group_type = stay.member, stay.group_type
        subscription = member.subscription_or_empty
        current = member.current or JOINING
        structs = self.topics.structs
        is_untimed = group_type is GroupType.SHARE or member.subscription is None
        # A member that joins has no assignment record yet. If records are missing, its assignment may be among them.
        is_unassigned = member.current is None and not stay.is_exact
        return TABLE, {
            "group_type": str(group_type),
            "member_id": member.member_id,
            "instance_id": subscription.instance_id,
            "client_id": subscription.client_id,
            "client_host": subscription.client_host,
            "is_client_inherited": stay.is_client_inherited,
            "rack_id": subscription.rack_id,
            "subscribed_topics": list(subscription.topics) if subscription.topics is not None else None,
            "subscribed_topic_regex": subscription.regex,
            "assignor": _assignor(stay),
            "session_timeout_ms": subscription.session_timeout_ms,
            "rebalance_timeout_ms": None if is_untimed else subscription.rebalance_timeout_ms,
            "member_state": str(current.state) if current.state is not None else None,
            "member_epoch": current.epoch,
            "assigned": None if is_unassigned else structs(group_type, current.assigned),
            "target": structs(group_type, member.target.assigned if member.target is not None else None),
            "pending_revocation": (
                None if is_unassigned or group_type is GroupType.CLASSIC else structs(group_type, current.pending)
            ),
            "valid_from": stay.from_ms,
            "valid_to": to_ms,
            "from_offset": stay.from_offset,
            "to_offset": to_offset,
            "is_current": to_offset is None,
            "log_partition": stay.partition,
            "is_exact": stay.is_exact,
            "is_begin_open": stay.is_begin_open,
        }


FIELDS = Fields(MemberReplay, "stays", "lost")
"""The fields in a snapshot."""


def _assignor(stay: OpenMemberInterval) -> str | None:
    """Return the assignor that a member asks for.

    For a member of a classic group, return the chosen protocol.
    """
    subscription = stay.member.subscription_or_empty
    if stay.group_type is GroupType.CLASSIC and len(subscription.protocols) == 1:
        return subscription.protocols[0].name
    return subscription.assignor


def _is_incomplete(member: Member) -> bool:
    """Return whether the member's subscription, target assignment or current assignment is not on record yet."""
    return member.subscription is None or member.current is None or member.target is None


def _client(member: Member) -> tuple[str | None, str | None]:
    subscription = member.subscription_or_empty
    return subscription.client_id, subscription.client_host


_SHOWN_OF_SUBSCRIPTION = attrgetter(
    *("instance_id", "client_id", "client_host", "rack_id", "topics", "regex", "assignor"),
    *("session_timeout_ms", "rebalance_timeout_ms"),
)
_SHOWN_OF_CURRENT = attrgetter("state", "epoch", "assigned", "pending")


def _looks_alike(newer: Member, other: Member) -> bool:
    """Return whether two states of a member have the same values in ``member_timeline``."""
    if _SHOWN_OF_CURRENT(newer.current or JOINING) != _SHOWN_OF_CURRENT(other.current or JOINING):
        return False
    targets = [member.target.assigned if member.target is not None else None for member in (newer, other)]
    described = [_SHOWN_OF_SUBSCRIPTION(member.subscription_or_empty) for member in (newer, other)]
    return targets[0] == targets[1] and described[0] == described[1]
