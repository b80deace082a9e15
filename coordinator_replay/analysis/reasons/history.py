"""Facts of a group's earlier records that are kept to find the reason when a rebalance begins.

The history is small: an entry for each present member, a few entries for removed members, an entry for each partition.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from coordinator_replay.analysis.reasons.signs import SIGNS_WITHIN_MS
from coordinator_replay.analysis.rows import RecordTopics
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import UNKNOWN_TIMEOUT, GroupType, Member, Subscription
from coordinator_replay.engine.plain import Fields
from coordinator_replay.times import time_order

# Looked up once, because every event needs it.
RECONCILED = EventKind.MEMBER_RECONCILED

KEPT_DEPARTURES = 64
"""Number of departed members that are remembered."""

OWN_DOING = frozenset(
    {
        EventKind.MEMBER_JOINED,
        EventKind.MEMBER_REPLACED,
        EventKind.MEMBER_REJOINED,
        EventKind.MEMBER_AWAY,
        EventKind.MEMBER_RECONCILING,
        EventKind.MEMBER_RECONCILED,
        EventKind.SUBSCRIPTION_CHANGED,
        EventKind.METADATA_CHANGED,
    }
)
"""Events that only a request of the member itself causes. They prove that the member was alive."""


class Sign(NamedTuple):
    """A time at which a member was certainly alive, and the record that shows it."""

    at_ms: int | None
    partition: int
    offset: int

    @property
    def order(self) -> tuple[int, int, int]:
        """Return the sort key of the sign among signs of its group."""
        return time_order(self.at_ms), self.partition, self.offset


_ORDER = attrgetter("order")


class Conversion(NamedTuple):
    """A change of a group's type, with the position of the change's first record.

    Attributes:
        old: the group's type before.
        new: the group's type after.
        has_tombstone: whether a tombstone of the old type is on record. Without a tombstone, Kafka may have forgotten
            the old group and begun a new one.
    """

    old: str
    new: str
    partition: int
    offset: int
    at_ms: int | None
    has_tombstone: bool

    @classmethod
    def of(cls, event: Event, at_ms: int | None) -> "Conversion":
        """Return the conversion that an event reports."""
        old, new = event.changes["group_type"]
        has_tombstone = "has_no_tombstone" not in event.changes
        return cls(str(old), str(new), event.partition, event.offset, at_ms, has_tombstone)


class Departed(NamedTuple):
    """Facts about a removed member that show whether the same client returns later.

    Attributes:
        protocol: the chosen protocol of a classic member.
        version: version of the member's metadata for this protocol.
        timeout_ms: the larger one of the member's session timeout and rebalance timeout.
        rebalance_ms: the member's rebalance timeout, which is the client's max.poll.interval.ms; None if the record has
            none.
        left_ms: time of the removal.
        partition: log partition of the record that removed the member.
        offset: log offset of this record.
        seen_ms: time of the member's last sign of life; None if it is not on record.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    uses_classic_protocol: bool
    protocol: str | None
    version: int | None
    timeout_ms: int
    rebalance_ms: int | None
    left_ms: int | None
    partition: int
    offset: int
    seen_ms: int | None


class Waiting(NamedTuple):
    """A member whose regex is not resolved yet.

    Attributes:
        has_joined: whether the member joined with the regex; False if it changed its subscription to the regex.
        offset: log offset of the record of the join or the change.
    """

    regex: str
    has_joined: bool
    offset: int


@dataclass(slots=True)
class GroupHistory:
    """Facts about one group's past, for finding the causes of its rebalances.

    Attributes:
        topics: names of the topics in the group's records.
        seen: each member's last sign of life in its own records, as the fields of a ``Sign``.
        synced: the end of the last join phase of a classic group, at which all its members were alive.
        departed: members that were removed, oldest first.
        waiting: members whose regex is not resolved yet.
        regex_topics: topics of each resolved regex.
        partition_counts: for each topic, the number of partitions that generations of a classic group are known to have
            assigned.
        is_new_life: whether the group was created and has not rebalanced yet.
        conversion: the group's last conversion; None if there was none, or if a rebalance has begun since then.
        converted_ms: when the group was last converted.
        twins: members that joined while another member had the same client id and host, each with the record of the
            join.
        ready_at: log partition and log offset at which partitions of a share group became ready. None if no partitions
            became ready, or if a rebalance has begun since then.
        rebalanced_ms: time at which the last rebalance began; None if the group had no rebalance, or if the rebalance
            has no time.
        join_reason: the join reason of the last rebalance.
        commits: for each partition, the last commit that ``count_commits`` has counted as a sign of life.
        newer_commits: commits that ``count_commits`` has not counted yet. Each entry has the log offset of the group's
            next record after the commits, and the commits by partition.
    """

    topics: RecordTopics
    seen: dict[str, tuple[int | None, int, int]] = field(default_factory=dict)
    synced: Sign | None = None
    departed: list[Departed] = field(default_factory=list)
    twins: dict[str, Sign] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    regex_topics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    partition_counts: dict[str, int] = field(default_factory=dict)
    is_new_life: bool = False
    conversion: Conversion | None = None
    converted_ms: int | None = None
    ready_at: tuple[int, int] | None = None
    rebalanced_ms: int | None = None
    join_reason: str = "unknown"
    commits: dict[tuple[str, int], Sign] = field(default_factory=dict)
    newer_commits: list[tuple[int, dict[tuple[str, int], Sign]]] = field(default_factory=list)

    @property
    def has_commits(self) -> bool:
        """Return whether there is a commit that counts as a sign of life."""
        return bool(self.commits)

    def last_seen(self, member_id: str) -> Sign | None:
        """Return a member's last sign of life in the group's own records.

        If no such record is about this member alone, return ``synced``: the end of the last join phase.
        """
        own = self.seen.get(member_id)
        return self.synced if own is None else Sign(*own)

    def take_signs(self, confirmed: "GroupHistory", before: "GroupHistory") -> None:
        """Take the signs of life from two other histories of the group.

        Args:
            confirmed: the history made from the records that a newer dump still has. All signs of life but commits come
                from it.
            before: the history up to the first missing record. The commits come from it.
        """
        self.seen, self.synced = dict(confirmed.seen), confirmed.synced
        self.commits, self.newer_commits = before.commits, before.newer_commits

    def heed(self, before_offset: int, commits: Iterable[tuple[str, int, Sign]]) -> None:
        """Keep the last commit of each partition before the next record.

        Args:
            before_offset: log offset of the group's next record.
            commits: the last commit of each partition, with topic and partition number.
        """
        newer = {(topic, number): sign for topic, number, sign in commits if self._is_newer((topic, number), sign)}
        if newer:
            self.newer_commits.append((before_offset, newer))

    def _is_newer(self, partition: tuple[str, int], sign: Sign) -> bool:
        last = next(
            (commits[partition] for _, commits in reversed(self.newer_commits) if partition in commits),
            self.commits.get(partition),
        )
        return last is None or sign.offset > last.offset

    def count_commits(self, up_to_offset: int, at_ms: int | None) -> None:
        """Count the commits before the present operation as signs of life, and drop commits that are too old.

        Args:
            up_to_offset: log offset of the present operation.
            at_ms: time of the present operation.
        """
        while self.newer_commits and self.newer_commits[0][0] <= up_to_offset:
            self.commits.update(self.newer_commits.pop(0)[1])
        if at_ms is not None and any(_is_old(sign, at_ms) for sign in self.commits.values()):
            self.commits = {place: sign for place, sign in self.commits.items() if not _is_old(sign, at_ms)}

    def last_sign(self, member: Member, group_type: GroupType) -> Sign | None:
        """Return a member's last sign of life on record.

        A commit of the member's partitions is also a sign of life.
        """
        seen = self.last_seen(member.member_id)
        commit = self.last_commit(self.partitions_of(member, group_type)) if self.commits else None
        if seen is None or commit is None:
            return seen or commit
        return max(seen, commit, key=_ORDER)

    def partitions_of(self, member: Member, group_type: GroupType) -> dict[str, tuple[int, ...]]:
        """Return the partitions that a member owns, by topic name.

        Topics without a known name are left out.
        """
        owned = member.current.owned() if member.current is not None else {}
        return {
            name: partitions
            for topic, partitions in owned.items()
            for _, name in self.topics.shown(group_type, topic)
            if name is not None
        }

    def last_commit(self, partitions: Mapping[str, Sequence[int]], *, other: bool = False) -> Sign | None:
        """Return the last commit of some partitions, or of all other partitions of the group.

        Args:
            partitions: partition numbers by topic name.
            other: whether the other partitions of the group count instead.
        """
        signs = [
            sign for (topic, number), sign in self.commits.items() if (number in partitions.get(topic, ())) is not other
        ]
        return max(signs, default=None, key=_ORDER)

    def watch(self, events: Sequence[Event], at_ms: int | None) -> None:
        """Remember a finished operation, after the reason of its rebalance was inferred."""
        for event in events:
            kind, member = event.kind, event.member
            if member is not None and kind in OWN_DOING:
                # A plain tuple is made faster than a Sign, and nearly every record of a group makes one.
                self.seen[member.member_id] = (at_ms, event.partition, event.offset)
                if kind is not RECONCILED:
                    self._wait(event, member)
            else:
                remember = _REMEMBERED.get(kind)
                if remember is not None:
                    remember(self, event, at_ms)

    def begin(
        self,
        started_ms: int | None,
        join_reason: str,
        returned: Collection[str],
        asking: Collection[str],
        twins: Mapping[str, Sign],
    ) -> None:
        """Remember that a rebalance began with the last operation.

        Args:
            started_ms: time at which the rebalance began.
            join_reason: join reason of the rebalance.
            returned: ids of removed members whose clients have come back.
            asking: members that joined or changed their subscription in the last operation. The coordinator may not
                have resolved their regex yet.
            twins: members that joined in the rebalance while another member had the same client id and host.
        """
        self.rebalanced_ms = started_ms
        self.join_reason = join_reason
        self.conversion, self.ready_at, self.is_new_life = None, None, False
        for member_id in asking:
            self.waiting.pop(member_id, None)
        if returned:
            self.departed = [departure for departure in self.departed if departure.member_id not in returned]
            self.twins = {member_id: sign for member_id, sign in self.twins.items() if member_id not in returned}
        self.twins.update(twins)

    def _wait(self, event: Event, member: Member) -> None:
        member_id, subscription = member.member_id, member.subscription
        if event.before is not None and event.before.member_id != member_id:
            self.seen.pop(event.before.member_id, None)
        if subscription is None or not subscription.regex:
            self.waiting.pop(member_id, None)
        elif event.kind not in (EventKind.MEMBER_JOINED, EventKind.SUBSCRIPTION_CHANGED):
            return
        elif subscription.regex not in self.regex_topics and member_id not in self.waiting:
            self.waiting[member_id] = Waiting(subscription.regex, event.kind is EventKind.MEMBER_JOINED, event.offset)

    def _left(self, event: Event, at_ms: int | None) -> None:
        member = event.before or event.member
        if member is None:
            return
        self.departed.append(departed(member, event, at_ms, self.last_sign(member, event.group_type)))
        del self.departed[:-KEPT_DEPARTURES]
        self.seen.pop(member.member_id, None)
        self.waiting.pop(member.member_id, None)
        self.twins.pop(member.member_id, None)

    def _created(self, event: Event, at_ms: int | None) -> None:
        self.is_new_life = True
        self.departed, self.seen, self.waiting, self.twins = [], {}, {}, {}
        self.regex_topics, self.partition_counts, self.synced = {}, {}, None

    def _converted(self, event: Event, at_ms: int | None) -> None:
        self.conversion, self.converted_ms = Conversion.of(event, at_ms), at_ms

    def _resolved(self, event: Event, at_ms: int | None) -> None:
        regex = event.changes["regex"]
        topics = event.changes["topics"][1]
        if topics is None:
            self.regex_topics.pop(regex, None)
            return
        self.regex_topics[regex] = tuple(topics)
        self.waiting = {member_id: waiting for member_id, waiting in self.waiting.items() if waiting.regex != regex}

    def _ready(self, event: Event, at_ms: int | None) -> None:
        self.ready_at = (event.partition, event.offset)

    def _synced(self, event: Event, at_ms: int | None) -> None:
        if event.group_type is not GroupType.CLASSIC:
            return
        joined_ms = event.changes.get("join_done_ms")
        # All members had joined at the end of the join phase. The record came later, and does not show who synced.
        self.synced = Sign(at_ms if joined_ms is None else joined_ms, event.partition, event.offset)
        self.seen = dict(self._seen_of_static(event))
        counts = self.partition_counts
        subscribed = {topic for member in event.members for topic in topics_of(member)}
        covered = coverage(event.members)
        self.partition_counts = {
            topic: max(counts.get(topic, 0), max(covered.get(topic, ()), default=-1) + 1)
            for topic in sorted({*counts, *covered})
            if topic in subscribed
        }

    def _seen_of_static(self, event: Event) -> Iterator[tuple[str, tuple[int | None, int, int]]]:
        """Yield each static member of a generation, with the fields of its last sign of life (see ``Sign``).

        Args:
            event: the event about the generation.
        """
        for member in event.members:
            if member.instance_id is not None:
                seen = self.seen.get(member.member_id, (None, event.partition, event.offset))
                is_new = seen[0] is not None and seen[1:] == (event.partition, event.offset)
                yield member.member_id, (self.synced or Sign(*seen)) if is_new else seen


FIELDS = Fields(
    GroupHistory,
    *("seen", "synced", "departed", "waiting", "regex_topics", "twins", "partition_counts", "is_new_life"),
    *("conversion", "converted_ms", "ready_at", "rebalanced_ms", "join_reason", "commits", "newer_commits"),
)
"""Fields that a snapshot has."""

_REMEMBERED = {
    EventKind.MEMBER_LEFT: GroupHistory._left,
    EventKind.GROUP_CREATED: GroupHistory._created,
    EventKind.GROUP_CONVERTED: GroupHistory._converted,
    EventKind.REGEX_RESOLVED: GroupHistory._resolved,
    EventKind.REGEX_REMOVED: GroupHistory._resolved,
    EventKind.SHARE_STATE_CHANGED: GroupHistory._ready,
    EventKind.REBALANCE_COMPLETED: GroupHistory._synced,
}


def _is_old(sign: Sign, at_ms: int) -> bool:
    """Return whether a commit was made too long before a record to count as a sign of life."""
    return sign.at_ms is None or at_ms - sign.at_ms > SIGNS_WITHIN_MS


def departed(member: Member, event: Event, at_ms: int | None, seen: Sign | None) -> Departed:
    """Return the facts that are kept about a removed member.

    Args:
        member: the member before its removal.
        event: the event of the removal.
        at_ms: time of the removal.
        seen: the member's last sign of life.
    """
    subscription = member.subscription_or_empty
    return Departed(
        member.member_id,
        subscription.instance_id,
        subscription.client_id,
        subscription.client_host,
        subscription.uses_classic_protocol,
        *chosen(subscription),
        max(subscription.session_timeout_ms or 0, subscription.loaded_rebalance_ms),
        None if subscription.rebalance_timeout_ms == UNKNOWN_TIMEOUT else subscription.rebalance_timeout_ms,
        at_ms,
        event.partition,
        event.offset,
        None if seen is None else seen.at_ms,
    )


def chosen(subscription: Subscription) -> tuple[str | None, int | None]:
    """Return the name of a classic member's chosen protocol, and the version of the member's metadata for it."""
    if not subscription.protocols:
        return None, None
    first = subscription.protocols[0]
    return first.name, (first.fields or {}).get("version")


def topics_of(member: Member) -> tuple[str, ...]:
    """Return the topics that a member subscribes to by name."""
    return (member.subscription.topics if member.subscription is not None else None) or ()


def coverage(members: Iterable[Member]) -> dict[str, set[int]]:
    """Return all partitions that these members of a classic group are assigned, by topic."""
    covered: dict[str, set[int]] = {}
    for member in members:
        if member.current is not None:
            for topic, partitions in (member.current.assigned or {}).items():
                covered.setdefault(topic, set()).update(partitions)
    return covered
