"""When simulated consumers send their heartbeats; those that change nothing are left out.

While a group is at rest, a consumer beats only as often as its session asks for, and again on its own interval as soon
as anything happens. The times of what is sent stay multiples of its interval, so that a rebalance is noticed when it
would have been.
"""

from collections.abc import Callable
from typing import NamedTuple

from coordinator_replay.simulation.what_if.clients import Consumer
from coordinator_replay.simulation.what_if.settings import Settings
from coordinator_replay.simulation.what_if.timing import Timing

JITTER = 10
"""One heartbeat comes later by up to this part of its interval, where a simulation has drifting heartbeats.

None comes early: clients look whether one is due when they wake.
"""


class _Beat(NamedTuple):
    """The next heartbeat of a consumer, and those since the last one that are left out before it."""

    consumer: Consumer
    base_ms: int
    interval_ms: int
    at_ms: int


class Heartbeats:
    """The next heartbeat of each consumer of a group.

    Attributes:
        restless_ms: for so long everybody beats after something happened.
        restless_until_ms: until then everybody beats in its interval.
    """

    def __init__(
        self,
        settings: Settings,
        timing: Timing,
        now_ms: int,
        at: Callable[[int, Callable[[], None]], None],
        act: Callable[[Consumer], None],
    ) -> None:
        """Begin.

        Args:
            settings: of the simulated life.
            timing: how heartbeats drift while the group is at rest.
            now_ms: its beginning.
            at: lets something happen at a moment.
            act: lets a consumer send its heartbeat.
        """
        self._interval_ms = settings.heartbeat()
        self._timing = timing
        self._at = at
        self._act = act
        # Everybody beats once after something happened; in a consumer group once more than the coordinator may put
        # off a target assignment, which it computes when a heartbeat comes.
        self.restless_ms = settings.heartbeat() + (settings.assignment_ms if settings.protocol == "consumer" else 0)
        self.restless_until_ms = now_ms
        self._next: dict[Consumer, _Beat] = {}

    def forget(self, consumer: Consumer) -> None:
        """A consumer has departed, or sends something else next."""
        self._next.pop(consumer, None)

    def after(self, consumer: Consumer, now_ms: int, event_ms: int | None) -> None:
        """A consumer has had an answer: its next heartbeat is one interval on, or several where nothing is going on.

        Args:
            consumer: whose.
            now_ms: when.
            event_ms: the next event of the script.
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
        """Something happened: whoever has left heartbeats out beats again at its next usual moment."""
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
