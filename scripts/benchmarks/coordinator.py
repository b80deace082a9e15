"""The rows of the simulated coordinator: heartbeats of a group at rest, and a rebalance of a large group.

The coordinator runs on one core. CPU time is measured, so that other work of the machine does not count.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.measured import Measured, Setting
from coordinator_replay.simulation.coordinator import Batch, Config, Coordinator, Request, Response, Topic

NOW_MS = 1_000_000_000_000
BEATS = 100_000
BEATS_A_SECOND = 20_000


class Clients:
    """Members of one consumer group, each with its member epoch and its partitions."""

    def __init__(self, members: int, partitions: int) -> None:
        topic = Topic("orders", "AAAAAAAAAAAAAAAAAAAAAQ", partitions)
        self.coordinator = Coordinator(
            Config({"group.consumer.assignment.interval.ms": 10_000}), [topic], now_ms=NOW_MS
        )
        self.now_ms = NOW_MS
        self.epochs = {f"member-{number}": 0 for number in range(members)}
        self.owned: dict[str, list[Any]] = {member: [] for member in self.epochs}

    def join(self) -> None:
        """Let all members join. Because of the assignment interval, most of them have to wait for their targets."""
        for member in self.epochs:
            self.beat(member, rebalanceTimeoutMs=60_000, subscribedTopicNames=["orders"], topicPartitions=[])

    def settle(self) -> None:
        """Send heartbeats until no member has anything to do."""
        self.now_ms += 10_000
        written = 1
        while written:
            written = sum(self.beat(member, topicPartitions=self.owned[member]) for member in self.epochs)

    def beat(self, member: str, **fields: Any) -> int:
        """Send a heartbeat, and return the number of records that the coordinator wrote."""
        body = {"groupId": "group", "memberId": member, "memberEpoch": self.epochs[member], **fields}
        records = 0
        for result in self.coordinator.handle(Request("ConsumerGroupHeartbeat", body), self.now_ms):
            if isinstance(result, Batch):
                records += len(result.records)
            elif isinstance(result, Response):
                self.epochs[member] = result.body["memberEpoch"]
                if result.body["assignment"] is not None:
                    self.owned[member] = result.body["assignment"]["topicPartitions"]
        return records


def heartbeats(setting: Setting) -> Measured:
    """Measure heartbeats of 100 members at rest on one core, against 20,000 a second."""
    clients = Clients(100, 300)
    clients.join()
    clients.settle()
    members = list(clients.epochs)

    def beat() -> None:
        for number in range(BEATS):
            if number % 20 == 0:
                clients.now_ms += 1
            clients.beat(members[number % len(members)])

    taken = min(core_seconds(beat) for _ in range(setting.repeat))
    return _row("coordinator-heartbeats", f"{BEATS} heartbeats, 100 members at rest", taken, BEATS / BEATS_A_SECOND)


def rebalance(setting: Setting) -> Measured:
    """Measure the target assignment of 1,000 members over 1,000 partitions and all steps to it, against a second."""

    def once() -> float:
        clients = Clients(1_000, 1_000)
        clients.join()
        return core_seconds(clients.settle)

    taken = min(once() for _ in range(setting.repeat))
    return _row("coordinator-rebalance", "uniform: 1,000 members, 1,000 partitions, until at rest", taken, 1.0)


def core_seconds(run: Callable[[], object]) -> float:
    """Return the CPU time in seconds that this process takes to run something."""
    began = time.process_time()
    run()
    return time.process_time() - began


def _row(name: str, ours: str, taken: float, wanted_seconds: float) -> Measured:
    return Measured(
        name=name,
        ours=ours,
        baseline="the time that is wanted",
        ours_seconds=taken,
        baseline_seconds=wanted_seconds,
        ratio=taken / wanted_seconds,
        wanted="<= 1 x",
        holds=taken <= wanted_seconds,
    )
