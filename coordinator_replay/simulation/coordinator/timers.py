"""Timers of the coordinator, one for each key.

Timers fire in the order of their times. Timers with equal times fire in the order in which they were last set.

A heartbeat gives a timer a later time. To save work, the timer's entry in the queue keeps the old time at first, and
gets the new time only when the old time comes.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

Key = tuple[str, ...]
"""The purpose of a timer, e.g. ``("session-timeout", group, member)``; joined by ``-``, it is Kafka's own key."""


class Timer(NamedTuple):
    """A running timer."""

    at_ms: int
    sequence: int
    key: Key
    fire: Callable[[], None]


class Timers:
    """The running timers."""

    __slots__ = ("_queue", "_running", "_sequence")

    def __init__(self) -> None:
        self._running: dict[Key, Timer] = {}
        self._queue: list[tuple[int, int, Key]] = []
        self._sequence = 0

    def set(self, key: Key, at_ms: int, fire: Callable[[], None]) -> None:
        """Start the key's timer.

        If this timer runs already, replace it.
        """
        self._sequence += 1
        old = self._running.get(key)
        self._running[key] = Timer(at_ms, self._sequence, key, fire)
        if old is None or at_ms < old.at_ms:
            heapq.heappush(self._queue, (at_ms, self._sequence, key))

    def cancel(self, key: Key) -> None:
        """Stop the key's timer, if one runs."""
        self._running.pop(key, None)

    def clear(self) -> None:
        """Stop all timers."""
        self._running.clear()
        self._queue.clear()

    def is_running(self, key: Key) -> bool:
        """Return whether the key's timer runs."""
        return key in self._running

    def next_at(self) -> int | None:
        """Return when the next timer fires; None if no timer runs."""
        self._refresh_head()
        return self._queue[0][0] if self._queue else None

    def take_due(self, to_ms: int) -> Timer | None:
        """Remove and return the next timer that fires at ``to_ms`` or before.

        Return None if no timer is due.
        """
        self._refresh_head()
        if not self._queue or self._queue[0][0] > to_ms:
            return None
        _, _, key = heapq.heappop(self._queue)
        return self._running.pop(key)

    def remaining(self, now_ms: int) -> dict[str, int]:
        """Return the milliseconds until each timer fires, by the key that Kafka gives the timer.

        An example of a key is ``session-timeout-GROUP-MEMBER``.
        """
        return {"-".join(key): self._running[key].at_ms - now_ms for key in sorted(self._running)}

    def _refresh_head(self) -> None:
        """Bring the head of the queue up to date.

        Drop the entries of stopped timers, and give the entries of moved timers their new times.
        """
        while self._queue:
            at_ms, sequence, key = self._queue[0]
            timer = self._running.get(key)
            if timer is None or timer.at_ms < at_ms:
                heapq.heappop(self._queue)
            elif (timer.at_ms, timer.sequence) != (at_ms, sequence):
                heapq.heapreplace(self._queue, (timer.at_ms, timer.sequence, key))
            else:
                return
