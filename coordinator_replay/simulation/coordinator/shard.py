"""The state of the coordinator of one log partition, and how operations on it run.

The engine replays every written record, as in an audit of the log. So the state of a group that follows from records is
in the engine's ``StateReplay``. The shard also has the state that is not on record: timers, background jobs, classic
groups during a rebalance, and ``ConsumerState``. Mirrors ``GroupCoordinatorShard`` with ``CoordinatorRuntime``.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.engine.notes import Group
from coordinator_replay.engine.offsets import Offsets
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.java_strings import string_hash
from coordinator_replay.simulation.coordinator.config import Config
from coordinator_replay.simulation.coordinator.errors import IllegalStateError, RequestError, error_response
from coordinator_replay.simulation.coordinator.ids import MemberIds
from coordinator_replay.simulation.coordinator.java_order import TimelineOrder
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.live_groups.consumer_group import ConsumerState
from coordinator_replay.simulation.coordinator.messages import Request, respond
from coordinator_replay.simulation.coordinator.operations import (
    Answer,
    Batch,
    Failure,
    MarkerWritten,
    Outcome,
    Reply,
    Response,
    Result,
)
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.timers import Key, Timers
from coordinator_replay.simulation.coordinator.topics import Topics
from coordinator_replay.simulation.coordinator.truth import (
    LOADING,
    BatchWritten,
    EpochBumped,
    Event,
    MemberRemoved,
    Observer,
    RebalanceStarted,
    Trigger,
    TriggerKind,
    ignore,
    timer_trigger,
)

PARTITION = 0
"""Number of the only log partition of a simulated coordinator."""

RETRY_BACKOFF_MS = 500
"""Time after which the failed operation of a timer is tried again (``CoordinatorTimerImpl``)."""

Operation = Callable[[], Outcome]


@dataclass(slots=True, eq=False)
class Shard:
    """All groups of one log partition.

    Attributes:
        config: the broker's and the groups' settings.
        topics: the topics that exist now.
        now_ms: the time now.
        ids: makes member ids.
        timers: the running timers.
        replays: the state of each group as its records show it, by group id.
        classic_groups: the present state of classic groups, by group id. Use ``group`` to read a group.
        consumer_states: for each consumer group, by group id, the part of its state that is not in ``replays``.
        end_offset: log offset of the next record.
        results: batches and responses that have not been returned to the caller yet.
        jobs_are_on_hold: whether background jobs are postponed.
        observer: function that gets an ``Event`` for each written batch, started rebalance, raised group epoch and
            removed member.
        trigger: the request, timer or change that started the present operation.
    """

    config: Config
    topics: Topics
    now_ms: int
    ids: MemberIds = field(default_factory=MemberIds)
    timers: Timers = field(default_factory=Timers)
    replays: dict[str, StateReplay] = field(default_factory=dict)
    classic_groups: dict[str, LiveClassicGroup] = field(default_factory=dict)
    consumer_states: defaultdict[str, ConsumerState] = field(default_factory=lambda: defaultdict(ConsumerState))
    end_offset: int = 0
    results: list[Result] = field(default_factory=list)
    jobs_are_on_hold: bool = False
    observer: Observer = ignore
    trigger: Trigger = LOADING
    _notes: list[Event | str] = field(default_factory=list)
    _forgotten: dict[str, int] = field(default_factory=dict)
    _fired: Key | None = None
    _group_order: TimelineOrder[str, None] = field(default_factory=lambda: TimelineOrder(string_hash))
    _jobs: deque[tuple[str, Trigger, Callable[[], Operation]]] = field(default_factory=deque)

    # -- the state ---------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group | None:
        """Return the group in its present state; None if there is no such group.

        A classic group comes from memory, a group of another type from its records.
        """
        live = self.classic_groups.get(group_id)
        if live is not None:
            return live
        replay = self.replays.get(group_id)
        if replay is None or group_id in self._forgotten:
            return None
        if isinstance(replay.group, ClassicGroup):
            # A classic group that is only on record starts in the state of its records.
            live = self.classic_groups[group_id] = LiveClassicGroup.loaded(replay.group)
            return live
        return replay.group

    def committed_group(self, group_id: str) -> Group | None:
        """Return the group as read-only requests, such as ListGroups, see it; None if there is no such group."""
        if self._forgotten.get(group_id) == self.end_offset:
            return self.replays[group_id].group
        return self.group(group_id)

    def committed_group_ids(self) -> list[str]:
        """Return the ids of all groups that read-only requests, such as ListGroups, see."""
        forgotten = [group_id for group_id, offset in self._forgotten.items() if offset == self.end_offset]
        return [*self.group_ids(), *forgotten]

    def offsets(self, group_id: str) -> Offsets:
        """Return the committed and pending offsets of a group."""
        replay = self.replays.get(group_id)
        return replay.offsets if replay is not None else Offsets()

    def forget_group(self, group_id: str) -> None:
        """Remove a group from the coordinator's memory, without writing a record.

        The group exists again after its next record, or when the log partition is loaded again.
        """
        self._forgotten[group_id] = self.end_offset

    def group_ids(self) -> list[str]:
        """Return ids of all groups, in the order of Kafka's hash table."""
        for group_id in [other for other in self._group_order if self.group(other) is None]:
            del self._group_order[group_id]
        for group_id in (*self.replays, *self.classic_groups):
            if group_id not in self._group_order and self.group(group_id) is not None:
                self._group_order[group_id] = None
        return list(self._group_order)

    # -- operations --------------------------------------------------------------------------------------------------

    def run(self, operation: Operation, trigger: Trigger, reply: Reply | None = None) -> bool:
        """Run an operation: write its records, then answer.

        Return whether the operation succeeded. It fails if one of its checks raises an error.
        """
        self.trigger = trigger
        self._notes.clear()
        if reply is None:
            return self._run(operation, None)
        reply.is_running = True
        is_done = self._run(operation, reply)
        reply.is_running = False
        if reply.answer is not None:
            self.send(reply.request, reply.answer)
        return is_done

    def _run(self, operation: Operation, reply: Reply | None) -> bool:
        try:
            outcome = operation()
        except RequestError as error:
            if reply is not None:
                reply.send(error)
            return False
        except IllegalStateError as error:
            if reply is not None:
                reply.send(RequestError("UNKNOWN_SERVER_ERROR", str(error)))
            return False
        self.write(outcome.records, outcome.producer)
        if outcome.when_written is not None:
            outcome.when_written()
        if outcome.response is not None and reply is not None:
            reply.send(outcome.response)
        return True

    def write(self, records: Sequence[NewRecord], producer: tuple[int, int] | None = None) -> None:
        """Append records to the log as one batch, and update the groups' state from these records.

        Args:
            records: the records.
            producer: id and epoch of the producer of a transactional batch; None for a batch outside transactions.
        """
        if not records:
            return
        producer_id, producer_epoch = producer if producer is not None else (-1, -1)
        written = []
        touched: dict[str, StateReplay] = {}
        for kind, key, value, value_version in records:
            record = Record(kind, key, value, PARTITION, self.end_offset, self.now_ms, 0, value_version, producer_id)
            self.end_offset += 1
            written.append(record)
            group_id = key["groupId"] if "groupId" in key else key["group"]
            touched[group_id] = self._replay(group_id, record)
        for group_id, replay in touched.items():
            replay.finish()
            if replay.group is None and not replay.offsets:
                del self.replays[group_id]
        self.results.append(Batch(self.now_ms, tuple(written), producer_id, producer_epoch))
        self._tell(written)

    def write_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Append the control record that ends a producer's transaction, and update the groups' offsets from it."""
        marker = Marker(producer_id, committed, PARTITION, self.end_offset, self.now_ms)
        self.end_offset += 1
        for replay in self.replays.values():
            replay.apply_marker(marker)
        self.results.append(MarkerWritten(self.now_ms, marker, producer_epoch))
        trigger = Trigger(TriggerKind.MARKER, "COMMIT" if committed else "ABORT")
        self.observer(BatchWritten(self.now_ms, marker.offset, marker.offset, trigger))

    # -- why ---------------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Note the text that Kafka logs for the present operation.

        If the operation raises the group epoch, the text becomes part of the event's reason (``EpochBumped``).
        """
        self._notes.append(text)

    def note_rebalance(self, live: LiveClassicGroup, reason: str) -> None:
        """Tell the observer that a classic group enters PreparingRebalance."""
        event = RebalanceStarted(
            self.now_ms, live.group_id, live.generation, self.end_offset, live.state, reason, self.trigger
        )
        self.observer(event)

    def note_removal(self, group_id: str, member_id: str, reason: str, *, is_written: bool = False) -> None:
        """Tell the observer that a member is removed.

        Args:
            group_id: the member's group.
            member_id: the member that is removed.
            reason: why the member is removed, as brokers log it.
            is_written: whether to tell the observer only when the records of the operation are written.
        """
        event = MemberRemoved(self.now_ms, group_id, member_id, self.end_offset, reason, self.trigger)
        if is_written:
            self._notes.append(event)
        else:
            self.observer(event)

    def _tell(self, written: Sequence[Record]) -> None:
        """Tell the observer about removed members, raised group epochs, and the written batch, in this order."""
        reason = "; ".join(note for note in self._notes if isinstance(note, str))
        for event in self._notes:
            if not isinstance(event, str):
                self.observer(event)
        for record in written:
            if record.kind == "ConsumerGroupMetadata" and record.value is not None:
                group_id, epoch = record.key["groupId"], record.value["epoch"]
                self.observer(EpochBumped(self.now_ms, group_id, epoch, record.offset, reason, self.trigger))
        self.observer(BatchWritten(self.now_ms, written[0].offset, written[-1].offset, self.trigger))

    # -- time --------------------------------------------------------------------------------------------------------

    def schedule(self, key: Key, delay_ms: int, operation: Operation, *, is_retried: bool = False) -> None:
        """Start a timer that runs an operation after a delay.

        If a timer with this key runs already, the new timer replaces it.

        Args:
            key: the key of the timer.
            delay_ms: time from now until the timer fires; a value below 0 counts as 0.
            operation: the operation to run.
            is_retried: whether to run the operation again after ``RETRY_BACKOFF_MS`` if it fails.
        """
        # An operation may start its own timer again without a delay. The timer then fires a millisecond later, because
        # a broker needs some time, too. For example, Kafka's join timer starts again if only static members are left
        # and none of them joined. Its delay is 0 if the rebalance timeout is 0.
        least_ms = 1 if key == self._fired else 0
        self.timers.set(key, self.now_ms + max(least_ms, delay_ms), self._firing(key, operation, is_retried=is_retried))

    def advance(self, to_ms: int) -> None:
        """Let time pass up to ``to_ms``, and fire each timer that is due by then, at its own time."""
        self.run_due()
        while (timer := self.timers.take_due(to_ms)) is not None:
            self.now_ms = max(self.now_ms, timer.at_ms)
            timer.fire()
            self.run_due()
        self.now_ms = to_ms

    def run_due(self) -> None:
        """Run the operations that are due.

        Background jobs come first, then timers.
        """
        while True:
            if self._jobs and not self.jobs_are_on_hold:
                self._run_job()
                continue
            timer = self.timers.take_due(self.now_ms)
            if timer is None:
                return
            timer.fire()

    def start_job(self, key: str, job: Callable[[], Operation]) -> None:
        """Run a job in the background.

        Args:
            key: name of the job; no job of this name may be running.
            job: function that reads the state, and returns the operation that stores the job's result.
        """
        self._jobs.append((key, self.trigger._replace(kind=TriggerKind.JOB), job))

    def job_is_running(self, key: str) -> bool:
        """Return whether a job with this key is not done yet."""
        return any(key == name for name, _, _ in self._jobs)

    def forget_soft_state(self) -> None:
        """Drop all state that is not on record. A new leader of the log partition would not have this state."""
        self.timers.clear()
        self._jobs.clear()
        self.classic_groups.clear()
        for state in self.consumer_states.values():
            state.forget_soft_state()
        self._forgotten.clear()

    def _firing(self, key: Key, operation: Operation, *, is_retried: bool) -> Callable[[], None]:
        def fire() -> None:
            self._fired = key
            if not self.run(operation, timer_trigger(key)) and is_retried:
                self.schedule(key, RETRY_BACKOFF_MS, operation, is_retried=True)
            self._fired = None

        return fire

    def _run_job(self) -> None:
        _, trigger, job = self._jobs.popleft()
        self.run(job(), trigger)

    def _replay(self, group_id: str, record: Record) -> StateReplay:
        replay = self.replays.get(group_id)
        if replay is None:
            replay = self.replays[group_id] = StateReplay(group_id)
        replay.apply(record)
        if record.kind != "OffsetCommit":
            self._forgotten.pop(group_id, None)
        if replay.group is None:
            self._group_order.pop(group_id, None)
        elif group_id not in self._group_order:
            # Only a new group is put into the table, because a put may enlarge the table and change its order.
            self._group_order[group_id] = None
        if record.value is None and record.kind == "GroupMetadata":
            self.classic_groups.pop(group_id, None)
        elif record.kind.startswith("ConsumerGroup"):
            if isinstance(replay.group, ConsumerGroup):
                self.consumer_states[group_id].take(record, replay.group)
            else:
                self.consumer_states.pop(group_id, None)
        return replay

    def send(self, request: Request, answer: Answer) -> None:
        """Add a response to the coordinator's results.

        If the request is refused and its API has no error response, add a ``Failure`` instead.

        Args:
            request: the request that the response belongs to.
            answer: the body of the response, or the error.
        """
        version = request.version or 0
        if isinstance(answer, RequestError):
            body = error_response(request, answer)
            if body is None:
                failure = Failure(self.now_ms, request.correlation_id, request.api, answer.error, answer.message)
                self.results.append(failure)
                return
            answer = body
        response = respond(request.api, version, answer, is_draft=self.config.client_assignors)
        self.results.append(Response(self.now_ms, request.correlation_id, request.api, response))
