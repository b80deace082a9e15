"""One consumer of a group: a thread that polls. Between two polls, it runs the actions of a script."""

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
"""The logger of librdkafka, without output: scripts expect that brokers go and members are fenced."""
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
"""Settings that clients have only under the classic protocol. KIP-848 members get them from the coordinator."""


class Member(threading.Thread):
    """A consumer that runs until it is closed or crashed.

    Attributes:
        owned: topic and number of the consumer's partitions, as of its last poll.
        error: the error that ended the consumer, if any.
    """

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Start a consumer.

        Args:
            bootstrap: address of the broker.
            group: id of the consumer's group.
            topics: the topics to subscribe to; a pattern begins with ``^``.
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
        """Poll until ``leave`` or ``crash`` is called.

        After ``crash``, the consumer ends as if its process had been killed.
        """
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
        # This is the last reference. librdkafka then destroys a consumer that was not closed, without LeaveGroup.
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
        """Run an action with the consumer on the consumer's thread, and return the result."""
        answer: Future[Answer] = Future()
        self._asked.put((action, answer))
        return answer.result(_PATIENCE_SECONDS)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Change the consumer's subscription."""
        self.topics = list(topics)
        self.ask(lambda consumer: consumer.subscribe(self.topics))

    def commit(self, offset: int) -> int:
        """Commit one offset for every partition of the consumer, and return the number of partitions.

        The coordinator raises the epoch of a KIP-848 member before the member gets the answer. A commit in between has
        the old epoch, so it is tried again.
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
        """Stop polling for a while, like an application that hangs."""
        self.ask(lambda _consumer: time.sleep(seconds))

    def leave(self) -> None:
        """Close the consumer in order."""
        self._leaves = True
        self.join(_PATIENCE_SECONDS)

    def crash(self) -> None:
        """End the consumer without LeaveGroup."""
        self._crashes = True
        self.join(_PATIENCE_SECONDS)
