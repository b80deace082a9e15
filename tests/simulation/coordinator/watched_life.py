"""A life of a group of one kind, whose events come from a test: who owns what, and when nothing changes any more."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from coordinator_replay.simulation.coordinator import Batch, Result
from coordinator_replay.simulation.coordinator.assignor.client import Partition
from scripts.world.client_bytes import JAVA
from scripts.world.consumers import Consumer, ModernConsumer
from scripts.world.life import Life
from scripts.world.mixes import UNIFORM
from tests.simulation.coordinator.mixed_groups import Conversions

MIX = UNIFORM._replace(name="watched", odd_share=0, fault_share=0)

ASSIGNORS = {
    "range": ("range",),
    "roundrobin": ("roundrobin", "range"),
    "sticky": ("sticky",),
    "cooperative-sticky": ("cooperative-sticky",),
    "modern": (),
    "mixed": ("cooperative-sticky", "range"),
}
KINDS = tuple(ASSIGNORS)
"""Groups of the classic protocol with each assignor, of the consumer group protocol, and of both."""

CALM_ROUNDS, DESERTED_ROUNDS = 50, 310
"""Seconds without any change after which a group counts as at rest: longer than every session.

Of a group whose consumers are all gone, longer than the five minutes that a new member may wait for its first answer.
"""

Step = tuple[str, int]
"""Name of an event, which is a method of ``Life``, and the milliseconds that pass after it."""


class WatchedLife(Life):
    """A life of a group of a kind.

    Attributes:
        conversions: what Kafka's conversions of the group left without an owner, or with two.
        doubled: partitions that had two owners at once, at any time.
        changes: how many records of the group were written, without offsets.
    """

    def __init__(self, kind: str, seed: int, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(seed, MIX, settings=settings)
        self.is_modern, self._is_mixed = kind == "modern", kind == "mixed"
        self.habits = self.habits._replace(
            library=JAVA, assignors=ASSIGNORS[kind], session_ms=10_000, rebalance_ms=30_000, regex=None,
            join_version=max(5, self.habits.join_version), may_migrate=self._is_mixed, request_ms=30_000,
        )  # fmt: skip
        self.conversions = Conversions()
        self.doubled: set[Partition] = set()
        self.changes = 0

    @property
    def on(self) -> list[Consumer]:
        """Consumers whose processes run."""
        return self._on

    def join(self) -> None:
        """Start a consumer; of either protocol in a mixed group."""
        if self._is_mixed:
            self.is_modern = self._chance(0.5)
        super().join()

    def do(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Do the steps one after the other; yields each when it is done."""
        for name, pause_ms in steps:
            getattr(self, name)()
            self.pass_time(pause_ms)
            yield name, pause_ms

    def settle(self, rounds: int = 1000) -> None:
        """Let time pass until all consumers are stable and nothing changes or is written any more."""
        calm, before = 0, None
        for _ in range(rounds):
            self.pass_time(1000)
            now = (self.changes, [(one.member_id, one.generation, sorted(one.owned)) for one in self.on])
            calm = calm + 1 if now == before and all(map(_is_stable, self.on)) else 0
            before = now
            if calm == (CALM_ROUNDS if self.on else DESERTED_ROUNDS):
                return
        raise AssertionError(f"no rest after {rounds} s: {self.on}")

    def send(
        self,
        consumer: Consumer | None,
        api: str,
        body: Mapping[str, Any],
        answered: Callable[[Mapping[str, Any]], None],
        version: int | None = None,
    ) -> None:
        """Send a request; a classic member that gets an assignment has released all else."""

        def watched(answer: Mapping[str, Any]) -> None:
            answered(answer)
            if api == "SyncGroup" and not answer["errorCode"] and consumer is not None:
                self.conversions.assigned(consumer.member_id)

        super().send(consumer, api, body, watched, version)

    def _take(self, results: Sequence[Result]) -> None:
        for result in results:
            if isinstance(result, Batch):
                self.conversions.written(result.records, self._topics.values(), self.on)
                self.changes += sum(record.kind != "OffsetCommit" for record in result.records)
        super()._take(results)
        owned = list(self.conversions.owned(self.on))
        self.doubled |= {partition for partition in owned if owned.count(partition) > 1}


def _is_stable(consumer: Consumer) -> bool:
    has_all = not isinstance(consumer, ModernConsumer) or consumer.owned == consumer.target
    return consumer.stage == "stable" and not consumer.is_stuck and has_all
