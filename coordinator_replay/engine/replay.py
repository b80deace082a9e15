"""Replay of one group: records go in, in log order, and events come out.

``apply`` takes every decoded record of the group and never raises an error, however damaged the log is. Tombstones of
unknown keys do nothing. A record of an unknown group or member creates the group or the member. Unknown kinds are
skipped, as in the broker's own loader.

Missing records are marked; their content is never guessed. A group is proven while no missing record can change it.
From the log offset ``proven_from`` on, the newest record of each of the group's keys has been read, so the group is
proven. The caller sets ``proven_from``, because only the caller sees the whole log partition. Without ``proven_from``,
a group is proven as long as no earlier record of the log partition is missing.

A classic group is also proven from its first record on, if the missing records were compacted away (``is_cleaned``).
One key holds the whole group, and the cleaner removes a record only for a later record of its key
(``Cleaner.shouldRetainRecord``). So the log always has the newest value.

Events of an operation come out when the next operation begins, or with ``finish``. In a classic group, the record of
the group is the last record of its operation, so the operation's events come out at once. A snapshot keeps the
operation that has not ended. So a replay that is continued from a snapshot gives the same events as a replay without a
stop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.engine.classic_group import ClassicGroup, load
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupState, GroupType, Marker, Record
from coordinator_replay.engine.modern_group import ReconcilingGroup
from coordinator_replay.engine.notes import Group, ModernGroup
from coordinator_replay.engine.offsets import COMMIT_KINDS, Offsets
from coordinator_replay.engine.operation import CLASSIC, PHASE, Header, Operation
from coordinator_replay.engine.operation_events import operation_events
from coordinator_replay.engine.plain import Fields, restoring
from coordinator_replay.engine.reconciliation import Reconciliation
from coordinator_replay.engine.share_group import ShareGroup
from coordinator_replay.engine.streams_group import StreamsGroup
from coordinator_replay.errors import UsageError
from coordinator_replay.int64 import LARGEST_INT64

Machine = type[ConsumerGroup] | type[ShareGroup] | type[StreamsGroup]
Handler = Callable[[Any, Record, Operation], None]

MACHINES: tuple[Machine, ...] = (ConsumerGroup, ShareGroup, StreamsGroup)

_MODERN_HANDLERS = {
    "Metadata": "replay_metadata",
    "MemberMetadata": "replay_member",
    "TargetAssignmentMetadata": "replay_target_epoch",
    "TargetAssignmentMember": "replay_target",
    "CurrentMemberAssignment": "replay_current",
}
"""Methods that all three machines have, by the part of the kind's name after the group's type."""

HANDLERS: Mapping[str, tuple[Machine, Handler]] = {
    **{
        f"{machine.__name__}{kind}": (machine, getattr(machine, method))
        for machine in MACHINES
        for kind, method in _MODERN_HANDLERS.items()
    },
    "ConsumerGroupPartitionMetadata": (ConsumerGroup, ConsumerGroup.replay_partition_metadata),
    "ConsumerGroupRegularExpression": (ConsumerGroup, ConsumerGroup.replay_regex),
    "StreamsGroupTopology": (StreamsGroup, StreamsGroup.replay_topology),
}
"""The machine and the method for each kind. Classic values and share state differ: ``StateReplay`` handles them."""

REMOVES_THE_GROUP = frozenset(f"{machine.__name__}Metadata" for machine in MACHINES)
SHARE_STATE = "ShareGroupStatePartitionMetadata"
PASSED_OVER = frozenset({"ShareGroupPartitionMetadata"})
"""Kinds without effect on the state: only Kafka 4.0 wrote them, and later releases skip them."""
GROUP_METADATA = "GroupMetadata"
OWN_KEYS = REMOVES_THE_GROUP | {GROUP_METADATA}
"""Kinds with one key per group: every generation or epoch writes this key again."""
NEVER_EXACT = -1
"""``missing_before`` of a simple group whose group records may be missing."""
HIGHEST_FIRST_EPOCH = {group_type: 1 if group_type is GroupType.CLASSIC else 2 for group_type in GroupType}
"""The highest epoch or generation that the first operation of a new group writes."""
NO_EPOCH = 0
"""Epoch in events about a group that isn't there."""


VERSION = 10
"""Version of the form of snapshots; ``restore`` refuses every other version."""


@dataclass(slots=True, eq=False)
class StateReplay:
    """A replay of one group, with the state of the group so far.

    Attributes:
        group_id: name of the group.
        group: the group after the last record; None if the group does not exist.
        offsets: the group's committed offsets, from the commits that ``apply`` received.
        proven_from: log offset from which every key of the group is proven, or LARGEST_INT64 for never; None if
            unknown.
        is_cleaned: whether the records missing after the group's last record are known to have been compacted away.
        is_contested: whether records of the group are also written to another log partition at the same time. Then no
            record proves the group's state.
        open_keys: keys with an unreadable value and no later record.
        is_state_exact: whether the group is proven after the last finished operation. An unreadable value counts as a
            missing record.
    """

    group_id: str
    group: Group | None = None
    offsets: Offsets = field(default_factory=Offsets)
    proven_from: int | None = None
    is_cleaned: bool = False
    is_contested: bool = False
    open_keys: set[tuple[Any, ...]] = field(default_factory=set)
    is_state_exact: bool = True
    _operation: Operation | None = None
    _missing: int = 0
    _lost: int = 0
    _is_classic_known: bool = False
    _own_kind: str | None = None
    _missing_in_tail: int | None = None
    _state: GroupState = GroupState.DEAD
    _header: Header | None = None

    @property
    def state(self) -> GroupState:
        """Return the state of the group after the last record.

        If the group does not exist, return ``Dead``.
        """
        return self.group.state if self.group is not None else GroupState.DEAD

    def apply(self, record: Record) -> list[Event]:
        """Replay one record of the group.

        Return the events of the operations that the record ends.

        Raises:
            UsageError: the record belongs to another group.
        """
        return [event for events in self.apply_in_operations(record) for event in events]

    def apply_in_operations(self, record: Record) -> list[list[Event]]:
        """Replay one record of the group.

        Return a list of events for each operation of the coordinator that the record ends.

        Raises:
            UsageError: the record belongs to another group.
        """
        kind = record.kind
        group_id = record.key.get("groupId") or record.key.get("group")
        if group_id is not None and group_id != self.group_id:
            raise UsageError(f"a record of group {group_id!r} was given to the replay of {self.group_id!r}")
        if self._lost:
            record = record._replace(missing_before=record.missing_before + self._lost)
        if kind in COMMIT_KINDS:
            return self._commit(record)
        phase = PHASE.get((kind, record.value is None))
        operation = self._operation
        finished = []
        if operation is not None and operation.ends_before(record, phase):
            finished.append(self.finish())
        self._doubt_tail(record)
        if kind == GROUP_METADATA:
            self._replay_classic(record)
            if record.value is not None:
                finished.append(self.finish())
        elif kind == SHARE_STATE:
            self._replay_share_state(record)
        elif kind in HANDLERS:
            self._replay_modern(record, phase)
        if self.open_keys:
            self.open_keys.discard(_key(record))
        return finished

    def apply_marker(self, marker: Marker) -> None:
        """Replay a control record, which ends a producer's transaction."""
        self.offsets.apply_marker(marker)

    def finish(self, missing_from: int | None = None) -> list[Event]:
        """End the last operation of the coordinator on the group, and return its events.

        Return no events if the operation has ended already.

        Args:
            missing_from: the first log offset missing after the operation; None if none is missing. If this offset
                directly follows the operation, the missing records may belong to the operation.
        """
        operation, self._operation = self._operation, None
        if operation is None:
            return []
        final = self.state
        self._doubt_beginning(operation)
        is_cut = operation.last_offset + 1 == missing_from and not isinstance(self.group, ClassicGroup)
        self.is_state_exact = not is_cut and self._is_proven_behind(operation)
        events = operation_events(operation, self.group, final, is_state_exact=self.is_state_exact)
        if is_cut:
            # Only an operation's last record tells its meaning: a group's tombstone may be the beginning of a
            # conversion.
            events = [event._replace(is_exact=False) for event in events]
        is_as_before = not operation.at and not operation.wrote_subscription and final is self._state
        self._header = operation.before if is_as_before else None
        self._state = final
        return events

    def _doubt_beginning(self, operation: Operation) -> None:
        """Check whether the group is older than its first record. If so, mark the operation as not exact.

        A group with a high first epoch, or with members on the classic protocol, is older. Then also drop the proof
        that ``proven_from`` gives.

        Args:
            operation: the operation that may have created the group.
        """
        group = self.group
        if self.proven_from is None or operation.before is not None or group is None or not operation.is_exact:
            return
        if group.epoch > HIGHEST_FIRST_EPOCH[group.group_type] or _is_migrating(group):
            operation.is_exact = False
            self._end_proof()
            if not isinstance(group, ClassicGroup):
                group.reconciliation.birth_missing = None

    def prove_from(self, offset: int) -> None:
        """Set the log offset from which the group is proven (``proven_from``).

        Call this before the next copy of the log partition is replayed.

        Args:
            offset: the log offset; LARGEST_INT64 if the copy never proves the group.
        """
        self.proven_from = offset
        self._own_kind = self._missing_in_tail = None

    def _end_proof(self) -> None:
        """Drop the proof that ``proven_from`` gives.

        A classic group's next record still proves the group, because one record holds the whole group.
        """
        self.proven_from = LARGEST_INT64
        self.is_cleaned = False

    def _doubt_tail(self, record: Record) -> None:
        """Drop the proof that ``proven_from`` gives if the copy of the log partition mixes several points in time.

        A cleaned part of a log has only one record of each key. So in a copy from one point in time, a second record of
        the group's own key (``OWN_KEYS``) lies after the cleaned part. If records are missing after the second record,
        drop the proof.
        """
        if self.proven_from is None or self.proven_from == LARGEST_INT64:
            return
        missing = record.missing_before - self._lost
        if self._missing_in_tail is not None and missing > self._missing_in_tail:
            self._end_proof()
        elif record.kind in OWN_KEYS and self._missing_in_tail is None:
            self._missing_in_tail = missing if record.kind == self._own_kind else None
            self._own_kind = record.kind

    def is_exact(self, missing_before: int | None = None) -> bool:
        """Return whether the group is proven after the records so far: no missing record can change it.

        Args:
            missing_before: number of log offsets missing up to a later time. None for the time just after the group's
                last record.
        """
        if missing_before is not None and missing_before + self._lost > self._missing:
            return self._is_classic_proven(missing_before + self._lost)
        return self.is_state_exact if self._operation is None else self._is_proven_behind(self._operation)

    @property
    def is_classic(self) -> bool:
        """Return whether the group is known to be classic. Then its newest record holds the whole group."""
        return self._is_classic_known and isinstance(self.group, ClassicGroup)

    @property
    def shown_state(self) -> GroupState:
        """Return the group's state, as tables show it, after the last finished operation or gap.

        After a gap, only a group of the newer protocols has a known state. Other groups are ``Unknown`` until the next
        operation.
        """
        return self._state

    def continues(self, record: Record) -> bool:
        """Return whether a record belongs to the same operation of the coordinator as the records before it.

        Return False if the record can't be read.
        """
        operation = self._operation
        if operation is None or not record.is_readable:
            return False
        return not operation.ends_before(record, PHASE.get((record.kind, record.value is None)))

    def lose_track(self, partition: int, offset: int, timestamp_ms: int | None, group_type: GroupType | None) -> Event:
        """Note that records are missing from a log offset on, and return the event about this.

        No dump has these records. Only records after the gap can prove the group's state again.

        Args:
            partition: the log partition.
            offset: the first log offset that is missing.
            timestamp_ms: the time from which records are missing.
            group_type: the group type that the event names if the group does not exist.
        """
        self._end_proof()
        self._lost += 1
        self._is_classic_known = False
        return self._mark(EventKind.RECORDS_MISSING, (partition, offset, timestamp_ms), group_type)

    def lose_key(self, record: Record, group_type: GroupType) -> Event:
        """Note a record with an unreadable value, and return the event.

        The record's key is not proven until the next record with this key.

        Args:
            record: the record. ``finish`` must have ended the operation before it.
            group_type: the group type that the event names if the group does not exist.
        """
        self.open_keys.add(_key(record))
        self._lost += 1
        self._is_classic_known = False
        return self._mark(EventKind.RECORDS_MISSING, (record.partition, record.offset, record.timestamp_ms), group_type)

    def interrupted(
        self, partition: int, offset: int, timestamp_ms: int | None, before: GroupState, group_type: GroupType | None
    ) -> Event:
        """Return an event for records that are missing between older dumps and a newer dump.

        Only the newer dump proves the state after the event.

        Args:
            partition: the log partition.
            offset: the first log offset that is missing.
            timestamp_ms: the time from which records are missing.
            before: the group's state before that time.
            group_type: the group type that the event names if the group does not exist.
        """
        self._state = before
        return self._mark(EventKind.RECORDS_MISSING, (partition, offset, timestamp_ms), group_type)

    def move(self, place: tuple[int, int, int | None], to_partition: int, group_type: GroupType | None) -> Event | None:
        """End the group in its log partition, and return the event.

        The partition count of ``__consumer_offsets`` was raised, and from here on the group's records are in another
        log partition. ``finish`` must have ended the group's last operation.

        Args:
            place: the old log partition, the first log offset whose record no longer counts, and the time.
            to_partition: the group's new log partition.
            group_type: the group type that the event names if the group does not exist.

        Returns:
            The event; None if the group is Dead already.
        """
        group, before = self.group, self._state
        if group is None and before is GroupState.DEAD:
            return None
        is_exact = self.is_state_exact
        self.group, self._state, self._header = None, GroupState.DEAD, None
        self.is_state_exact, self._is_classic_known = True, False
        return Event(
            EventKind.GROUP_MOVED,
            group.group_type if group is not None else group_type or GroupType.CLASSIC,
            before,
            GroupState.DEAD,
            NO_EPOCH if group is None else group.epoch,
            None if group is None else group.assignment_epoch,
            0,
            is_exact,
            *place,
            changes={"to_log_partition": to_partition},
        )

    def find_complete(
        self, partition: int, offset: int, timestamp_ms: int | None, group_type: GroupType | None
    ) -> Event:
        """Note that the group is proven from a log offset on, and return the event about this.

        ``finish`` must have ended the group's last operation.
        """
        self.is_contested = False
        return self._mark(EventKind.RECORDS_COMPLETE, (partition, offset, timestamp_ms), group_type)

    def _mark(self, kind: EventKind, place: tuple[int, int, int | None], group_type: GroupType | None) -> Event:
        """Note that the group is proven, or no longer proven, from here on. Return the event about this.

        The group itself stays as it is.

        Args:
            kind: RECORDS_COMPLETE if the group is proven from here on, RECORDS_MISSING if it no longer is.
            place: log partition, log offset and time of the event.
            group_type: the group type that the event names if the group does not exist.
        """
        group, before = self.group, self._state
        self.is_state_exact = kind is EventKind.RECORDS_COMPLETE
        is_shown = self.is_state_exact or isinstance(group, ReconcilingGroup)
        self._state, self._header = self.state if is_shown else GroupState.UNKNOWN, None
        return Event(
            kind,
            group.group_type if group is not None else group_type or GroupType.CLASSIC,
            before,
            self._state,
            NO_EPOCH if group is None else group.epoch,
            None if group is None else group.assignment_epoch,
            0 if group is None else len(group.members),
            False,
            *place,
            is_state_exact=self.is_state_exact,
        )

    def _is_classic_proven(self, missing_before: int) -> bool:
        """Return whether the group is classic, and no newer record with the group's key can be missing.

        Args:
            missing_before: number of log offsets that are missing up to the time for which the question is asked.
        """
        return self.is_classic and not self.is_contested and (self.is_cleaned or missing_before <= self._missing)

    def _is_proven_before(self, record: Record) -> bool:
        """Return whether the group is proven just before a record."""
        return self._is_complete(record.offset, record.missing_before) or self._is_classic_proven(record.missing_before)

    def _is_proven_behind(self, operation: Operation) -> bool:
        """Return whether the group is proven after an operation."""
        if self._is_complete(operation.last_offset + 1, operation.missing):
            return True
        return self._is_classic_proven(operation.missing)

    def _is_complete(self, offset: int, missing_before: int) -> bool:
        """Return whether every key of the group is proven just before a log offset.

        Args:
            offset: the log offset.
            missing_before: number of missing log offsets below it.
        """
        if self.open_keys:
            return False
        return missing_before == self._lost if self.proven_from is None else offset >= self.proven_from

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as plain data for JSON, including the operation that has not ended."""
        return {"version": VERSION, **FIELDS.write(self)}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> "StateReplay":
        """Return a replay that continues from a snapshot.

        Raises:
            SnapshotError: this release does not know the snapshot's version, or the value is not a snapshot.
        """
        with restoring("engine", VERSION, snapshot):
            replay = cls(snapshot["group_id"])
            FIELDS.read(replay, snapshot)
        return replay

    def _begin(self, record: Record, phase: int | None) -> Operation:
        """Add the record to the operation that has not ended, and return the operation.

        If there is no such operation, begin a new one.
        """
        operation = self._operation
        if operation is None:
            operation = self._operation = Operation(
                record.partition,
                record.timestamp_ms,
                record.offset,
                record.offset,
                phase or 0,
                self._is_proven_before(record),
                record.missing_before,
                self._header_now(),
            )
        operation.take(record, phase)
        self._missing = record.missing_before
        return operation

    def _header_now(self) -> Header | None:
        """Return the group's fields as they are before the next operation; None if the group does not exist.

        If the last operation did not change these fields, return the same ``Header`` again.
        """
        if self._header is None and self.group is not None:
            self._header = self.group.header(self._state)
        return self._header

    def _replay_classic(self, record: Record) -> None:
        group = self.group
        if record.value is None:
            if not isinstance(group, ClassicGroup):
                return
            operation = self._begin(record, PHASE[record.kind, True])
            for member_id, member in group.members.items():
                operation.touch(member_id, member)
            operation.at["removed"] = record.offset
            self.group = None
            self._is_classic_known = False
            return
        operation = self._begin(record, CLASSIC)
        if group is None:
            operation.at["created"] = record.offset
        elif _is_doubtful(group):
            operation.is_exact = False
        new, damage = load(self.group_id, record)
        for member_id in {**(group.members if group is not None else {}), **new.members}:
            before = group.members.get(member_id) if group is not None else None
            operation.touch(member_id, before).current_at = record.offset
        operation.at["generation"] = record.offset
        operation.damage.extend((name, detail, record.offset) for name, detail in damage)
        self.group = new
        self._is_classic_known = True

    def _replay_modern(self, record: Record, phase: int | None) -> None:
        machine, handler = HANDLERS[record.kind]
        group = self.group
        if record.value is None and not isinstance(group, machine):
            return
        operation = self._begin(record, phase)
        if not isinstance(group, machine):
            group = self._replace(machine, record, operation)
        if record.value is None and record.kind in REMOVES_THE_GROUP:
            group.reconciliation.remove_group(record, operation)
            self.group = None
            return
        handler(group, record, operation)

    def _replace(self, machine: Machine, record: Record, operation: Operation) -> ModernGroup:
        """Create a group of the type that a record needs.

        The new group replaces a group of another type: the newer record wins.
        """
        old = self.group
        operation.wrote_subscription = True
        if old is not None:
            # Changes of the old group's fields are not changes of the new group.
            operation.changes.clear()
            if _is_doubtful(old) or not (isinstance(old, ClassicGroup) and old.is_simple):
                operation.is_exact = False
            for member_id, member in old.members.items():
                operation.touch(member_id, member)
        else:
            operation.at["created"] = record.offset
        group = machine(self.group_id, Reconciliation(record.missing_before if operation.is_exact else None))
        self.group = group
        return group

    def _replay_share_state(self, record: Record) -> None:
        if isinstance(self.group, ShareGroup):
            operation = self._begin(record, None)
            operation.at["share_state"] = record.offset
            operation.changes["share_state"] = record.value or {}

    def _commit(self, record: Record) -> list[list[Event]]:
        """Replay an offset commit or its tombstone. Return a list of events for each operation that the record ends.

        If the group does not exist, a commit creates a simple group.
        """
        self.offsets.apply(record)
        if self.group is not None or record.value is None:
            return []
        finished = [self.finish()] if self._operation is not None else []
        operation = self._begin(record, None)
        self.group = ClassicGroup(self.group_id, is_simple=True)
        self._is_classic_known = False
        self.group.missing = record.missing_before if operation.is_exact else NEVER_EXACT
        finished.append(self.finish())
        return finished


FIELDS = Fields(
    StateReplay,
    *("group_id", "group", "offsets", "proven_from", "is_cleaned", "is_contested", "open_keys"),
    *("_operation", "_missing", "_lost", "_is_classic_known", "is_state_exact", "_state"),
    *("_own_kind", "_missing_in_tail"),
)
"""Attributes that a snapshot has; the header is computed again after ``restore``."""


def _key(record: Record) -> tuple[Any, ...]:
    """Return what distinguishes a record's key from other keys of the group: the kind and the key's fields."""
    return record.kind, *record.key.values()


def _is_migrating(group: Group) -> bool:
    """Return whether members of a consumer group use the classic protocol. Such a group was converted from classic."""
    if isinstance(group, ClassicGroup):
        return False
    subscriptions = (member.subscription for member in group.members.values())
    return any(subscription is not None and subscription.uses_classic_protocol for subscription in subscriptions)


def _is_doubtful(group: Group) -> bool:
    """Return whether records may be missing between this group and the next record, which is of another group type.

    Return True for a consumer, share or streams group: in a complete log, the group's tombstones would come before the
    record. Return True for a classic group only if it is not proven (``NEVER_EXACT``).
    """
    return not isinstance(group, ClassicGroup) or group.missing == NEVER_EXACT
