"""The input of a rule: the facts known when a rebalance begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from coordinator_replay.analysis.reasons.facts import Place
from coordinator_replay.analysis.reasons.history import Departed, GroupHistory, coverage, departed, topics_of
from coordinator_replay.analysis.reasons.topic_changes import DatedTopicChange, TopicChanges, between
from coordinator_replay.analysis.rows import RecordTopics
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupType, Member, Subscription


@dataclass(eq=False)
class Situation:
    """A rebalance that begins, with the operation that shows it, and the state before this operation.

    Attributes:
        events: the events of the operation.
        opening: the event that opens the rebalance.
        at_ms: when the operation was appended; None before the group's first record with a time.
        started_ms: start of the rebalance; for a classic rebalance, the end of the join phase.
        before: members before the operation.
        unrevoked_since: for each member that must give up partitions, the time since which it has kept them.
        history: facts of earlier records.
        topics: names of the topics in the group's records.
        topic_changes: when topics changed, as far as known.
        left: the events about removed members.
        resolved: the events about resolved regexes.
        joined: members that joined, each with the log offset of its record. A member that joined earlier counts too, if
            the coordinator resolved its regex only in this operation.
        resubscribed: members that changed their subscription. Each entry has the old subscription, the member after the
            change, and the log offset of the record.
    """

    events: Sequence[Event]
    opening: Event
    at_ms: int | None
    started_ms: int | None
    before: Mapping[str, Member]
    unrevoked_since: Mapping[str, int | None]
    history: GroupHistory
    topics: RecordTopics
    topic_changes: TopicChanges

    def __post_init__(self) -> None:
        """Group the events by kind."""
        self._by_kind: dict[EventKind, list[Event]] = {}
        for event in self.events:
            self._by_kind.setdefault(event.kind, []).append(event)
        self.left = self.of_kind(EventKind.MEMBER_LEFT)
        self.resolved = self.of_kind(EventKind.REGEX_RESOLVED)
        self.joined = self._joined()
        self.resubscribed = self._resubscribed()

    @property
    def group_type(self) -> GroupType:
        """Return the group's type."""
        return self.opening.group_type

    @property
    def removed_ms(self) -> int | None:
        """Return the latest time at which the members in ``left`` can have been removed."""
        return self.started_ms if self.group_type is GroupType.CLASSIC else self.at_ms

    def of_kind(self, kind: EventKind) -> Sequence[Event]:
        """Return the operation's events of a kind."""
        return self._by_kind.get(kind, ())

    @property
    def is_beginning_unseen(self) -> bool:
        """Return whether the log lacks the state of the group before this operation."""
        return EventKind.GROUP_DISCOVERED in self._by_kind or EventKind.GROUP_REBORN in self._by_kind

    def is_of_this_operation(self, departed: Departed) -> bool:
        """Return whether this operation, and not an earlier one, removed a member."""
        return any((event.partition, event.offset) == (departed.partition, departed.offset) for event in self.left)

    def _joined(self) -> list[tuple[Member, int]]:
        now = [(event.member, event.offset) for event in self.of_kind(EventKind.MEMBER_JOINED) if event.member]
        return [*now, *self._resolved_now(has_joined=True)]

    def _resubscribed(self) -> list[tuple[Subscription, Member, int]]:
        changes = [
            (event.before.subscription_or_empty, event.member, event.offset)
            for event in self.of_kind(EventKind.SUBSCRIPTION_CHANGED)
            if event.before is not None and event.member is not None
        ]
        return [*changes, *((Subscription(), *resolved) for resolved in self._resolved_now(has_joined=False))]

    def _resolved_now(self, *, has_joined: bool) -> list[tuple[Member, int]]:
        """Return the members whose topic regex the coordinator resolved to topics in this operation.

        Args:
            has_joined: True for members that joined with the regex. False for members that changed their subscription
                to the regex.
        """
        if not self.resolved or not self.history.waiting:
            return []
        regexes = {event.changes["regex"] for event in self.resolved}
        return [
            (self.before[member_id], waiting.offset)
            for member_id, waiting in self.history.waiting.items()
            if waiting.has_joined is has_joined and waiting.regex in regexes and member_id in self.before
        ]

    @cached_property
    def departed(self) -> list[Departed]:
        """Return members that were removed in this operation or earlier and may have come back in this operation."""
        now = [
            departed(member, event, self.at_ms, self.history.last_sign(member, event.group_type))
            for event in self.left
            if (member := event.before or event.member) is not None
        ]
        return [*self.history.departed, *now]

    @cached_property
    def subscribed(self) -> set[str]:
        """Return the topics that the group reads, by name, as far as known."""
        members = {**self.before, **{member.member_id: member for member, _ in self.joined}}
        members |= {event.member.member_id: event.member for event in self.events if event.member is not None}
        members |= {member.member_id: member for member in self.opening.members}
        topic_names = {topic for member in members.values() for topic in topics_of(member)}
        for topics in (*self.history.regex_topics.values(), *self.topics.sources.values()):
            topic_names.update(topics)
        for event in self.resolved:
            topic_names.update(event.changes["topics"][1] or ())
        return topic_names

    @cached_property
    def covered_before(self) -> dict[str, set[int]]:
        """Return the partitions that a classic group's last generation assigned, by topic."""
        return coverage(self.before.values())

    @cached_property
    def covered_after(self) -> dict[str, set[int]]:
        """Return the partitions that the new generation assigns, by topic."""
        return coverage(self.opening.members)

    @cached_property
    def last_sync_ms(self) -> int | None:
        """Return the end of the last join phase of a classic group.

        If no join phase is on record, return the beginning of the last rebalance.
        """
        return self.history.synced.at_ms if self.history.synced is not None else self.history.rebalanced_ms

    def changes_since(self, topics: set[str]) -> list[tuple[str, DatedTopicChange]]:
        """Return changes of these topics since the previous rebalance and up to this rebalance, each with its topic."""
        after_ms = self.last_sync_ms if self.group_type is GroupType.CLASSIC else self.history.rebalanced_ms
        return between(self.topic_changes, sorted(topics), after_ms, self.started_ms)

    def place(self, offset: int | None = None, partition: int | None = None) -> Place:
        """Return a position in the log.

        If an argument is None, use the position of the record that opens the rebalance.

        Args:
            offset: the log offset.
            partition: the log partition.
        """
        return Place(
            self.opening.partition if partition is None else partition,
            self.opening.offset if offset is None else offset,
        )
