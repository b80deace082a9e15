"""For how long partitions stood still, as simulated consumers saw it: between one consumer's work and the next one's.

That is more than the log knows: a partition of a crashed consumer stands still from the crash on, and an eager consumer
stops as soon as it joins again.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from coordinator_replay.simulation.coordinator.assignor.client import Partition


class Pause(NamedTuple):
    """A time in which nobody worked on a partition that somebody had worked on before."""

    partition: Partition
    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Return how long it was."""
        return self.until_ms - self.since_ms


class Pauses:
    """Who works on what, and the pauses between.

    Args:
        start_ms: pauses count from this moment on.

    Attributes:
        spans: the pauses themselves, in the order in which they ended.
    """

    __slots__ = ("_is_over", "_owned", "_start_ms", "_stopped", "spans")

    def __init__(self, start_ms: int) -> None:
        self._owned: dict[str, frozenset[Partition]] = {}
        self._stopped: dict[Partition, int] = {}
        self._start_ms = start_ms
        self.spans: list[Pause] = []
        self._is_over = False

    def holds(self, name: str, owned: Iterable[Partition], at_ms: int) -> None:
        """A client works on these partitions from now on, and on no others; after the end nothing counts any more."""
        if self._is_over:
            return
        before, now = self._owned.get(name, frozenset()), frozenset(owned)
        self._owned[name] = now
        for partition in sorted(before - now):
            self._stopped[partition] = at_ms
        for partition in sorted(now - before):
            self._count(partition, at_ms)

    def end(self, at_ms: int, wanted: Collection[str]) -> None:
        """End the pauses that are open, if any client is there to work.

        Args:
            at_ms: the end.
            wanted: topics that somebody subscribes to; partitions of others were given up for good.
        """
        self._is_over = True
        if any(self._owned.values()):
            for partition in sorted(self._stopped):
                if partition[0] in wanted:
                    self._count(partition, at_ms)

    def _count(self, partition: Partition, at_ms: int) -> None:
        since = self._stopped.pop(partition, None)
        if since is not None and at_ms >= self._start_ms:
            self.spans.append(Pause(partition, max(since, self._start_ms), at_ms))
