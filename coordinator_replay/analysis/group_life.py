"""The replay of one group from records to rows: the engine, and every fold over its events.

The row of an interval or a rebalance is returned when the interval or rebalance is over. ``finish`` returns the open
rows at the end of the log, with null for their end. A later run that continues from ``snapshot`` returns these rows
again under the same keys: when they are over, or else at the end of its log.

Between two dumps, records may be written and then removed by the cleaner, so that no dump has them. Then ``interrupt``
continues the group from the records that the newer dump still has: the cleaner keeps the last record of each key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from coordinator_replay.analysis.expiry_rules import FIELDS as EXPIRY_RULES
from coordinator_replay.analysis.expiry_rules import ExpiryRules
from coordinator_replay.analysis.findings.progress import PROGRESS_RULES
from coordinator_replay.analysis.findings.shape import SHAPE_RULES
from coordinator_replay.analysis.findings.steps import StepRules
from coordinator_replay.analysis.findings.subscribed import SUBSCRIPTION_RULES
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.members import FIELDS as MEMBERS
from coordinator_replay.analysis.members import MemberReplay, members_after
from coordinator_replay.analysis.ownership import RECORDS_MISSING, OwnershipReplay
from coordinator_replay.analysis.reasons.history import Sign
from coordinator_replay.analysis.reasons.topic_changes import NO_CHANGES, TopicChanges
from coordinator_replay.analysis.rebalances import Rebalances
from coordinator_replay.analysis.rows import RecordTopics, Row, Scope, encode
from coordinator_replay.analysis.timeline import Timeline
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupType, Member, Record
from coordinator_replay.engine.plain import Fields, restoring
from coordinator_replay.engine.replay import VERSION as ENGINE_VERSION
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.times import latest_ms

VERSION = 35

SNAPSHOT_VERSION = 1000 * VERSION + ENGINE_VERSION
"""Version of the stored snapshots of a group. It combines the version of the form of these snapshots with the version
of the engine's snapshot in them."""

# Looked up once, because every event needs it.
TOPOLOGY_CHANGED = EventKind.TOPOLOGY_CHANGED
GROUP_MOVED = str(EventKind.GROUP_MOVED)
GROUP_METADATA = "GroupMetadata"
CURRENT_ASSIGNMENT = "CurrentMemberAssignment"
"""End of the names of the kinds with a member's current assignment."""


class GroupReplay:
    """The replay of one group into rows.

    Attributes:
        replay: the engine, for callers that need the group's state after the last record.
        group_type: the type of the group at its last event; None if the group had no event.
        proven_ms: the time from which no record of the log partition is missing; None if no record is missing at all.
    """

    proven_ms: int | None = None
    group_type: GroupType | None = None
    _now_ms: int | None = None
    _classic_at: int = -1

    def __init__(
        self,
        cluster: str,
        group_id: str,
        topic_names: Mapping[str, str] | None = None,
        topic_changes: TopicChanges = NO_CHANGES,
        limits: Thresholds = DEFAULTS,
        encode: Callable[[Any], str] = encode,
    ) -> None:
        """Create the replay of a group, before its first record.

        Args:
            cluster: the cluster's name in the tables.
            group_id: id of the group.
            topic_names: topic name by id, as far as known.
            topic_changes: when topics changed, by name, as far as known.
            limits: the thresholds of findings.
            encode: the function that writes JSON into cells, see ``Scope``.
        """
        self.replay = StateReplay(group_id)
        self._scope = Scope(cluster, group_id, encode)
        self._topics = RecordTopics(topic_names or {})
        self._topic_changes = topic_changes
        self._limits = limits
        self._timeline = Timeline(encode, self._topics)
        self._members = MemberReplay(self._topics)
        self._ownership = OwnershipReplay(self._topics)
        self._expiry_rules = ExpiryRules()
        self._begin_rebalances()

    def _begin_rebalances(self) -> None:
        """Create the fold over rebalances, and the rules of findings with empty memories."""
        self._rebalances = Rebalances(self._scope, self._topics, self._members, self._ownership, self._topic_changes)
        rules = (*PROGRESS_RULES, *SHAPE_RULES, *SUBSCRIPTION_RULES)
        folds = self._members, self._ownership, self._topics
        self._step_rules = StepRules(self._scope, rules, *folds, self._limits, self._topic_changes)

    def feed(self, record: Record) -> list[Row]:
        """Replay the group's next record.

        Return the rows that no later record can change, each with the name of its table.
        """
        rows: list[Row] = []
        if not record.is_readable:
            return self._lose_key(record)
        had_open_keys = bool(self.replay.open_keys)
        if record.kind == GROUP_METADATA:
            self._classic_at = record.offset
        for events in self.replay.apply_in_operations(record):
            if events:
                rows += self._fold(events)
        rows.extend(self._expiry_rules.fold(record, self.replay.group))
        if had_open_keys and not self.replay.open_keys:
            self.proven_ms = latest_ms(self.proven_ms, record.timestamp_ms)
        return self._final(rows, record.offset)

    def heed_commits(self, before_offset: int, commits: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Keep each partition's last commit before the next record, as a sign that its owner was alive.

        Args:
            before_offset: log offset of the group's next record.
            commits: the last commit of each partition with a commit since the previous call. An entry has the topic,
                the partition, and the commit's time, log partition and log offset.
        """
        signs = ((topic, number, Sign(at_ms, partition, offset)) for topic, number, at_ms, partition, offset in commits)
        self._rebalances.history.heed(before_offset, signs)

    def lose_track(self, partition: int, offset: int, at_ms: int | None) -> list[Row]:
        """Note the beginning of a gap, whose records no dump has. Return the rows of intervals that end there.

        Args:
            partition: the log partition.
            offset: the first log offset that is missing.
            at_ms: the time from which records are missing; None if no record shows it.
        """
        rows = self._interrupt(offset, at_ms)
        members = self._members_now()
        self._members.lose(members)
        self._ownership.lose(members)
        rows += self._fold([self.replay.lose_track(partition, offset, at_ms, self.group_type)])
        return self._final(rows, offset)

    def _lose_key(self, record: Record) -> list[Row]:
        """Note that a record can't be read, so that its key's value is unknown.

        Return the rows of intervals that end at this record.
        """
        rows = self._interrupt(record.offset, record.timestamp_ms)
        is_whole = record.kind == GROUP_METADATA
        members = [
            member for member in self._members_now() if is_whole or member.member_id == record.key.get("memberId")
        ]
        self._members.lose(members)
        if is_whole or record.kind.endswith(CURRENT_ASSIGNMENT):
            self._ownership.lose(members)
        rows += self._fold([self.replay.lose_key(record, self.group_type or _type_of(record.kind))])
        return self._final(rows, record.offset)

    def _members_now(self) -> list[Member]:
        return [stay.member for stay in self._members.stays.values()]

    def _interrupt(self, offset: int, at_ms: int | None) -> list[Row]:
        """End rows that are proven, and begin rows that are not proven, at a log offset. Return the ended rows."""
        rows = self._finish(offset)
        until_ms = latest_ms(self._now_ms, at_ms)
        self._rebalances.lose_track(offset)
        rows += self._members.interrupt(self._members, until_ms, offset)
        rows += self._ownership.interrupt(self._ownership, until_ms, offset)
        return rows

    def find_complete(self, partition: int, offset: int, at_ms: int | None) -> list[Row]:
        """Note that the log shows the value of every key of the group from log offset ``offset`` on.

        Return the rows that no later record can change.
        """
        rows = self._finish()
        is_seen = self.group_type is not None
        if is_seen and not self.replay.is_state_exact and not self.replay.open_keys:
            rows += self._fold([self.replay.find_complete(partition, offset, at_ms, self.group_type)])
        return self._final(rows, offset)

    def interrupt(self, partition: int, offset: int, at_ms: int | None, own: Sequence[Record]) -> list[Row]:
        """Continue the group after missing records, from the records that a newer dump still has.

        Return the rows of all intervals that end at the first missing record, such as the membership of a member that
        the newer dump does not have.

        Args:
            partition: the log partition.
            offset: the first log offset that is missing.
            at_ms: the time from which records are missing; None if no record shows it.
            own: the group's records that the newer dump has below ``offset``.
        """
        rows = self._finish(offset)
        if any(record.offset == self._classic_at for record in own) and self.replay.is_classic:
            # The group's only record has the whole group and still exists, so no later record of the group is missing.
            self.replay.is_cleaned = True
            return self._final(rows, offset)
        confirmed = self._beside()
        for record in own:
            confirmed.feed(record)
        confirmed.finish()
        at_ms = latest_ms(self._now_ms, at_ms)
        rows += self._go_on_as(confirmed, partition, offset, at_ms)
        before = self.replay.shown_state
        confirmed.replay.is_contested = self.replay.is_contested
        self.replay = confirmed.replay
        event = self.replay.interrupted(partition, offset, at_ms, before, self.group_type)
        return self._final(rows + self._fold([event]), offset)

    def number_from(self, first: int) -> None:
        """Number the group's events from ``first`` on.

        Call this for a group that moved here from another log partition. Its events in the other log partition have the
        lower numbers.
        """
        self._timeline.seq = first
        self._step_rules.states = first + 1

    def move(self, partition: int, offset: int, at_ms: int | None, to_partition: int) -> list[Row]:
        """End the group in a log partition, because it moved to another log partition. Return the rows that end.

        Args:
            partition: the log partition that the group has left.
            offset: the log offset from which the group's records in this log partition don't count.
            at_ms: the time of the move; None if no record shows it.
            to_partition: the log partition to which the group moved.
        """
        rows = self._finish()
        at_ms = latest_ms(self._now_ms, at_ms)
        event = self.replay.move((partition, offset, at_ms), to_partition, self.group_type)
        if event is not None:
            rows += self._go_on_as(self._beside(), partition, offset, at_ms, GROUP_MOVED)
            rows += self._fold([event])
        return self._final(rows, offset)

    def _beside(self) -> "GroupReplay":
        """Return a new replay of the same group, which has seen no record."""
        scope, topics = self._scope, self._topics
        return GroupReplay(scope.cluster, self.replay.group_id, topics.names, self._topic_changes, self._limits)

    def _go_on_as(
        self, confirmed: "GroupReplay", partition: int, offset: int, at_ms: int | None, why: str = RECORDS_MISSING
    ) -> list[Row]:
        """Continue with the state of another replay of the group. Return the rows that end.

        Args:
            confirmed: the other replay.
            partition: the log partition.
            offset: the log offset from which the group's records are missing or no longer count.
            at_ms: the time of this offset; None if no record shows it.
            why: why the ownership of partitions ends.
        """
        rows = [*self._step_rules.interrupt(at_ms)]
        self._rebalances.lose_track(offset)
        for name, row in self._rebalances.open_rows():
            rows += [(name, row), self._step_rules.rebalance(row)]
        rows += self._members.interrupt(confirmed._members, at_ms, offset)
        rows += self._ownership.interrupt(confirmed._ownership, at_ms, offset, why)
        states, earlier = self._step_rules.states, self._rebalances
        self._begin_rebalances()
        self._step_rules.states = states
        self._rebalances.member_count = len(self._members.stays)
        self._rebalances.history.take_signs(confirmed._rebalances.history, earlier.history)
        if why == RECORDS_MISSING:
            self._rebalances.last_generation = earlier.last_generation
            self._rebalances.last_generation_ms = earlier.last_generation_ms
        self._topics.sources = confirmed._topics.sources
        rows.append(self._expiry_rules.interrupt(partition, offset, at_ms, confirmed.replay.group))
        return rows

    def finish(self) -> list[Row]:
        """End the coordinator's last operation, and return the rows that a later record may still change."""
        return self._final([*self._open_rows()], None)

    def _open_rows(self) -> Iterator[Row]:
        yield from self._finish()
        yield from self._members.open_rows()
        yield from self._ownership.open_rows()
        for name, row in self._rebalances.open_rows():
            yield name, row
            yield self._step_rules.rebalance(row)
        has_gap = self.replay.proven_from == LARGEST_INT64 or bool(self.replay.open_keys)
        yield from self._step_rules.open_rows(self.proven_ms, has_gap=has_gap)

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as plain data for JSON."""
        return {
            "version": VERSION,
            "cluster": self._scope.cluster,
            "replay": self.replay.snapshot(),
            "seq": self._timeline.seq,
            "sources": self._topics.sources,
            **FIELDS.write(self),
            "members": MEMBERS.write(self._members),
            "ownership": self._ownership.snapshot(),
            "rebalances": self._rebalances.snapshot(),
            "expiry_rules": EXPIRY_RULES.write(self._expiry_rules),
            "findings": self._step_rules.snapshot(),
        }

    @classmethod
    def restore(
        cls,
        snapshot: Mapping[str, Any],
        topic_names: Mapping[str, str] | None = None,
        topic_changes: TopicChanges = NO_CHANGES,
        limits: Thresholds = DEFAULTS,
    ) -> "GroupReplay":
        """Continue from a snapshot.

        All other arguments are those of ``__init__``.

        Raises:
            SnapshotError: the snapshot is damaged, or has a version that this release does not know.
        """
        with restoring("group", VERSION, snapshot):
            replay = StateReplay.restore(snapshot["replay"])
            life = cls(snapshot["cluster"], replay.group_id, topic_names, topic_changes, limits)
            life.replay = replay
            life._timeline.seq = snapshot["seq"]
            life._topics.sources = {key: tuple(topics) for key, topics in snapshot["sources"].items()}
            FIELDS.read(life, snapshot)
            MEMBERS.read(life._members, snapshot["members"])
            members = [stay.member for stay in life._members.stays.values()]
            life._ownership.restore(snapshot["ownership"], members)
            life._rebalances.restore(snapshot["rebalances"])
            EXPIRY_RULES.read(life._expiry_rules, snapshot["expiry_rules"])
            life._step_rules.restore(snapshot["findings"])
        return life

    def _final(self, rows: list[Row], offset: int | None) -> list[Row]:
        """Return rows with their cluster and group, and with the log offset of the record that made them final."""
        of_all = {"cluster": self._scope.cluster, "group_id": self._scope.group_id, "settled_at_offset": offset}
        for _, row in rows:
            row.update(of_all)
        return rows

    def _finish(self, missing_from: int | None = None) -> list[Row]:
        """End the coordinator's last operation on the group, and return the rows that no later record can change.

        Args:
            missing_from: log offset from which records are missing; None if none is missing.
        """
        events = self.replay.finish(missing_from=missing_from)
        return self._fold(events) if events else []

    def _fold(self, events: Sequence[Event]) -> list[Row]:
        # The clock of an old coordinator may be ahead of its successor's clock, but times of intervals must not go
        # back. A group has no time before its first record with a time.
        last_ms = self._now_ms
        self._now_ms = at_ms = latest_ms(last_ms, events[-1].timestamp_ms)
        self.group_type = events[-1].group_type
        for event in events:
            if event.kind is TOPOLOGY_CHANGED:
                sources = event.changes["source_topics"] or {}
                self._topics.sources = {key: tuple(topics) for key, topics in sources.items()}
        rebalance_id = self._rebalances.begin(events, at_ms, last_ms)
        rows = [*self._timeline.fold(events, rebalance_id)]
        changed = members_after(events)
        rows += self._members.fold(events, changed, at_ms)
        rows += self._ownership.fold(events, changed, at_ms, last_ms, rebalance_id)
        for name, row in self._rebalances.end(rebalance_id, at_ms):
            rows += [(name, row), self._step_rules.rebalance(row)]
        rows += self._step_rules.fold(events, at_ms)
        return rows


FIELDS = Fields(GroupReplay, "_now_ms", "_classic_at", "group_type", "proven_ms")
"""The fields in a snapshot, besides the parts of the replay."""


def _type_of(kind: str) -> GroupType:
    """Return the type of the groups that a kind of record is about."""
    return next((group_type for group_type in GroupType if kind.lower().startswith(group_type)), GroupType.CLASSIC)
