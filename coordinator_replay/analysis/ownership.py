"""Owners of partitions over time, and times without an owner: rows of ``partition_ownership``.

A member owns its assigned partitions, and partitions that it still has to give up. In consumer groups, each assignment
and each revocation is recorded. A classic group records only the outcome of a rebalance. A partition that changes its
owner in a rebalance was revoked by the end of the join phase at the latest (``currentStateTimestamp``). So the log does
not show how long the partition had no owner. The exception is a generation that assigns the partition to nobody: after
the first step of a cooperative rebalance, or in an Empty group. Members of streams groups own tasks, shown as
partitions of the source topics. Members of a share group own partitions together.

A partition is *without an owner* while nobody owns it and the group has members that subscribe to its topic. If no
member subscribes to the topic, the group does not miss the partition. This is the only definition. The columns
``unowned`` and ``unowned_ms`` have these times, and all other code reads these columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from coordinator_replay.analysis.members import Changed
from coordinator_replay.analysis.rows import RecordTopics, Row
from coordinator_replay.analysis.subscriptions import Subscriptions
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import NOTHING, Assignment, Current, GroupType, Member, MemberState, without
from coordinator_replay.engine.plain import Fields, form
from coordinator_replay.times import elapsed_ms, latest_ms

TABLE = "partition_ownership"

# Looked up once, because every event needs them.
CONVERTED, DELETED, EMPTIED = EventKind.GROUP_CONVERTED, EventKind.GROUP_DELETED, EventKind.GROUP_EMPTIED

ENDS = frozenset({EventKind.REBALANCE_COMPLETED, EMPTIED, DELETED})
"""Events after which every member of a share group has its target."""

Key = tuple[str, int]
"""The name or id of a topic in the records, and a partition number."""

Interval = tuple[int, int]
"""Begin, and end (not included), in milliseconds since 1970."""

REVOKED = "REVOKED"
MEMBER_LEFT = "MEMBER_LEFT"
MEMBER_FENCED = "MEMBER_FENCED"
MEMBER_REPLACED = "MEMBER_REPLACED"
GROUP_EMPTIED = "GROUP_EMPTIED"
GROUP_DELETED = "GROUP_DELETED"
GROUP_CONVERTED = "GROUP_CONVERTED"
RECORDS_MISSING = "RECORDS_MISSING"

UNREVOKED = frozenset({MemberState.UNREVOKED_PARTITIONS, MemberState.UNREVOKED_TASKS})


class OpenOwnership(NamedTuple):
    """A partition that a member owns, with the time and the record since which the member owns it.

    Attributes:
        is_exact: whether the group has been proven since the ownership began.
        is_begin_open: whether the member may have owned the partition earlier, because records are missing.
    """

    member_id: str
    instance_id: str | None
    group_type: GroupType
    from_ms: int | None
    from_offset: int
    is_exact: bool = True
    is_begin_open: bool = False


class Unowned(NamedTuple):
    """A partition without an owner, with the ownership that ended, and the rebalance in which the ownership ended.

    Attributes:
        holding: the ownership that ended; ``to_ms`` and ``to_offset`` are its end, ``released_by`` is the reason.
        topic: the topic as the records of the ended ownership name it.
        awaited_ms: time at which the target assignment took the partition from its last owner; None if it never did.
        is_exact: whether the group is proven at the end of the ownership.
        since_ms: the time since which members miss the partition; None while no member subscribes to its topic.
        over: earlier times in which members missed the partition.
    """

    topic: str
    holding: OpenOwnership
    to_ms: int | None
    to_offset: int
    released_by: str
    rebalance_id: str | None
    awaited_ms: int | None
    is_exact: bool
    since_ms: int | None = None
    over: tuple[Interval, ...] = ()

    def missed_until(self, at_ms: int | None) -> "Unowned":
        """Return a copy of this object, changed so that members have not missed the partition since ``at_ms``."""
        if self.since_ms is None:
            return self
        if at_ms is None or at_ms <= self.since_ms:
            return self._replace(since_ms=None)
        return self._replace(since_ms=None, over=(*self.over, (self.since_ms, at_ms)))

    def missed_ms(self) -> int:
        """Return for how many milliseconds members missed the partition.

        If members still miss the partition, the time since they last began to miss it does not count.
        """
        return sum(until - since for since, until in self.over)


class Handover(NamedTuple):
    """A handover, in which a member took a partition that nobody owned for a while.

    Attributes:
        rebalance_id: the rebalance in which the partition was revoked.
        unowned_ms: how long nobody owned the partition; None if the log has only a lower bound.
        is_moved: whether the partition went to another member. False if it went to the same static member under a new
            member id.
        member_id: the member that owned the partition before.
        released_ms: time at which that member gave the partition up.
        awaited_ms: time at which the target assignment took the partition from that member; None if it never did.
    """

    rebalance_id: str | None
    unowned_ms: int | None
    is_moved: bool
    member_id: str
    released_ms: int | None
    awaited_ms: int | None


class SharedChange(NamedTuple):
    """A change in a rebalance of a share group.

    A member took (``is_taken``) or gave up a partition that other members own as well.
    """

    member_id: str
    is_taken: bool
    rebalance_id: str | None


class Release(NamedTuple):
    """A release of partitions in one operation.

    Attributes:
        at_ms: time of the operation.
        rebalance_id: the rebalance to which the release belongs.
        retaken: partitions that a classic rebalance gives to another member in the same operation.
        retaken_ms: the latest time at which the retaken partitions were revoked: the end of the join phase.
    """

    at_ms: int | None
    rebalance_id: str | None
    retaken: frozenset[Key] = frozenset()
    retaken_ms: int | None = None


class Circumstances(NamedTuple):
    """Facts of an operation that tell why removed members lost their partitions.

    Attributes:
        is_deleted: whether the operation deleted the group.
        is_emptied: whether the operation left the group Empty.
        replaced: ids of members that another member replaced.
        rebalance_timeouts: the lowest rebalance timeout that the coordinator may have used, by member id.
    """

    is_deleted: bool
    is_emptied: bool
    replaced: set[str]
    rebalance_timeouts: dict[str, int]


@dataclass(slots=True)
class OwnershipReplay:
    """The fold over ownership.

    Attributes:
        topics: names of the topics in the group's records.
        holders: open ownerships. The key is the topic as in the group's records, and the partition.
        shared: changes of a share group's partitions that several members own. They are kept until the rebalance is
            over. If one member gave a partition up and another member took it, the partition has moved.
        gaps: partitions that had an owner and have none now. Their rows are written when the next owner is known.
        owned: the partitions that each member owns.
        handovers: handovers of the last operation.
        added: number of partitions that the last operation assigned and that nobody had owned before.
        at_offset: log offset of the group's last record.
        log_partition: the log partition of the group's records.
        seen: members whose ownership is on record.
        lost: members whose later records can't be read or may be missing, each with the last ownership on record.
        is_step_exact: whether the group is proven before the present operation.
        is_exact: whether the group is proven after the present operation.
        unrevoked_since: members in the state UNREVOKED_PARTITIONS or UNREVOKED_TASKS, each with the time of its last
            record of this state.
        subscriptions: the topics that members subscribe to.
        has_new_gaps: whether the present operation left partitions without an owner.
        awaited_since: for each member, the owned partitions that are not in its target assignment. Each partition has
            the time at which it left the target assignment.
    """

    topics: RecordTopics
    holders: dict[Key, dict[str, OpenOwnership]] = field(default_factory=dict)
    gaps: dict[Key, Unowned] = field(default_factory=dict)
    shared: dict[Key, list[SharedChange]] = field(default_factory=dict)
    owned: dict[str, Assignment] = field(default_factory=dict)
    unrevoked_since: dict[str, int | None] = field(default_factory=dict)
    awaited_since: dict[str, dict[Key, int | None]] = field(default_factory=dict)
    handovers: list[Handover] = field(default_factory=list)
    added: int = 0
    at_offset: int = -1
    log_partition: int | None = None
    seen: set[str] = field(default_factory=set)
    lost: dict[str, Current] = field(default_factory=dict)
    is_exact: bool = True
    is_step_exact: bool = True
    has_new_gaps: bool = False
    subscriptions: Subscriptions = field(init=False)

    def __post_init__(self) -> None:
        """Create the subscriptions, which have no members yet."""
        self.subscriptions = Subscriptions(self.topics)

    @property
    def partition_count(self) -> int:
        """Return the number of owned partitions (in a streams group: tasks)."""
        return len(self.holders)

    def fold(
        self,
        events: Sequence[Event],
        changed: Changed,
        at_ms: int | None,
        last_ms: int | None,
        rebalance_id: str | None,
    ) -> Iterator[Row]:
        """Apply the coordinator's operation to the owners of partitions.

        Yield the rows of ownerships that ended.

        Args:
            events: the events of one operation.
            changed: the members that the operation changed.
            at_ms: time of the operation.
            last_ms: the latest time of the group's earlier operations; None if no earlier operation has a time.
            rebalance_id: the rebalance to which the operation belongs.
        """
        self.handovers = []
        self.added = 0
        self.has_new_gaps = False
        self.subscriptions.fold(events, changed)
        last = events[-1]
        self.at_offset, self.log_partition, self.is_exact = last.offset, last.partition, last.is_state_exact
        self.is_step_exact = last.is_exact
        group_type = events[-1].group_type
        kinds = [event.kind for event in events]
        if CONVERTED in kinds:
            yield from self._convert(changed, group_type, at_ms)
            self._see_gaps(group_type, at_ms)
            return
        release = Release(at_ms, rebalance_id)
        if group_type is GroupType.CLASSIC:
            release = Release(at_ms, rebalance_id, *self._retaken(events, changed, at_ms, last_ms))
        owned = {member_id: _owned(member) for member_id, (member, _) in changed.items()}
        left = {
            member_id: lost
            for member_id in changed
            if (lost := without(self.owned.get(member_id, NOTHING), owned[member_id]))
        }
        if left:
            circumstances = _circumstances(events, kinds)
            for member_id, partitions in left.items():
                why = self._why(circumstances, member_id, changed[member_id][0], at_ms)
                yield from self._release(member_id, partitions, why, release)
        if self.unrevoked_since:
            self._restart_timers(events)
        for member_id, (member, _) in changed.items():
            taken = without(owned[member_id], self.owned.get(member_id, NOTHING))
            if member is not None and taken:
                yield from self._take(member, group_type, taken, release)
            self._remember(member_id, member, owned[member_id], at_ms)
        if self.gaps and (self.has_new_gaps or self.subscriptions.has_changed):
            self._see_gaps(group_type, at_ms)
        if self.shared and not ENDS.isdisjoint(kinds):
            self.shared = {}

    def _see_gaps(self, group_type: GroupType, at_ms: int | None) -> None:
        """For each partition without an owner, begin or end the time in which a member subscribes to its topic."""
        wanted: dict[str, bool] = {}
        for key, gap in self.gaps.items():
            topic = key[0]
            if topic not in wanted:
                wanted[topic] = self.subscriptions.is_wanted(group_type, topic)
            if not wanted[topic]:
                self.gaps[key] = gap.missed_until(at_ms)
            elif gap.since_ms is None:
                self.gaps[key] = gap._replace(since_ms=at_ms)

    def open_rows(self) -> Iterator[Row]:
        """Yield the rows of ownerships that last, and of partitions that nobody owns since their owner lost them."""
        for key, gap in self.gaps.items():
            yield from self._rows((gap.topic, key[1]), gap.holding, gap, None)
        for key, holders in self.holders.items():
            for holding in holders.values():
                yield from self._rows(key, holding, None, None)

    def interrupt(
        self, confirmed: "OwnershipReplay", at_ms: int | None, offset: int, released_by: str = RECORDS_MISSING
    ) -> Iterator[Row]:
        """End and yield all ownership intervals at the first missing record.

        Then begin a new interval for each owner in ``confirmed``.

        Args:
            confirmed: a replay of the group's records that a newer dump still has.
            at_ms: the time from which records are missing.
            offset: the first missing log offset.
            released_by: why the intervals end.
        """
        for key, gap in self.gaps.items():
            yield from self._rows((gap.topic, key[1]), gap.holding, gap.missed_until(at_ms), None)
        for key, holders in self.holders.items():
            for holding in holders.values():
                until_ms = latest_ms(at_ms, holding.from_ms)
                gap = Unowned(key[0], holding, until_ms, offset, released_by, None, None, False)
                yield from self._rows(key, holding, gap, None)
        self.gaps, self.owned, self.seen = {}, dict(confirmed.owned), set(confirmed.seen)
        self.subscriptions = confirmed.subscriptions
        self.lost = dict(confirmed.lost)
        self.holders = {
            key: {
                member_id: holding._replace(from_ms=at_ms, from_offset=offset, is_exact=False, is_begin_open=True)
                for member_id, holding in holders.items()
            }
            for key, holders in confirmed.holders.items()
        }
        self.unrevoked_since, self.awaited_since = dict(confirmed.unrevoked_since), dict(confirmed.awaited_since)

    def lose(self, members: Iterable[Member]) -> None:
        """Note that records about what these members own are missing or can't be read."""
        self.lost |= {member.member_id: member.current for member in members if member.current is not None}

    def _retaken(
        self, events: Sequence[Event], changed: Changed, at_ms: int | None, last_ms: int | None
    ) -> tuple[frozenset[Key], int | None]:
        """Return the partitions that a classic generation moves between members.

        Args:
            events: the events of the operation.
            changed: the members that the operation changed.
            at_ms: time of the operation.
            last_ms: the latest time of the group's earlier operations; None if no earlier operation has a time.

        Returns:
            The partitions, and the latest time at which they were revoked.
        """
        for event in events:
            if "join_done_ms" in event.changes:
                joined_ms = event.changes["join_done_ms"]
                retaken = [
                    (topic, partition)
                    for member_id, (member, _) in changed.items()
                    for topic, partitions in without(_owned(member), self.owned.get(member_id, NOTHING)).items()
                    for partition in partitions
                    if (topic, partition) in self.holders
                ]
                return frozenset(retaken), join_done(joined_ms, at_ms, last_ms)
        return frozenset(), at_ms

    def _convert(self, changed: Changed, group_type: GroupType, at_ms: int | None) -> Iterator[Row]:
        """End every ownership at a conversion of the group, and begin ownerships of the group's new type.

        Yield the rows of ended ownerships. The row of a partition without an owner after the conversion comes later,
        with its next owner.

        Args:
            changed: the members that the operation changed.
            group_type: the group's type after the conversion.
            at_ms: time of the conversion.
        """
        for member_id, assignment in list(self.owned.items()):
            is_removed = member_id not in changed or changed[member_id][0] is None
            why = MEMBER_LEFT if is_removed else GROUP_CONVERTED
            yield from self._release(member_id, assignment, why, Release(at_ms, None))
        self.owned = {}
        topics_owned = {topic for member, _ in changed.values() for topic in _owned(member)}
        yield from self._rename_gaps(group_type, topics_owned)
        for member_id, (member, _) in changed.items():
            owned = _owned(member)
            if member is not None and owned:
                yield from self._take(member, group_type, owned, Release(at_ms, None))
            self._remember(member_id, member, owned, at_ms)
        self.added = 0

    def _rename_gaps(self, group_type: GroupType, owned: set[str]) -> Iterator[Row]:
        """Replace the topic keys of partitions without an owner by the keys that the new group type uses.

        Yield the rows of partitions whose topic has no known name, and forget these partitions.

        Args:
            group_type: the new type.
            owned: keys of the topics that members own under the new type. If a topic name has several ids, prefer an id
                in ``owned``.
        """
        gaps, self.gaps = self.gaps, {}
        for (topic, partition), gap in gaps.items():
            renamed = self.topics.keys(gap.holding.group_type, topic, group_type)
            if renamed:
                likely = next((key for key in renamed if key in owned), renamed[0])
                self.gaps[likely, partition] = gap
            else:
                yield from self._rows((gap.topic, partition), gap.holding, gap._replace(is_exact=False), None)

    def _why(self, circumstances: Circumstances, member_id: str, member: Member | None, at_ms: int | None) -> str:
        if member is not None:
            return REVOKED
        if circumstances.is_deleted:
            # If records of the operation are missing, its tombstone may be part of a conversion.
            return GROUP_DELETED if self.is_step_exact else RECORDS_MISSING
        if member_id in circumstances.replaced:
            return MEMBER_REPLACED
        kept_ms = elapsed_ms(self.unrevoked_since.get(member_id), at_ms)
        if kept_ms is not None and 0 < circumstances.rebalance_timeouts.get(member_id, 0) <= kept_ms:
            return MEMBER_FENCED
        return GROUP_EMPTIED if circumstances.is_emptied else MEMBER_LEFT

    def _restart_timers(self, events: Sequence[Event]) -> None:
        """Restart the rebalance timeouts of members whose current assignment has changed."""
        for event in events:
            before, member = event.before, event.member
            if before is None or member is None or before.current is None:
                continue
            if not before.current.is_same_as(member.current):
                self.unrevoked_since.pop(member.member_id, None)

    def _release(self, member_id: str, left: Assignment, why: str, release: Release) -> Iterator[Row]:
        awaited = self.awaited_since.get(member_id, {})
        is_exact = self.is_step_exact and self.is_exact
        for topic, partitions in left.items():
            for partition in partitions:
                key = (topic, partition)
                holders = self.holders.get(key)
                holding = holders.pop(member_id, None) if holders is not None else None
                if holders is None or holding is None:
                    continue
                until_ms = latest_ms(release.retaken_ms if key in release.retaken else release.at_ms, holding.from_ms)
                since = awaited.get(key)
                gap = Unowned(
                    topic, holding, until_ms, self.at_offset, why, release.rebalance_id, since, is_exact, until_ms
                )
                if holders:
                    # Other members own the partition as well, so there is no gap.
                    yield from self._rows(key, holding, gap.missed_until(until_ms), 0 if is_exact else None)
                    if holding.group_type is GroupType.SHARE:
                        self._change_shared(key, SharedChange(member_id, False, gap.rebalance_id), until_ms)
                else:
                    del self.holders[key]
                    self.gaps[key] = gap
                    self.has_new_gaps = True

    def _take(self, member: Member, group_type: GroupType, taken: Assignment, release: Release) -> Iterator[Row]:
        at_ms = release.at_ms
        member_id = member.member_id
        holding = OpenOwnership(
            member_id,
            member.instance_id,
            group_type,
            at_ms,
            self.at_offset,
            self.is_exact,
            not self.is_step_exact and (member_id not in self.seen or member_id in self.lost),
        )
        for topic, partitions in taken.items():
            for partition in partitions:
                key = (topic, partition)
                gap = self.gaps.pop(key, None)
                if gap is not None:
                    gap = gap.missed_until(at_ms)
                    is_on_record = gap.is_exact and key not in release.retaken
                    is_on_record = is_on_record and gap.to_ms is not None and at_ms is not None
                    gap = gap._replace(is_exact=is_on_record, rebalance_id=gap.rebalance_id or release.rebalance_id)
                    unowned_ms = gap.missed_ms() if is_on_record else None
                    yield from self._rows((gap.topic, partition), gap.holding, gap, unowned_ms)
                    self.handovers.append(
                        Handover(
                            gap.rebalance_id,
                            unowned_ms,
                            not _is_same_owner(gap.holding, holding),
                            gap.holding.member_id,
                            gap.to_ms,
                            gap.awaited_ms,
                        )
                    )
                elif key not in self.holders:
                    self.added += 1
                elif group_type is GroupType.SHARE:
                    self._change_shared(key, SharedChange(member.member_id, True, release.rebalance_id), at_ms)
                self.holders.setdefault(key, {})[member.member_id] = holding

    def _change_shared(self, key: Key, change: SharedChange, at_ms: int | None) -> None:
        """Store that a member took or gave up a partition that other members own.

        If the member did the opposite before, in the same rebalance, remove its earlier change instead. If another
        member did the opposite, remove the other member's change and store a handover.
        """
        changes = self.shared.setdefault(key, [])
        own = next((other for other in changes if other.member_id == change.member_id), None)
        if own is not None:
            # The member took the partition back, or gave it up again.
            changes.remove(own)
            return
        other = next((next_change for next_change in changes if next_change.is_taken is not change.is_taken), None)
        if other is None:
            changes.append(change)
            return
        changes.remove(other)
        released = other if change.is_taken else change
        self.handovers.append(Handover(released.rebalance_id, 0, True, released.member_id, at_ms, None))

    def _remember(self, member_id: str, member: Member | None, owned: Assignment, at_ms: int | None) -> None:
        if owned:
            self.owned[member_id] = owned
        else:
            self.owned.pop(member_id, None)
        if member is not None and member.current is not None:
            self.seen.add(member_id)
        else:
            self.seen.discard(member_id)
        lost = self.lost.get(member_id)
        if lost is not None and not lost.is_same_as(None if member is None else member.current):
            del self.lost[member_id]
        target = member.target.assigned if member is not None and member.target is not None else None
        outside = without(owned, target) if target is not None and owned != target else NOTHING
        if outside:
            since = self.awaited_since.get(member_id, {})
            keys = [(topic, partition) for topic, partitions in outside.items() for partition in partitions]
            self.awaited_since[member_id] = {key: since.get(key, at_ms) for key in keys}
        else:
            self.awaited_since.pop(member_id, None)
        state = member.current.state if member is not None and member.current is not None else None
        if state is not None and state in UNREVOKED:
            self.unrevoked_since.setdefault(member_id, at_ms)
        else:
            self.unrevoked_since.pop(member_id, None)

    def _rows(self, key: Key, holding: OpenOwnership, gap: Unowned | None, unowned_ms: int | None) -> Iterator[Row]:
        if gap is not None and gap.to_ms is not None and gap.to_ms == holding.from_ms:
            # The partition was taken and given up within one millisecond, so the interval is empty.
            return
        topic, partition = key
        for topic_id, name in self.topics.shown(holding.group_type, topic):
            yield (
                TABLE,
                {
                    "topic_id": topic_id,
                    "topic": name,
                    "partition": partition,
                    "member_id": holding.member_id,
                    "instance_id": holding.instance_id,
                    "owned_from": holding.from_ms,
                    "owned_to": None if gap is None else gap.to_ms,
                    "unowned_ms": unowned_ms,
                    "unowned": None if gap is None else _unowned(gap, name),
                    "rebalance_id": None if gap is None else gap.rebalance_id,
                    "released_by": None if gap is None else gap.released_by,
                    "from_offset": holding.from_offset,
                    "to_offset": None if gap is None else gap.to_offset,
                    "log_partition": self.log_partition,
                    "is_exact": holding.is_exact,
                    "is_begin_open": holding.is_begin_open,
                },
            )

    def snapshot(self) -> dict[str, Any]:
        """Return open intervals and gaps as plain data, sorted by partition."""
        self.holders, self.gaps, self.shared = _sorted(self.holders), _sorted(self.gaps), _sorted(self.shared)
        return {**FIELDS.write(self), "regexes": REGEXES.to_plain(self.subscriptions.regexes)}

    def restore(self, plain: Mapping[str, Any], members: Iterable[Member]) -> None:
        """Continue from ``snapshot``.

        Args:
            plain: the result of ``snapshot``.
            members: the members of the group.
        """
        FIELDS.read(self, plain)
        self.subscriptions.regexes = REGEXES.from_plain(plain["regexes"])
        self.subscriptions.begin(members)
        owned: dict[str, dict[str, list[int]]] = {}
        for (topic, partition), holders in self.holders.items():
            for member_id in holders:
                owned.setdefault(member_id, {}).setdefault(topic, []).append(partition)
        self.owned = {
            member_id: {topic: tuple(sorted(partitions)) for topic, partitions in topics.items()}
            for member_id, topics in owned.items()
        }


FIELDS = Fields(
    OwnershipReplay, "holders", "gaps", "shared", "log_partition", "unrevoked_since", "awaited_since", "seen", "lost"
)
REGEXES = form(dict[str, tuple[str, ...]])
"""Form of the regexes in a snapshot; the topics that members subscribe to follow from them."""

Value = TypeVar("Value")


def _sorted(by_partition: dict[Key, Value]) -> dict[Key, Value]:
    return dict(sorted(by_partition.items(), key=itemgetter(0)))


def join_done(joined_ms: int | None, at_ms: int | None, last_ms: int | None) -> int | None:
    """Return the end of a classic join phase; None if the record has no time.

    If the record has no ``currentStateTimestamp``, return the time of the record.

    Args:
        joined_ms: the record's ``currentStateTimestamp``; None if the record has none.
        at_ms: time of the record; None if the record has none.
        last_ms: the latest time of the group's earlier operations; None if no earlier operation has a time.
    """
    if joined_ms is None or at_ms is None:
        return at_ms
    return min(joined_ms if last_ms is None else max(joined_ms, last_ms), at_ms)


def _unowned(gap: Unowned, topic: str | None) -> list[dict[str, int | None]] | None:
    """Return the times in which members missed a partition.

    Return None if these times are not on record.

    Args:
        gap: the partition without an owner.
        topic: the name of the partition's topic. Without a name it is unknown whether members still subscribe to the
            topic.
    """
    if not gap.is_exact or (gap.since_ms is not None and topic is None):
        return None
    times: list[tuple[int, int | None]] = [*gap.over]
    if gap.since_ms is not None:
        times.append((gap.since_ms, None))
    return [{"since": since, "until": until} for since, until in times]


def _owned(member: Member | None) -> Assignment:
    if member is None or member.current is None:
        return NOTHING
    return member.current.owned()


def _is_same_owner(before: OpenOwnership, after: OpenOwnership) -> bool:
    """Return whether two ownerships have the same member.

    A static member may have a new member id.
    """
    if before.member_id == after.member_id:
        return True
    return after.instance_id is not None and before.instance_id == after.instance_id


def _circumstances(events: Sequence[Event], kinds: Sequence[EventKind]) -> Circumstances:
    replaced = set()
    timeouts: dict[str, int] = {}
    for event in events:
        replaced_member = event.before
        if replaced_member is None:
            continue
        if event.kind is EventKind.MEMBER_REPLACED:
            replaced.add(replaced_member.member_id)
        elif event.kind is EventKind.MEMBER_LEFT and replaced_member.subscription is not None:
            timeouts[replaced_member.member_id] = replaced_member.subscription.least_rebalance_ms
    return Circumstances(DELETED in kinds, EMPTIED in kinds, replaced, timeouts)
