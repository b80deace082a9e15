"""The topics that the members of a group subscribe to.

A partition without an owner matters only if a member of the group subscribes to its topic.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator_replay.analysis.members import Changed
from coordinator_replay.analysis.rows import RecordTopics
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupType, Member

_REGEXES = frozenset({EventKind.REGEX_RESOLVED, EventKind.REGEX_REMOVED})
_TOPICS_CHANGE = frozenset({EventKind.TOPOLOGY_CHANGED, EventKind.GROUP_CONVERTED})


class Asked(NamedTuple):
    """The topics that one member subscribes to.

    Attributes:
        topics: names of the topics; None if the names are not on record. Each topic is then possible.
        regex: the regular expression to which the member subscribes; empty if the member uses none.
    """

    topics: tuple[str, ...] | None
    regex: str


def _asked(member: Member) -> Asked:
    subscription = member.subscription
    if subscription is None:
        return Asked(None, "")
    topics = () if subscription.topics is None and subscription.regex else subscription.topics
    return Asked(topics, subscription.regex or "")


@dataclass(slots=True)
class Subscriptions:
    """The fold over subscriptions.

    Attributes:
        topics: names of the topics in the group's records.
        members: the subscription of each member.
        regexes: the topics to which regexes were resolved.
        counts: the number of members that subscribe to each topic. The key None stands for members whose
            topics are not on record.
        expressions: number of members that subscribe to each regex.
        kinds: number of members with each subscription.
        has_changed: whether the last operation changed any of these fields.
    """

    topics: RecordTopics
    members: dict[str, Asked] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    counts: Counter[str | None] = field(default_factory=Counter)
    expressions: Counter[str] = field(default_factory=Counter)
    kinds: Counter[Asked] = field(default_factory=Counter)
    has_changed: bool = False

    def fold(self, events: Sequence[Event], changed: Changed) -> None:
        """Apply the changes of subscriptions in one operation."""
        self.has_changed = False
        for event in events:
            if event.kind in _REGEXES:
                self._resolve(event)
            self.has_changed |= event.kind in _TOPICS_CHANGE
        for member_id, (member, _) in changed.items():
            self._set(member_id, None if member is None else _asked(member))

    def begin(self, members: Iterable[Member]) -> None:
        """Begin with the subscriptions of the present members."""
        self.members, self.counts, self.expressions, self.kinds = {}, Counter(), Counter(), Counter()
        for member in members:
            self._set(member.member_id, _asked(member))

    def is_wanted(self, group_type: GroupType, key: str) -> bool:
        """Return whether a member subscribes to a topic, or may do so.

        A topic without a known name is wanted as long as the group has members, because no record shows that the
        members unsubscribed from the topic.

        Args:
            group_type: the type of the group whose records name the topic.
            key: the name or id of the topic in these records.
        """
        if not self.members:
            return False
        if group_type is GroupType.STREAMS:
            return not self.topics.sources or key in self.topics.sources
        if self.counts[None]:
            return True
        return any(name is None or self._is_subscribed(name) for _, name in self.topics.shown(group_type, key))

    def named(self) -> set[str]:
        """Return the names of the topics that any member is known to subscribe to."""
        resolved = (self.regexes.get(regex, ()) for regex in self.expressions)
        return {name for name in self.counts if name is not None}.union(*resolved)

    def of(self, member_id: str) -> frozenset[str]:
        """Return the names of the topics that a member is known to subscribe to."""
        asked = self.members.get(member_id)
        return frozenset() if asked is None else self._known(asked)

    def _known(self, asked: Asked) -> frozenset[str]:
        return frozenset((*(asked.topics or ()), *self.regexes.get(asked.regex, ())))

    def disjoint_topics(self) -> list[frozenset[str]]:
        """Return sets of topics such that no member subscribes to topics of two sets.

        Return an empty list if the topics of a member are not on record, or its regex was not resolved. Members without
        a topic don't count.
        """
        if self.counts[None] or any(regex not in self.regexes for regex in self.expressions):
            return []
        sets: list[frozenset[str]] = []
        for asked in self.kinds:
            topics = self._known(asked)
            if not topics:
                continue
            joined = [other for other in sets if not topics.isdisjoint(other)]
            sets = [*(other for other in sets if topics.isdisjoint(other)), topics.union(*joined)]
        return sets

    def _is_subscribed(self, name: str) -> bool:
        if self.counts[name]:
            return True
        resolved = (self.regexes.get(regex) for regex in self.expressions)
        return any(topics is None or name in topics for topics in resolved)

    def _resolve(self, event: Event) -> None:
        regex, (_, topics) = event.changes["regex"], event.changes["topics"]
        self.has_changed = True
        if topics is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = tuple(topics)

    def _set(self, member_id: str, asked: Asked | None) -> None:
        before = self.members.get(member_id)
        if before == asked:
            return
        self.has_changed = True
        self._count(before, -1)
        self._count(asked, 1)
        if asked is None:
            del self.members[member_id]
        else:
            self.members[member_id] = asked

    def _count(self, asked: Asked | None, step: int) -> None:
        if asked is None:
            return
        _add(self.kinds, asked, step)
        for topic in (None,) if asked.topics is None else set(asked.topics):
            _add(self.counts, topic, step)
        if asked.regex:
            _add(self.expressions, asked.regex, step)


def _add(counts: Counter[Any], key: object, step: int) -> None:
    counts[key] += step
    if not counts[key]:
        del counts[key]
