"""The fold that shows every operation of a group to every rule, and keeps what the rules remember.

A rule is a function of one step and of its own memory, which is plain data: what it has noted, and the observations
that are still open. So a snapshot needs no code of the rules, and none of them can keep more than it notes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from coordinator_replay.analysis.findings.evidence import Evidence, evidence_row, state_row
from coordinator_replay.analysis.findings.observation import Observation, row
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.members import MemberInterval, Members
from coordinator_replay.analysis.ownership import Ownership
from coordinator_replay.analysis.rows import Row, Scope, Topics
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupState, GroupType

_NAME_AND_OWNER = itemgetter(0, 1, 2)
"""Topic, partition and member id: the order of partitions, whatever order they came in."""


class GroupStatus(NamedTuple):
    """A group after an operation, as the operation's last event tells it."""

    group_type: GroupType
    state: GroupState
    epoch: int
    member_count: int
    at_ms: int
    partition: int
    offset: int


class Step(NamedTuple):
    """One operation, and the group as it is after it.

    Attributes:
        events: what happened; nothing at the end of the log, where what is open is told as it stands.
        kinds: their kinds.
        now: the group after it.
        members: who is in the group, and what it has.
        ownership: which partitions they own, and which nobody does.
    """

    events: Sequence[Event]
    kinds: frozenset[EventKind]
    now: GroupStatus
    members: Mapping[str, MemberInterval]
    ownership: Ownership
    topics: Topics
    limits: Thresholds

    @property
    def is_end(self) -> bool:
        """Nothing follows."""
        return not self.events


class Memory:
    """What one rule remembers of one group.

    Attributes:
        notes: plain data, the rule's own.
        open: observations that are not over, by a name the rule gives them.
    """

    __slots__ = ("notes", "open")

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {}
        self.open: dict[str, Observation] = {}

    def since(self, name: str, at_ms: int) -> int:
        """When an open observation began; the moment given, where none is open."""
        known = self.open.get(name)
        return at_ms if known is None or known.first_ms is None else known.first_ms

    def begin(self, name: str, observation: Observation) -> None:
        """Open an observation, or tell an open one anew: it keeps its beginning."""
        known = self.open.get(name)
        if known is not None:
            observation = observation._replace(
                subject=known.subject, first_ms=known.first_ms, partition=known.partition, offset=known.offset
            )
        self.open[name] = observation

    def end(self, name: str, at_ms: int) -> Iterator[Observation]:
        """Close an observation; yields it if it has lasted as long as it had to."""
        known = self.open.pop(name, None)
        if known is not None and at_ms - (known.first_ms or 0) >= known.needed_ms:
            yield known._replace(last_ms=at_ms)

    def end_all(self, at_ms: int) -> Iterator[Observation]:
        """Close all that is open."""
        for name in list(self.open):
            yield from self.end(name, at_ms)


GroupRule = Callable[[Step, Memory], Iterator[Observation]]


class Watch:
    """The fold over a group's life for a set of rules."""

    __slots__ = (
        "asked",
        "is_beginning_known",
        "limits",
        "members",
        "members_from",
        "memories",
        "ownership",
        "rules",
        "scope",
        "standing",
        "states",
        "topics",
    )

    def __init__(
        self,
        scope: Scope,
        rules: Sequence[GroupRule],
        members: Members,
        ownership: Ownership,
        topics: Topics,
        limits: Thresholds = DEFAULTS,
    ) -> None:
        self.scope = scope
        self.rules = rules
        self.members = members
        self.ownership = ownership
        self.topics = topics
        self.limits = limits
        self.memories: dict[str, Memory] = {rule.__name__: Memory() for rule in rules}
        self.asked = [*zip(rules, self.memories.values(), strict=True)]
        self.standing: GroupStatus | None = None
        self.members_from: int | None = None
        self.is_beginning_known = False
        self.states = 1

    def fold(self, events: Sequence[Event], at_ms: int) -> Iterator[Row]:
        """Show an operation to the rules, after the folds they look at; yields the observations that are over by it."""
        last = events[-1]
        if self.standing is None:
            self.is_beginning_known = any(event.kind is EventKind.GROUP_CREATED for event in events)
        self.standing = GroupStatus(
            last.group_type, last.to_state, last.epoch, last.member_count, at_ms, last.partition, last.offset
        )
        if self.members_from is None and last.member_count:
            self.members_from = at_ms
        yield from self._states(events, at_ms)
        step = self._step(events, self.standing)
        for rule, memory in self.asked:
            for seen in rule(step, memory):
                yield self._row(seen)

    def open_rows(self) -> Iterator[Row]:
        """The observations that are not over, and the row of the group's status, which rules over offsets look at."""
        step = self._step((), self.standing) if self.standing is not None else None
        for rule, memory in self.asked:
            if step is not None:
                yield from map(self._row, rule(step, memory))
            yield from map(self._row, memory.open.values())
        if step is not None:
            yield evidence_row(self.scope, Evidence.STANDING, self._stands(step.now))

    def _step(self, events: Sequence[Event], now: GroupStatus) -> Step:
        kinds = frozenset([event.kind for event in events])
        return Step(events, kinds, now, self.members.stays, self.ownership, self.topics, self.limits)

    def rebalance(self, told: Mapping[str, Any]) -> Row:
        """A rebalance as evidence.

        Args:
            told: its row of ``rebalances``.
        """
        is_over = told["completed_at"] is not None
        at = told["completed_at"] if is_over else told["started_at"]
        # A classic rebalance has no beginning on record: this is when it had begun at the latest.
        started_at = told["started_at"] if told["started_at"] is not None else at - told["duration_ms_min"]
        row = {
            "at": at,
            "is_over": is_over,
            "rebalance_id": told["rebalance_id"],
            "epoch": told["epoch"],
            "started_at": started_at,
            "metadata_delay_ms": told["metadata_delay_ms"],
        }
        return evidence_row(self.scope, Evidence.HAPPENING, row, at=at, name="rebalance")

    def _states(self, events: Sequence[Event], at_ms: int) -> Iterator[Row]:
        """Where the group's state or type changed, for the metrics."""
        for event in events:
            if event.from_state is not event.to_state or event.kind is EventKind.GROUP_CONVERTED:
                yield state_row(self.scope, event.group_type, event.to_state, at=at_ms, seq=self.states)
                self.states += 1

    def _stands(self, now: GroupStatus) -> dict[str, Any]:
        """The group at its last record, by the names of topics as far as these are known."""
        shown, ownership = self.topics.shown, self.ownership
        owned = [
            [name, partition, holding.member_id, holding.from_ms]
            for (topic, partition), holders in ownership.holders.items()
            for holding in list(holders.values())[:1]
            for _, name in shown(holding.group_type, topic)
            if name is not None and holding.group_type is not GroupType.SHARE
        ]
        released = [
            [name, partition, gap.holding.member_id, gap.to_ms]
            for (_, partition), gap in ownership.gaps.items()
            for _, name in shown(gap.holding.group_type, gap.topic)
            if name is not None and gap.holding.group_type is not GroupType.SHARE
        ]
        asked = {
            topic
            for stay in self.members.stays.values()
            if stay.member.subscription is not None
            for topic in stay.member.subscription.topics or ()
        }
        return {
            "group_type": str(now.group_type),
            "state": str(now.state),
            "epoch": now.epoch,
            "members": now.member_count,
            "members_from": self.members_from,
            "is_beginning_known": self.is_beginning_known,
            "at": now.at_ms,
            "partition": now.partition,
            "offset": now.offset,
            # An expression is known by what it brought.
            "subscribed": sorted(asked | {entry[0] for entry in owned}),
            "owned": sorted(owned, key=_NAME_AND_OWNER),
            "released": sorted(released, key=_NAME_AND_OWNER),
        }

    def _row(self, observation: Observation) -> Row:
        told = row(self.scope, observation)
        return evidence_row(self.scope, Evidence.SIGHTING, told, name=told["finding_id"], seq=observation.first_ms or 0)

    def snapshot(self) -> dict[str, Any]:
        """What the rules remember, as plain data."""
        return {
            "standing": list(self.standing) if self.standing is not None else None,
            "members_from": self.members_from,
            "is_beginning_known": self.is_beginning_known,
            "states": self.states,
            "memories": {
                name: {"notes": memory.notes, "open": {key: list(seen) for key, seen in memory.open.items()}}
                for name, memory in self.memories.items()
                if memory.notes or memory.open
            },
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Go on from ``snapshot``."""
        self.members_from = plain["members_from"]
        self.is_beginning_known = plain["is_beginning_known"]
        self.states = plain["states"]
        if plain["standing"] is not None:
            group_type, state, *rest = plain["standing"]
            self.standing = GroupStatus(GroupType(group_type), GroupState(state), *rest)
        for name, known in plain["memories"].items():
            memory = self.memories.get(name)
            if memory is not None:
                memory.notes = dict(known["notes"])
                memory.open = {key: _observation(seen) for key, seen in known["open"].items()}


def _observation(plain: Sequence[Any]) -> Observation:
    rule, subject, *rest = plain
    return Observation(rule, tuple(subject), *rest)
