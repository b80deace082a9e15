"""Clients that are closing while the coordinator owes them an answer.

A broker takes up one request of a connection at a time. So the LeaveGroup of a consumer whose JoinGroup or SyncGroup is
not answered yet reaches the coordinator when the join phase is over. Until then the client is closing, though not for
ever; one that starts again does so afterwards.
"""

from collections.abc import Callable

from coordinator_replay.simulation.what_if.clients import Consumer
from coordinator_replay.simulation.what_if.libraries import LIBRDKAFKA

LIBRDKAFKA_MS, JAVA_MS = 5_000, 30_000
"""So long closing takes at most: ``rd_kafka_LeaveGroupRequest``, ``ConsumerUtils.DEFAULT_CLOSE_TIMEOUT_MS``."""

Action = Callable[[], None]


class Closing:
    """The consumers that are closing, and what their clients do next."""

    def __init__(self, at: Callable[[int, Action], None]) -> None:
        """Begin with none.

        Args:
            at: lets something happen at a moment.
        """
        self._at = at
        self._owed: dict[Consumer, list[Action]] = {}
        self._next: dict[str, list[Action]] = {}

    def begin(self, consumer: Consumer, now_ms: int) -> None:
        """A consumer closes whose last request is not answered yet.

        Args:
            consumer: the consumer.
            now_ms: when.
        """
        steps = self._next[consumer.name] = self._owed[consumer] = list[Action]()
        longest_ms = LIBRDKAFKA_MS if consumer.library == LIBRDKAFKA else JAVA_MS
        self._at(now_ms + longest_ms, lambda: self._end(consumer.name, steps))

    def wait(self, name: str, action: Action) -> bool:
        """Return whether a client is still closing; it takes its next step when it has closed.

        Args:
            name: the client.
            action: its next step.
        """
        steps = self._next.get(name)
        if steps is not None:
            steps.append(action)
        return steps is not None

    def answered(self, consumer: Consumer) -> bool:
        """Return whether a consumer that is owed an answer, and gets it, is closing: it leaves now."""
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
