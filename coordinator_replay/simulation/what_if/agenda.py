"""What is to happen when in a simulation: the events of the life, and what the simulation has put off.

The simulation has a clock of its own. Long rests are left out: the clock stands still for as long, and the time of the
life goes on.
"""

import heapq
from collections.abc import Callable

from coordinator_replay.engine.model import Record

Action = Callable[[], None]

REST_MS = 15_000
"""So much of a rest is simulated before the next event; no interval of a coordinator at rest is longer."""


class Agenda:
    """The clock of a simulation, and what is to happen when.

    Attributes:
        now_ms: the time of the simulation.
        left_out_ms: rests that were left out so far; the time of the life is that much later.
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
        """Return the time of the life."""
        return self.now_ms + self.left_out_ms

    @property
    def next_event_ms(self) -> int | None:
        """When the next event of the life is, in the time of the simulation."""
        return self._events[0][0] - self.left_out_ms if self._events else None

    @property
    def next_put_off_ms(self) -> int | None:
        """When the next action is due that was put off."""
        return self._put_off[0][0] if self._put_off else None

    def happen(self, at_ms: int, action: Action) -> None:
        """An event of the life, at a time of the life."""
        self._count += 1
        heapq.heappush(self._events, (at_ms, self._count, action))

    def at(self, at_ms: int, action: Action) -> None:
        """Put an action off, to a time of the simulation."""
        self._count += 1
        heapq.heappush(self._put_off, (at_ms, self._count, action))

    def take_event(self) -> Action:
        """Return the next event, which is no longer to come then."""
        return heapq.heappop(self._events)[2]

    def take_put_off(self) -> Action:
        """Return the next action that was put off, which is no longer to come then."""
        return heapq.heappop(self._put_off)[2]

    def rest_ms(self, until_ms: int, interval_ms: int) -> int:
        """Return how much of a rest may be left out before the next event; 0 where the rest is short.

        Args:
            until_ms: the end, as a time of the life.
            interval_ms: of heartbeats: a multiple of it is left out, so that they stay where they would be.
        """
        next_ms = min(self._events[0][0], until_ms) if self._events else until_ms
        rest_ms = next_ms - self.life_ms - REST_MS
        rest_ms -= rest_ms % interval_ms
        return rest_ms if rest_ms > REST_MS else 0

    def in_life(self, record: Record) -> Record:
        """Return a record with the time of the life; of the values only those of classic groups have a time."""
        if not self.left_out_ms:
            return record
        value = record.value
        if value is not None and value.get("currentStateTimestamp", -1) >= 0:
            value = {**value, "currentStateTimestamp": value["currentStateTimestamp"] + self.left_out_ms}
        return record._replace(timestamp_ms=(record.timestamp_ms or 0) + self.left_out_ms, value=value)
