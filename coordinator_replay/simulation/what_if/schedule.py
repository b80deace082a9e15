"""The schedule of a simulation: its clock, the next heartbeats, and clients that are closing.

A rest is a time range in which no client does anything but send heartbeats. The simulation skips long rests. Its clock
does not count a skipped rest; the time of the recorded life does. During a rest, a consumer sends heartbeats only as
often as its session timeout requires.

A broker handles one request of a connection at a time. So if a consumer waits for the response to its JoinGroup or
SyncGroup, its LeaveGroup reaches the coordinator only after this response. Until then the client is *closing*, but no
longer than ``JAVA_MS`` or ``LIBRDKAFKA_MS``. A client that is closing can't start again.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.what_if.clients import Consumer
from coordinator_replay.simulation.what_if.libraries import LIBRDKAFKA
from coordinator_replay.simulation.what_if.settings import Settings
from coordinator_replay.simulation.what_if.timing import Timing

Action = Callable[[], None]

REST_MS = 15_000
"""Length of the last part of a rest, which is never skipped. No timer of the coordinator is longer during a rest."""

_TIMES = ("currentStateTimestamp", "assignmentTimestamp", "timestamp")
"""Fields of values that hold a time: of a classic group, a target assignment, and a regular expression."""


class Agenda:
    """The clock of a simulation, and its future events and actions.

    Attributes:
        now_ms: the time of the simulation, which does not count the time ranges that the simulation skipped.
        left_out_ms: total length of the time ranges that the simulation skipped.
    """

    __slots__ = ("_count", "_events", "_put_off", "left_out_ms", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.left_out_ms = 0
        self._events: list[tuple[int, int, Action]] = []
        self._put_off: list[tuple[int, int, Action]] = []
        self._count = 0

    @property
    def life_ms(self) -> int:
        """Return the present time of the recorded life.

        This is the time of the simulation's clock plus the total length of the time ranges that the simulation skipped.
        """
        return self.now_ms + self.left_out_ms

    @property
    def next_event_ms(self) -> int | None:
        """Return when the next event is due, as a time of the simulation's clock; None if no event is left."""
        return self._events[0][0] - self.left_out_ms if self._events else None

    @property
    def next_put_off_ms(self) -> int | None:
        """Return when the next postponed action is due, as a time of the simulation; None if no action is postponed."""
        return self._put_off[0][0] if self._put_off else None

    def happen(self, at_ms: int, action: Action) -> None:
        """Schedule an event of the recorded life.

        Args:
            at_ms: the time of the event on record.
            action: function that repeats the event in the simulation.
        """
        self._count += 1
        heapq.heappush(self._events, (at_ms, self._count, action))

    def at(self, at_ms: int, action: Action) -> None:
        """Postpone an action.

        Args:
            at_ms: when the action is due, as a time of the simulation.
            action: the action.
        """
        self._count += 1
        heapq.heappush(self._put_off, (at_ms, self._count, action))

    def take_event(self) -> Action:
        """Remove and return the next event."""
        return heapq.heappop(self._events)[2]

    def take_put_off(self) -> Action:
        """Remove and return the next postponed action."""
        return heapq.heappop(self._put_off)[2]

    def rest_ms(self, until_ms: int, interval_ms: int) -> int:
        """Return how many milliseconds the clock may skip before the next event; 0 if this event is soon.

        Args:
            until_ms: the end of the simulation.
            interval_ms: heartbeat interval. The result is a multiple of this interval.
        """
        next_ms = min(self._events[0][0], until_ms) if self._events else until_ms
        rest_ms = next_ms - self.life_ms - REST_MS
        rest_ms -= rest_ms % interval_ms
        return rest_ms if rest_ms > REST_MS else 0

    def in_life(self, record: Record) -> Record:
        """Return the record with other times: times of the simulation become times of the recorded life.

        The simulation is behind by the total length of the time ranges that it has skipped.
        """
        if not self.left_out_ms:
            return record
        value = record.value
        if value is not None:
            later = {name: time + self.left_out_ms for name in _TIMES if (time := value.get(name, -1)) >= 0}
            value = {**value, **later} if later else value
        return record._replace(timestamp_ms=(record.timestamp_ms or 0) + self.left_out_ms, value=value)


JITTER = 10
"""A drifting heartbeat comes later by up to an interval divided by this number.

No heartbeat comes early: clients send due heartbeats when they wake.
"""


class _Beat(NamedTuple):
    """The next heartbeat of a consumer.

    Attributes:
        base_ms: a time from which the consumer's heartbeats are counted. Each heartbeat comes a whole number of
            intervals after this time.
        interval_ms: the consumer's heartbeat interval.
        at_ms: the time of the next heartbeat.
    """

    consumer: Consumer
    base_ms: int
    interval_ms: int
    at_ms: int


class Heartbeats:
    """The next heartbeat of each consumer of a group.

    Attributes:
        restless_ms: how long after an event every member sends all its heartbeats. After this time, the simulation
            skips some heartbeats to save work.
        restless_until_ms: the time until which every member sends all its heartbeats.
    """

    def __init__(
        self,
        settings: Settings,
        timing: Timing,
        now_ms: int,
        at: Callable[[int, Action], None],
        act: Callable[[Consumer], None],
    ) -> None:
        """Make an object that has no scheduled heartbeats yet.

        Args:
            settings: settings of the simulated life.
            timing: by how much heartbeats are shifted.
            now_ms: the time at which the simulation begins.
            at: function that schedules an action for a time.
            act: function that makes a consumer send a heartbeat.
        """
        self._interval_ms = settings.heartbeat()
        self._timing = timing
        self._at = at
        self._act = act
        # After an event, every member sends a heartbeat. The coordinator of a consumer group computes a target
        # assignment when a heartbeat comes, and may postpone it. So members of a consumer group send heartbeats for
        # longer.
        self.restless_ms = settings.heartbeat() + (settings.assignment_ms if settings.protocol == "consumer" else 0)
        self.restless_until_ms = now_ms
        self._next: dict[Consumer, _Beat] = {}

    def forget(self, consumer: Consumer) -> None:
        """Drop the scheduled heartbeat of a consumer that has departed, or that sends something else next."""
        self._next.pop(consumer, None)

    def after(self, consumer: Consumer, now_ms: int, event_ms: int | None) -> None:
        """Schedule the next heartbeat of a consumer.

        The heartbeat comes after one heartbeat interval, or after several intervals if nothing happens in the group.

        Args:
            consumer: the consumer.
            now_ms: the time at which the consumer received its last response.
            event_ms: the time of the next event of the script; None if no event is left.
        """
        interval_ms = min(self._interval_ms, max(consumer.session_ms // 2, 1))
        beats = 1
        if now_ms >= self.restless_until_ms and consumer.is_calm:
            until_ms = now_ms + consumer.session_ms * 6 // 10
            until_ms = until_ms if event_ms is None else min(until_ms, event_ms)
            beats = max((until_ms - now_ms) // interval_ms, 1)
        drift_ms = self._timing.offset_ms(consumer.number, interval_ms)
        base_ms = now_ms - drift_ms if beats > 1 else now_ms + drift_ms // JITTER
        self._put(_Beat(consumer, base_ms, interval_ms, max(base_ms + beats * interval_ms, now_ms)))

    def stir(self, now_ms: int) -> None:
        """Make every consumer send all its heartbeats for the next ``restless_ms``, because an event has happened.

        Args:
            now_ms: the time of the event.
        """
        was_restless = self.restless_until_ms > now_ms
        self.restless_until_ms = now_ms + self.restless_ms
        if was_restless:
            return
        for beat in list(self._next.values()):
            next_ms = beat.base_ms + -(-(now_ms - beat.base_ms) // beat.interval_ms) * beat.interval_ms
            if beat.base_ms < next_ms < beat.at_ms:
                self._put(beat._replace(at_ms=next_ms))

    def _put(self, beat: _Beat) -> None:
        self._next[beat.consumer] = beat

        def send() -> None:
            if self._next.get(beat.consumer) is beat:
                del self._next[beat.consumer]
                self._act(beat.consumer)

        self._at(beat.at_ms, send)


LIBRDKAFKA_MS, JAVA_MS = 5_000, 30_000
"""Longest time that closing takes: ``rd_kafka_LeaveGroupRequest``, ``ConsumerUtils.DEFAULT_CLOSE_TIMEOUT_MS``."""


class Closing:
    """The consumers that are closing, and what their clients do next.

    For example, a client starts its next consumer only after its old consumer is closed.
    """

    def __init__(self, at: Callable[[int, Action], None]) -> None:
        """Make an object that has no closing consumers yet.

        Args:
            at: function that schedules an action for a time.
        """
        self._at = at
        self._owed: dict[Consumer, list[Action]] = {}
        self._next: dict[str, list[Action]] = {}

    def begin(self, consumer: Consumer, now_ms: int) -> None:
        """Begin to close a consumer whose last request is not answered yet.

        Args:
            consumer: the consumer.
            now_ms: the present time.
        """
        steps = self._next[consumer.name] = self._owed[consumer] = list[Action]()
        longest_ms = LIBRDKAFKA_MS if consumer.library == LIBRDKAFKA else JAVA_MS
        self._at(now_ms + longest_ms, lambda: self._end(consumer.name, steps))

    def wait(self, name: str, action: Action) -> bool:
        """Postpone an action of a client if the client's consumer is still closing. Return whether the client waits.

        Args:
            name: name of the client.
            action: what the client does next.
        """
        steps = self._next.get(name)
        if steps is not None:
            steps.append(action)
        return steps is not None

    def answered(self, consumer: Consumer) -> bool:
        """Handle a response that a consumer has received, and return whether the consumer must now send LeaveGroup.

        The consumer must send LeaveGroup if it was closed while it waited for this response.
        """
        steps = self._owed.pop(consumer, None)
        if steps is not None:
            self._end(consumer.name, steps)
        return steps is not None

    def _end(self, name: str, steps: list[Action]) -> None:
        # The client may have closed before, started again, and be closing once more.
        if self._next.get(name) is steps:
            del self._next[name]
            for action in steps:
                action()
