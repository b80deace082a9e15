"""One group from records to rows: the engine, and every fold over its events.

The rows of an interval or a rebalance come out when it is over. ``finish`` gives the rest as it stands at the end of
the log read, with null for the end that is not there yet; a later run that goes on from ``snapshot`` gives those rows
again under the same keys once they are over, or at its own end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from coordinator_replay.analysis.expiry_rules import ExpiryRules
from coordinator_replay.analysis.findings.group_rules import GROUP_RULES
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.findings.watch import Watch
from coordinator_replay.analysis.members import Members, members_after
from coordinator_replay.analysis.ownership import Ownership
from coordinator_replay.analysis.reasons import NO_CHANGES, Sign, TopicChanges
from coordinator_replay.analysis.rebalances import Rebalances
from coordinator_replay.analysis.rows import ENCODE, Row, Scope, Topics
from coordinator_replay.analysis.timeline import Timeline
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.engine.replay import Replay
from coordinator_replay.errors import SnapshotError

VERSION = 5

# Looked up once: it stands in the way of every event.
TOPOLOGY_CHANGED = EventKind.TOPOLOGY_CHANGED


def has_lived(snapshot: Mapping[str, Any]) -> bool:
    """Whether the group of a snapshot has had an event; tombstones of what nobody knows are none."""
    return bool(snapshot["seq"])


class GroupReplay:
    """The life of one group as rows.

    Attributes:
        replay: the engine, for whoever needs the group's state as of the last record.
    """

    __slots__ = (
        "_expiry_rules",
        "_members",
        "_now_ms",
        "_ownership",
        "_rebalances",
        "_scope",
        "_timeline",
        "_topics",
        "_watch",
        "replay",
    )

    def __init__(
        self,
        cluster: str,
        group_id: str,
        topic_names: Mapping[str, str] | None = None,
        topic_changes: TopicChanges = NO_CHANGES,
        limits: Thresholds = DEFAULTS,
        encode: Callable[[Any], str] = ENCODE,
    ) -> None:
        """Begin a group.

        Args:
            cluster: the cluster's name in the tables.
            group_id: the group.
            topic_names: topic name by id, as far as known.
            topic_changes: when topics changed, by name, as far as known.
            limits: from when on something is a finding.
            encode: how JSON is written in cells, see ``Scope``.
        """
        self.replay = Replay(group_id)
        self._scope = Scope(cluster, group_id, encode)
        self._topics = Topics(topic_names or {})
        self._timeline = Timeline(self._scope, self._topics)
        self._members = Members(self._scope, self._topics)
        self._ownership = Ownership(self._scope, self._topics)
        self._rebalances = Rebalances(self._scope, self._topics, self._members, self._ownership, topic_changes)
        self._expiry_rules = ExpiryRules(self._scope)
        self._watch = Watch(self._scope, GROUP_RULES, self._members, self._ownership, self._topics, limits)
        self._now_ms = 0

    def feed(self, record: Record) -> list[Row]:
        """Take the group's next record; returns the rows that are final by it, each with its table's name."""
        rows: list[Row] = []
        for events in self.replay.apply_in_operations(record):
            if events:
                rows.extend(self._fold(events))
        rows.extend(self._expiry_rules.fold(record))
        for _, row in rows:
            row["settled_at_offset"] = record.offset
        return rows

    def heed_commits(self, before_offset: int, commits: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Take the last commits before a record that is fed next, as signs of life; they decide nothing else.

        Args:
            before_offset: the record's offset.
            commits: topic, partition, time, log partition and offset of the last commit of each partition since the
                last record for which commits were given.
        """
        signs = ((topic, number, Sign(at_ms, partition, offset)) for topic, number, at_ms, partition, offset in commits)
        self._rebalances.history.heed(before_offset, signs)

    def feed_marker(self, marker: Marker) -> None:
        """Take a control record; only needed where commits are fed too."""
        self.replay.apply_marker(marker)

    def finish(self) -> Iterator[Row]:
        """End the operation that is still open and give everything that is not over as it stands.

        The records of an operation are appended in one batch, so the end of a log is the end of an operation.
        """
        for name, row in self._open_rows():
            row["settled_at_offset"] = None
            yield name, row

    def _open_rows(self) -> Iterator[Row]:
        events = self.replay.settle()
        if events:
            yield from self._fold(events)
        yield from self._members.open_rows()
        yield from self._ownership.open_rows()
        for name, row in self._rebalances.open_rows():
            yield name, row
            yield self._watch.rebalance(row)
        yield from self._watch.open_rows()

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain data fit for JSON."""
        return {
            "version": VERSION,
            "cluster": self._scope.cluster,
            "replay": self.replay.snapshot(),
            "seq": self._timeline.seq,
            "now_ms": self._now_ms,
            "sources": {key: list(topics) for key, topics in self._topics.sources.items()},
            "members": self._members.snapshot(),
            "ownership": self._ownership.snapshot(),
            "rebalances": self._rebalances.snapshot(),
            "expiry_rules": self._expiry_rules.snapshot(),
            "findings": self._watch.snapshot(),
        }

    @classmethod
    def restore(
        cls,
        snapshot: Mapping[str, Any],
        topic_names: Mapping[str, str] | None = None,
        topic_changes: TopicChanges = NO_CHANGES,
        limits: Thresholds = DEFAULTS,
        encode: Callable[[Any], str] = ENCODE,
    ) -> "GroupReplay":
        """Go on from a snapshot.

        Raises:
            SnapshotError: it is of a version this release does not know, or damaged.
        """
        version = snapshot.get("version")
        if version != VERSION:
            raise SnapshotError(
                f"group snapshot has version {version!r}, this release reads {VERSION}: "
                "audit again from the beginning of the log"
            )
        try:
            replay = Replay.restore(snapshot["replay"])
            life = cls(snapshot["cluster"], replay.group_id, topic_names, topic_changes, limits, encode)
            life.replay = replay
            life._timeline.seq = snapshot["seq"]
            life._now_ms = snapshot["now_ms"]
            life._topics.sources = {key: tuple(topics) for key, topics in snapshot["sources"].items()}
            life._members.restore(snapshot["members"])
            life._ownership.restore(snapshot["ownership"])
            life._rebalances.restore(snapshot["rebalances"])
            life._expiry_rules.restore(snapshot["expiry_rules"])
            life._watch.restore(snapshot["findings"])
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            raise SnapshotError(f"group snapshot of version {VERSION} is damaged: {cause!r}") from cause
        return life

    def _fold(self, events: Sequence[Event]) -> Iterator[Row]:
        # A coordinator that moved to another broker may be ahead of its successor's clock; intervals never turn back.
        last_ms = self._now_ms
        self._now_ms = at_ms = max(last_ms, events[-1].timestamp_ms)
        for event in events:
            if event.kind is TOPOLOGY_CHANGED:
                sources = event.changes["source_topics"] or {}
                self._topics.sources = {key: tuple(topics) for key, topics in sources.items()}
        rebalance_id = self._rebalances.begin(events, at_ms, last_ms)
        yield from self._timeline.fold(events, rebalance_id)
        changed = members_after(events)
        yield from self._members.fold(events, changed, at_ms)
        yield from self._ownership.fold(events, changed, at_ms, last_ms, rebalance_id)
        for name, row in self._rebalances.end(rebalance_id, at_ms):
            yield name, row
            yield self._watch.rebalance(row)
        yield from self._watch.fold(events, at_ms)
