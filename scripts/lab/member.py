"""One consumer of a group: a thread that polls, and does between two polls what a script asks of it."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

Answer = TypeVar("Answer")

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0

SILENT = logging.getLogger("librdkafka")
"""Takes what librdkafka has to say: that a broker is gone, that a member was fenced; scripts expect it."""
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

COMMON = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "max.poll.interval.ms": 300_000,
    # A classic client finds new topics and partitions by asking; the default of five minutes is too slow for a script.
    "topic.metadata.refresh.interval.ms": 1_000,
}
CLASSIC = {"session.timeout.ms": 5_000, "heartbeat.interval.ms": 500}
"""Only classic groups have these on the client's side; the coordinator tells KIP-848 members."""


class Member(threading.Thread):
    """A consumer that runs until it is closed or crashed.

    Attributes:
        owned: topic and partition of all it owns, as of its last poll.
        error: what ended it, if it did not end by itself.
    """

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Start a consumer.

        Args:
            bootstrap: where the broker is.
            group: its group.
            topics: what it subscribes to; a pattern begins with ``^``.
            settings: settings of librdkafka, ``client.id`` and ``group.protocol`` among them.
        """
        super().__init__(name=str(settings["client.id"]), daemon=True)
        classic = CLASSIC if settings["group.protocol"] == "classic" else {}
        self.settings = {**COMMON, **classic, **settings, "bootstrap.servers": bootstrap, "group.id": group}
        self.topics = list(topics)
        self.owned: set[tuple[str, int]] = set()
        self.error: Exception | None = None
        self._asked: queue.SimpleQueue[tuple[Callable[[Consumer], Any], Future[Any]]] = queue.SimpleQueue()
        self._leaves = False
        self._crashes = False
        self.start()

    def run(self) -> None:
        """Poll until told to end; without ``close`` the consumer goes as if its process had been killed."""
        consumer = Consumer(self.settings, logger=SILENT)
        try:
            consumer.subscribe(self.topics)
            while not (self._leaves or self._crashes):
                self._answer(consumer)
                consumer.poll(_POLL_SECONDS)
                self.owned = {(partition.topic, partition.partition) for partition in consumer.assignment()}
            if self._leaves:
                consumer.close()
        except KafkaException as problem:
            self.error = problem
        self.owned = set()
        # The last reference: librdkafka destroys a consumer that was not closed without leaving the group.
        del consumer

    def _answer(self, consumer: Consumer) -> None:
        while True:
            try:
                action, answer = self._asked.get_nowait()
            except queue.Empty:
                return
            try:
                answer.set_result(action(consumer))
            except KafkaException as problem:
                answer.set_exception(problem)

    def ask(self, action: Callable[[Consumer], Answer]) -> Answer:
        """Do something with the consumer on its own thread, for what it returns."""
        answer: Future[Answer] = Future()
        self._asked.put((action, answer))
        return answer.result(_PATIENCE_SECONDS)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Change what it subscribes to."""
        self.topics = list(topics)
        self.ask(lambda consumer: consumer.subscribe(self.topics))

    def commit(self, offset: int) -> int:
        """Commit one offset for every partition that it owns; how many those are.

        The coordinator raises the epoch of a KIP-848 member before the member has its answer: a commit in between
        names the epoch before, and is tried again.
        """
        wanted = [TopicPartition(topic, partition, offset) for topic, partition in sorted(self.owned)]
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while wanted:
            try:
                self.ask(lambda consumer: consumer.commit(offsets=wanted, asynchronous=False))
                break
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.STALE_MEMBER_EPOCH or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
        return len(wanted)

    def stall(self, seconds: float) -> None:
        """Let it not poll for a while, as an application does that hangs in its work."""
        self.ask(lambda _consumer: time.sleep(seconds))

    def leave(self) -> None:
        """Close it in order."""
        self._leaves = True
        self.join(_PATIENCE_SECONDS)

    def crash(self) -> None:
        """End it without a word to the coordinator."""
        self._crashes = True
        self.join(_PATIENCE_SECONDS)
