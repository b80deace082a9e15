"""Rules over a group's steps: each step is shown to the rules, which begin and end observations.

A rule is a function. It gets a step and the rule's memory: notes and open observations, which are plain data. So a
snapshot can store the memory of a rule without the rule's code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from coordinator_replay.analysis.findings.evidence import Evidence, evidence_row, state_row
from coordinator_replay.analysis.findings.evidence_rows import LastStatus, Owned, QuietTime, RebalanceTimes
from coordinator_replay.analysis.findings.observation import Observation, has_lasted, row
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.members import MemberReplay, OpenMemberInterval
from coordinator_replay.analysis.ownership import OwnershipReplay
from coordinator_replay.analysis.reasons.topic_changes import NO_CHANGES, TopicChanges
from coordinator_replay.analysis.rows import RecordTopics, Row, Scope
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.engine.plain import Fields, form
from coordinator_replay.times import elapsed_ms, time_order

_PARTITION_AND_OWNER = itemgetter(0, 1, 2)
"""Sort key of owners: topic, partition and member id."""


class GroupStatus(NamedTuple):
    """A group after an operation, as the operation's last event shows the group."""

    group_type: GroupType
    state: GroupState
    epoch: int
    member_count: int
    at_ms: int | None
    partition: int
    offset: int
    is_exact: bool


class Step(NamedTuple):
    """An operation, and the group after the operation.

    Attributes:
        events: the events of the operation; none at the end of the log, where rules update open observations.
        kinds: kinds of the events.
        now: the group after the operation.
        members: the group's members.
        ownership: the partitions that members own, and the partitions without an owner.
        exact_from: the time since which the group is proven; None if it is proven from the beginning.
        is_beginning_known: whether the log has the group's creation.
        is_in_gap: whether records of the group may be missing from here up to its next record.
        topic_changes: times at which topics changed, as far as sources show them.
    """

    events: Sequence[Event]
    kinds: frozenset[EventKind]
    now: GroupStatus
    members: Mapping[str, OpenMemberInterval]
    ownership: OwnershipReplay
    topics: RecordTopics
    limits: Thresholds
    exact_from: int | None
    is_beginning_known: bool
    is_in_gap: bool = False
    topic_changes: TopicChanges = NO_CHANGES

    @property
    def is_end(self) -> bool:
        """Return whether this is the step at the end of the log, which has no events."""
        return not self.events

    def has_all_since(self, at_ms: int) -> bool:
        """Return whether the log has all records of the group since a time."""
        if self.is_in_gap:
            return False
        return self.is_beginning_known if self.exact_from is None else self.exact_from <= at_ms


@dataclass(slots=True)
class Memory:
    """The state that a rule keeps of a group.

    Attributes:
        notes: plain data of the rule.
        open: open observations, by a name that the rule chooses.
    """

    notes: dict[str, Any] = field(default_factory=dict)
    open: dict[str, Observation] = field(default_factory=dict)

    def since(self, name: str, at_ms: int | None) -> int | None:
        """Return when an open observation began.

        Return ``at_ms`` if there is no open observation of this name.
        """
        observation = self.open.get(name)
        return at_ms if observation is None else observation.first_ms

    def begin(self, name: str, observation: Observation) -> None:
        """Open an observation.

        If an observation of this name is open already, replace it and keep its beginning.
        """
        first = self.open.get(name)
        if first is not None:
            observation = observation._replace(
                subject=first.subject, first_ms=first.first_ms, partition=first.partition, offset=first.offset
            )
        self.open[name] = observation

    def hold(
        self,
        name: str,
        now: GroupStatus,
        since: int | None,
        message: str,
        detail: Mapping[str, Any],
        needed_ms: int = 0,
        *,
        subject: tuple[Any, ...] | None = None,
        **about: Any,
    ) -> None:
        """Open an observation, or replace the open observation of the same name.

        Args:
            name: name of the observation within the rule.
            now: status of the group. The observation gets the position of the group's last record from it.
            since: time at which the observation began; None if it is not on record.
            message: message of the finding.
            detail: details of the finding.
            needed_ms: how long the observation must last to be yielded.
            subject: identifies the observation; None stands for the position of the group's last record.
            about: further fields of ``Observation``.
        """
        place = now.partition, now.offset
        which = place if subject is None else subject
        self.begin(name, Observation(which, since, None, message, *place, detail, needed_ms, **about))

    def end(self, name: str, at_ms: int | None) -> Iterator[Observation]:
        """Close an open observation, and yield it if it has lasted for its ``needed_ms``.

        Args:
            name: name of the observation within the rule. If no observation of this name is open, yield nothing.
            at_ms: time at which the observation ends.
        """
        observation = self.open.pop(name, None)
        if observation is not None and has_lasted(observation.needed_ms, observation.first_ms, at_ms):
            yield observation._replace(last_ms=at_ms)

    def end_all(self, at_ms: int | None) -> Iterator[Observation]:
        """Close all open observations, and yield those that have lasted for their ``needed_ms``."""
        for name in list(self.open):
            yield from self.end(name, at_ms)


GroupRule = Callable[[Step, Memory], Iterator[Observation]]

_OVER_RECORDS = frozenset({"invariant_broken", "rebalance_storm", "static_member_flapping"})
"""Rules over recorded events. All other rules are about something absent, so they only look at proven steps."""


@dataclass(slots=True)
class StepRules:
    """Application of the rules to the steps of one group.

    Attributes:
        scope: the group's cluster and name.
        rules: the rules, in the order in which they see each operation.
        members: the members after the last step.
        ownership: the owners of partitions after the last step.
        topics: names of the topics in the group's records.
        limits: the thresholds of findings.
        topic_changes: times at which topics changed, as far as sources show them.
        memories: the memory of each rule, by the rule's name.
        applied: the rules, each with its memory.
        status: the group after its last step; None before the first.
        has_had_members: whether the group ever had members.
        members_from: time at which the first member joined. None if the group never had a member, or if that member's
            record has no time.
        is_beginning_known: whether the log has the group's creation.
        exact_from: the time since which the group is proven; None if it is proven from the beginning.
        is_in_gap: whether the last step was RECORDS_MISSING: records may be missing up to the group's next record.
        states: sequence number of the group's next state row.
    """

    scope: Scope
    rules: InitVar[Sequence[GroupRule]]
    members: MemberReplay
    ownership: OwnershipReplay
    topics: RecordTopics
    limits: Thresholds = DEFAULTS
    topic_changes: TopicChanges = field(default_factory=dict)
    memories: dict[str, Memory] = field(init=False)
    applied: list[tuple[GroupRule, Memory]] = field(init=False)
    status: GroupStatus | None = None
    has_had_members: bool = False
    members_from: int | None = None
    is_beginning_known: bool = False
    exact_from: int | None = None
    is_in_gap: bool = False
    states: int = 1

    def __post_init__(self, rules: Sequence[GroupRule]) -> None:
        """Create the state that each rule keeps from one operation to the next."""
        self.memories = {rule.__name__: Memory() for rule in rules}
        self.applied = [*zip(rules, self.memories.values(), strict=True)]

    def fold(self, events: Sequence[Event], at_ms: int | None) -> Iterator[Row]:
        """Apply the rules to one operation of the coordinator on the group, and yield evidence.

        The evidence is: observations that ended, states that the group entered, and long times without a record.

        Args:
            events: the events of the operation. ``members`` and ``ownership`` must be up to date with these events.
            at_ms: time of the operation; None if its record has no time.
        """
        last, exact_before = events[-1], self.exact_from
        if self.status is None:
            self.is_beginning_known = any(event.kind is EventKind.GROUP_CREATED for event in events)
        is_first_proven = not self.is_beginning_known if self.status is None else not self.status.is_exact
        if is_first_proven or self.is_in_gap or not last.is_state_exact:
            self.exact_from = at_ms
        self.is_in_gap = last.kind is EventKind.RECORDS_MISSING
        before, self.status = (
            self.status,
            GroupStatus(
                last.group_type,
                last.to_state,
                last.epoch,
                last.member_count,
                at_ms,
                last.partition,
                last.offset,
                last.is_state_exact,
            ),
        )
        if not self.has_had_members and last.member_count:
            self.has_had_members, self.members_from = True, at_ms
        yield from self._states(events, at_ms)
        yield from self._quiet(before, self.status)
        step = self._step(events, self.status)
        for rule, memory in self.applied:
            is_seen = step.now.is_exact or rule.__name__ in _OVER_RECORDS
            for observation in rule(step, memory) if is_seen else self._ended(rule, memory, before, at_ms):
                yield self._row(rule.__name__, observation, exact_before, is_open=False)

    def _ended(
        self, rule: GroupRule, memory: Memory, before: GroupStatus | None, at_ms: int | None
    ) -> Iterator[Observation]:
        """Yield observations of a rule that end because the group is no longer proven.

        Args:
            rule: the rule.
            memory: the rule's memory.
            before: the group after its previous operation.
            at_ms: time of the present operation.
        """
        if before is not None and before.is_exact:
            yield from rule(self._step((), before)._replace(is_in_gap=True), memory)
        yield from (observation._replace(is_end_open=True) for observation in memory.end_all(at_ms))
        memory.notes.clear()

    def interrupt(self, at_ms: int | None) -> Iterator[Row]:
        """End all observations, because the next records of the group are missing.

        Yield those that lasted for their ``needed_ms``.
        """
        for rule, memory in self.applied:
            for observation in self._ended(rule, memory, self.status, at_ms):
                yield self._row(rule.__name__, observation, self.exact_from, is_open=False)

    def open_rows(self, proven_ms: int | None, *, has_gap: bool) -> Iterator[Row]:
        """Yield the observations that end or are open at the end of the log, and the row of the group's status.

        Args:
            proven_ms: the time from which no record is missing; None if no record is missing at all.
            has_gap: whether the log has a gap. The records in the gap may have been of any kind.
        """
        step = None if self.status is None else self._step((), self.status)
        for rule, memory in self.applied:
            if step is not None and (step.now.is_exact or rule.__name__ in _OVER_RECORDS):
                for observation in rule(step, memory):
                    yield self._row(rule.__name__, observation, self.exact_from, is_open=False)
            for observation in memory.open.values():
                yield self._row(rule.__name__, observation, self.exact_from, is_open=True)
        if step is None:
            return
        yield evidence_row(self.scope, Evidence.STATUS, self._status_content(step.now, proven_ms, has_gap=has_gap))

    def _step(self, events: Sequence[Event], now: GroupStatus) -> Step:
        kinds = frozenset([event.kind for event in events])
        shown = self.members.stays, self.ownership, self.topics, self.limits
        proven = self.exact_from, self.is_beginning_known, self.is_in_gap
        return Step(events, kinds, now, *shown, *proven, self.topic_changes)

    def rebalance(self, rebalance: Mapping[str, Any]) -> Row:
        """Return a rebalance as evidence.

        Args:
            rebalance: the rebalance's row of ``rebalances``.
        """
        is_over = rebalance["completed_offset"] is not None
        at = rebalance["completed_at"] if is_over else rebalance["started_at"]
        # The start of a classic rebalance is not on record. This is the latest possible time.
        started_at = rebalance["started_at"]
        if started_at is None:
            started_at = elapsed_ms(rebalance["duration_ms_min"], at)
        content: RebalanceTimes = {
            "at": at,
            "is_over": is_over,
            "rebalance_id": rebalance["rebalance_id"],
            "epoch": rebalance["epoch"],
            "started_at": started_at,
            "metadata_delay_ms": rebalance["metadata_delay_ms"] if rebalance["is_exact"] else None,
        }
        return evidence_row(self.scope, Evidence.REBALANCE, content, at=at, name="rebalance")

    def _quiet(self, before: GroupStatus | None, now: GroupStatus) -> Iterator[Row]:
        """Yield the time between two records of a group that was proven Stable with members, if the time was long."""
        if before is None or not before.is_exact or not now.is_exact:
            return
        if before.state is not GroupState.STABLE or not before.member_count:
            return
        since, until = before.at_ms, now.at_ms
        if since is not None and until is not None and until - since >= self.limits.silent_ms:
            content: QuietTime = {
                "group_type": str(before.group_type),
                "epoch": before.epoch,
                "members": before.member_count,
                "partition": before.partition,
                "offset": before.offset,
                "at": since,
                "until": until,
            }
            yield evidence_row(self.scope, Evidence.QUIET, content, at=since, name="quiet", seq=before.offset)

    def _states(self, events: Sequence[Event], at_ms: int | None) -> Iterator[Row]:
        """Yield changes of the group's state or type, for the metrics."""
        for event in events:
            if event.from_state is not event.to_state or event.kind is EventKind.GROUP_CONVERTED:
                yield state_row(self.scope, event.group_type, event.to_state, at=at_ms, seq=self.states)
                self.states += 1

    def _status_content(self, now: GroupStatus, proven_ms: int | None, *, has_gap: bool) -> LastStatus:
        """Return the group at its last record, with the topics whose names are known."""
        shown, ownership = self.topics.shown, self.ownership
        owned: list[Owned] = [
            (name, partition, holding.member_id, holding.from_ms)
            for (topic, partition), holders in ownership.holders.items()
            for holding in list(holders.values())[:1]
            for _, name in shown(holding.group_type, topic)
            if name is not None and holding.group_type is not GroupType.SHARE
        ]
        released: list[Owned] = [
            (name, partition, gap.holding.member_id, gap.to_ms)
            for (_, partition), gap in ownership.gaps.items()
            for _, name in shown(gap.holding.group_type, gap.topic)
            if name is not None and gap.holding.group_type is not GroupType.SHARE
        ]
        subscriptions = [stay.member.subscription for stay in self.members.stays.values()]
        topics = [subscription.topics for subscription in subscriptions if subscription is not None]
        # The topics of a regular expression are not known here, so the owned topics count as subscribed, too.
        subscribed = {entry[0] for entry in owned}.union(*(names for names in topics if names is not None))
        return {
            "group_type": str(now.group_type),
            "state": str(now.state),
            "epoch": now.epoch,
            "members": now.member_count,
            "has_had_members": self.has_had_members,
            "members_from": self.members_from,
            "is_beginning_known": self.is_beginning_known,
            "is_exact": now.is_exact,
            "at": now.at_ms,
            "partition": now.partition,
            "offset": now.offset,
            # A single unreadable subscription makes the topics of the group unknown.
            "subscribed": [] if None in topics else sorted(subscribed),
            "owned": sorted(owned, key=_PARTITION_AND_OWNER),
            "released": sorted(released, key=_PARTITION_AND_OWNER),
            "proven_from": proven_ms,
            "has_gap": has_gap,
        }

    def _row(self, rule: str, observation: Observation, exact_from: int | None, *, is_open: bool) -> Row:
        """Return an observation as evidence.

        If the observation may have begun earlier, in missing records, mark its start as open.

        Args:
            rule: name of the rule.
            observation: the observation.
            exact_from: the time from which no record of the group is missing; None if none is missing at all.
            is_open: whether the observation still holds.
        """
        if exact_from is not None and time_order(observation.first_ms) <= exact_from:
            observation = observation._replace(is_begin_open=True)
        content = row(self.scope, rule, observation, is_open=is_open)
        seq = time_order(observation.first_ms)
        return evidence_row(self.scope, Evidence.OBSERVATION, content, name=content["finding_id"], seq=seq)

    def snapshot(self) -> dict[str, Any]:
        """Return the status and the memories of the rules as plain data."""
        kept = {name: memory for name, memory in self.memories.items() if memory.notes or memory.open}
        return {**FIELDS.write(self), "memories": MEMORIES.to_plain(kept)}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Continue from ``snapshot``."""
        FIELDS.read(self, plain)
        for name, kept in MEMORIES.from_plain(plain["memories"]).items():
            memory = self.memories.get(name)
            if memory is not None:
                memory.notes, memory.open = kept.notes, kept.open


FIELDS = Fields(
    StepRules, "status", "has_had_members", "members_from", "is_beginning_known", "exact_from", "is_in_gap", "states"
)
MEMORIES = form(dict[str, Memory])
"""Form of the memories in a snapshot."""
