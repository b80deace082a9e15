"""The group coordinator of one log partition: requests and time go in, responses and records come out.

Rules of this package:

- No I/O, no clock, no threads, no randomness: time is given, member ids are counted.
- The engine keeps the state that follows from records. It replays every record as soon as the record is written. Only
  records change this state.
- One operation runs at a time. An operation reads the state, checks the state, and returns an ``Outcome`` with records
  and a response. A failed check raises ``RequestError``, and nothing changes.

``HANDLERS`` has a function for each request: it takes the shard, the request and a ``Reply``, and returns an
``Outcome``. A request that has to wait is answered later, by a call of ``Reply.send``. ``Shard.schedule`` sets a timer
for an operation. ``Coordinator`` itself handles changes of topics and reloads.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.coordinator import group_metadata_manager
from coordinator_replay.simulation.coordinator.classic import members
from coordinator_replay.simulation.coordinator.config import Config
from coordinator_replay.simulation.coordinator.consumer import describe, heartbeat, timers
from coordinator_replay.simulation.coordinator.draft import client_assignment
from coordinator_replay.simulation.coordinator.messages import Request, complete
from coordinator_replay.simulation.coordinator.offsets import commit, expiration, fetch
from coordinator_replay.simulation.coordinator.operations import Outcome, Reply, Result
from coordinator_replay.simulation.coordinator.shard import Shard
from coordinator_replay.simulation.coordinator.state_dump import dump
from coordinator_replay.simulation.coordinator.topics import Topic, Topics
from coordinator_replay.simulation.coordinator.truth import LOADING, Observer, ignore, request_trigger

Handler = Callable[[Shard, Request, Reply], Outcome]

HANDLERS: Mapping[str, Handler] = {
    "ConsumerGroupHeartbeat": heartbeat.heartbeat,
    "ConsumerGroupDescribe": describe.describe,
    "JoinGroup": group_metadata_manager.join_group,
    "SyncGroup": group_metadata_manager.sync_group,
    "Heartbeat": group_metadata_manager.heartbeat,
    "LeaveGroup": group_metadata_manager.leave_group,
    "ListGroups": group_metadata_manager.list_groups,
    "DeleteGroups": group_metadata_manager.delete_groups,
    "DescribeGroups": members.describe_groups,
    "OffsetCommit": commit.commit,
    "TxnOffsetCommit": commit.commit_in_transaction,
    "OffsetFetch": fetch.fetch,
    "OffsetDelete": fetch.delete,
}
"""The function that handles each request."""

DRAFT_HANDLERS: Mapping[str, Handler] = {
    **HANDLERS,
    "ConsumerGroupHeartbeat": client_assignment.heartbeat,
    "PrepareAssignment": client_assignment.prepare,
    "InstallAssignment": client_assignment.install,
}
"""The functions that handle requests if assignment by clients is configured."""


class Coordinator:
    """Kafka's group coordinator for the groups of one partition of ``__consumer_offsets``."""

    def __init__(
        self,
        config: Config | None = None,
        topics: Iterable[Topic] = (),
        *,
        now_ms: int = 0,
        observer: Observer = ignore,
    ) -> None:
        """Begin with an empty log.

        Args:
            config: settings; Kafka's defaults if None.
            topics: the topics of the cluster.
            now_ms: time at the beginning, ms since the epoch.
            observer: function that gets an ``Event`` for each written batch, started rebalance, raised group epoch and
                removed member.

        Raises:
            UsageError: the topics contradict each other.
        """
        present = tuple(topics)
        image = Topics(present, version=1 if present else 0)
        self._shard = Shard(config or Config(), image, now_ms, observer=observer)
        self._load()

    @property
    def now_ms(self) -> int:
        """Return the present time."""
        return self._shard.now_ms

    @property
    def end_offset(self) -> int:
        """Return the log offset of the next record."""
        return self._shard.end_offset

    @property
    def topics(self) -> Topics:
        """Return the present topics."""
        return self._shard.topics

    @property
    def next_due_ms(self) -> int | None:
        """Return when the next timer fires; None if no timer runs."""
        return self._shard.timers.next_at()

    def handle(self, request: Request, at_ms: int) -> list[Result]:
        """Fire the timers that are due by the time of the request, then handle the request.

        Returns:
            Batches written and responses sent, in order; the request's own answer may come later.

        Raises:
            UsageError: the request is malformed, or time goes back; nothing changes.
        """
        full = complete(request, is_draft=self._shard.config.client_assignors)
        self._check_time(at_ms)
        handlers = DRAFT_HANDLERS if self._shard.config.client_assignors else HANDLERS
        handler, shard = handlers[full.api], self._shard
        if at_ms != shard.now_ms:
            shard.advance(at_ms)
        reply = Reply(full, shard.send)
        shard.run(lambda: handler(shard, full, reply), request_trigger(full), reply)
        shard.run_due()
        return self._taken()

    def advance(self, to_ms: int) -> list[Result]:
        """Let time pass up to ``to_ms``, and fire the timers that are due by then, in Kafka's order.

        Raises:
            UsageError: time goes back; nothing changes.
        """
        self._check_time(to_ms)
        self._shard.advance(to_ms)
        return self._taken()

    def update_topics(self, topics: Iterable[Topic], at_ms: int) -> list[Result]:
        """Replace the topics of the cluster.

        The coordinator reacts to each topic that was created, changed or deleted.

        Raises:
            UsageError: the topics contradict each other, or time goes back; nothing changes.
        """
        shard = self._shard
        self._check_time(at_ms)
        new, change = shard.topics.followed_by(topics)
        shard.advance(at_ms)
        shard.topics = new
        timers.topics_changed(shard, change)
        expiration.topics_changed(shard, change)
        shard.run_due()
        return self._taken()

    def set_group_config(self, group_id: str, settings: Mapping[str, Any]) -> None:
        """Give a group settings of its own.

        Names are Kafka's (``consumer.session.timeout.ms``, …).

        Raises:
            UsageError: a setting is unknown or not allowed; nothing changes.
        """
        self._shard.config.set_group(group_id, settings)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, committed: bool, at_ms: int) -> list[Result]:
        """End a producer's transaction with a control record.

        Raises:
            UsageError: time goes back; nothing changes.
        """
        self._check_time(at_ms)
        self._shard.advance(at_ms)
        self._shard.write_marker(producer_id, producer_epoch, committed=committed)
        self._shard.run_due()
        return self._taken()

    def hold_jobs(self, *, hold: bool) -> list[Result]:
        """Postpone background jobs (the resolution of regular expressions), or let postponed jobs run.

        Returns:
            The results of the jobs that ran.
        """
        self._shard.jobs_are_on_hold = hold
        self._shard.run_due()
        return self._taken()

    def reload(self) -> list[Result]:
        """Load the log partition again, as a new leader does.

        State that is not on record is lost, and timers start again.
        """
        group_metadata_manager.unload(self._shard)
        self._shard.forget_soft_state()
        self._load()
        self._shard.run_due()
        return self._taken()

    def replay(self, group_id: str) -> StateReplay:
        """Return the state and the offsets of a group, as the engine replays them from the records written so far.

        If the group has no records, the result has no members and no offsets.
        """
        return self._shard.replays.get(group_id) or StateReplay(group_id)

    def timers(self) -> dict[str, int]:
        """Return the milliseconds until each running timer fires.

        The key is Kafka's name for the timer, such as ``session-timeout-GROUP-MEMBER``.
        """
        return self._shard.timers.remaining(self._shard.now_ms)

    def dump(self) -> dict[str, Any]:
        """Return the inner state of all groups, including state that no record has."""
        return dump(self._shard)

    def _load(self) -> None:
        self._shard.trigger = LOADING
        for group_id in self._shard.group_ids():
            timers.load_group(self._shard, group_id)
            group_metadata_manager.load_group(self._shard, group_id)
        timers.load(self._shard)
        expiration.load(self._shard)

    def _check_time(self, at_ms: int) -> None:
        if at_ms < self._shard.now_ms:
            raise UsageError(f"time goes back: it is {self._shard.now_ms}, not {at_ms}")

    def _taken(self) -> list[Result]:
        results, self._shard.results = self._shard.results, []
        return results
