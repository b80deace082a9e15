"""Records random lives: ``python -m lab.record_life --out DIR SEED …``, each life under all its settings at once.

A recording has the segments of ``__consumer_offsets``, the log of the cluster's metadata, the lines of the broker's own
log that are about groups, and ``life.json``. If the machine was too busy, a recording is worthless (``flaws``): record
the life again. The exit code is 1 if a life has flaws.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka_broker import Broker
from kafka_jars import java_command

from lab.member import SILENT, Member
from lab.random_life import JAVA, Client, Drawn, draw, settings_of
from lab.recording import copy_segments, copy_server_log

_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_GROUP = re.compile(r"\blife-\d+-\w+")
_LATE_SECONDS = 1.0
_RESTART_SECONDS = 0.1
_PRODUCE_SECONDS = 2.0
_QUICK = ["-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


class _Restarted(Member):
    """A consumer that is started again after a fatal error, such as UNRELEASED_INSTANCE_ID, until it is ended."""

    def run(self) -> None:
        """Poll until ``leave`` or ``crash_soon`` is called."""
        while not (self._leaves or self._crashes):
            consumer = Consumer(self.settings, logger=SILENT)
            consumer.subscribe(self.topics)
            is_alive = True
            while is_alive and not (self._leaves or self._crashes):
                self._answer(consumer)
                try:
                    message = consumer.poll(0.1)
                    error = message.error() if message is not None else None
                    is_alive = error is None or not error.fatal()
                except KafkaException as problem:
                    is_alive = not problem.args[0].fatal()
            if self._leaves or not is_alive:
                consumer.close()
            del consumer
            if not is_alive:
                time.sleep(_RESTART_SECONDS)

    def crash_soon(self) -> None:
        """End the consumer without LeaveGroup. Do not wait for its end."""
        self._crashes = True

    def hang(self, seconds: float) -> None:
        """Stop polling for a while, in the background."""
        threading.Thread(target=self.stall, args=(seconds,), daemon=True).start()


class _Recording:
    def __init__(self, life: Drawn, bootstrap: str) -> None:
        self.life, self.bootstrap = life, bootstrap
        command = java_command("coordinatorreplay.Members", options=_QUICK)
        self.java = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8")
        self.members: dict[str, _Restarted] = {}
        self.lock = threading.Lock()
        self.late = 0.0
        self.began_at = 0.0

    def play(self) -> None:
        """Run all steps of the life at their times."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=SILENT)
        topics = [NewTopic(name, num_partitions=count) for name, count in self.life.topics.items()]
        for future in admin.create_topics(topics).values():
            future.result(60)
        time.sleep(2)
        actions: list[Callable[[float], None]] = [
            lambda began, group=group, client=client: self._client(began, group, client)  # type: ignore[misc]
            for group in self.life.groups
            for client in self.life.clients
        ]
        actions.append(lambda began: self._grow(began, admin))
        if self.life.commits:
            actions.append(self._produce)
        self.began_at, began = time.time() + 1, time.monotonic() + 1
        threads = [threading.Thread(target=action, args=(began,), daemon=True) for action in actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._wait(began, self.life.seconds)

    def _wait(self, began: float, seconds: float) -> None:
        time.sleep(max(began + seconds - time.monotonic(), 0))
        self.late = max(self.late, time.monotonic() - began - seconds)

    def _client(self, began: float, group: str, client: Client) -> None:
        for at, what, seconds in client.steps:
            self._wait(began, at)
            (self._java if client.library == JAVA else self._librdkafka)(group, client, what, seconds)

    def _java(self, group: str, client: Client, what: str, seconds: float) -> None:
        key = f"{group}/{client.name}"
        words = [what, key]
        if what == "start":
            chosen = settings_of(self.life, self.life.groups[group], client)
            chosen |= {"bootstrap.servers": self.bootstrap, "group.id": group}
            if "partition.assignment.strategy" in chosen:
                chosen["partition.assignment.strategy"] = _ASSIGNORS[chosen["partition.assignment.strategy"]]
            chosen["metadata.max.age.ms"] = self.life.intervals["metadata.max.age.ms"]
            words += [",".join(self.life.topics), *(f"{name}={value}" for name, value in chosen.items())]
        elif what == "stall":
            words.append(str(round(seconds * 1000)))
        with self.lock:
            if self.java.stdin is not None:
                self.java.stdin.write(" ".join(words) + "\n")
                self.java.stdin.flush()

    def _librdkafka(self, group: str, client: Client, what: str, seconds: float) -> None:
        key = f"{group}/{client.name}"
        if what == "start":
            chosen = settings_of(self.life, self.life.groups[group], client)
            refresh = {"topic.metadata.refresh.interval.ms": self.life.intervals["metadata.max.age.ms"]}
            self.members[key] = _Restarted(self.bootstrap, group, list(self.life.topics), chosen | refresh)
        elif what == "stall":
            self.members[key].hang(seconds)
        elif what == "close":
            self.members.pop(key).leave()
        else:
            self.members.pop(key).crash()

    def _grow(self, began: float, admin: AdminClient) -> None:
        for at, topic, count in self.life.growth:
            self._wait(began, at)
            for future in admin.create_partitions([NewPartitions(topic, count)]).values():
                future.result(60)

    def _produce(self, began: float) -> None:
        """Write a message into each partition again and again, so that there are offsets to commit."""
        producer = Producer({"bootstrap.servers": self.bootstrap}, logger=SILENT)
        while time.monotonic() < began + self.life.seconds:
            for topic, count in self.life.topics.items():
                for partition in range(count):
                    producer.produce(topic, b"x", partition=partition)
            producer.flush(10)
            time.sleep(_PRODUCE_SECONDS)

    def end(self) -> None:
        """End the clients. Call this after the broker has stopped, so that no record shows their end."""
        for member in self.members.values():
            member.crash_soon()
        self.java.kill()
        self.java.wait()


def joined_seconds(log: Path, began_at: float) -> float:
    """Return the seconds after which each group had a member. Java's consumers need time to start.

    Args:
        log: lines of the broker's own log that are about groups.
        began_at: time at which the life began, in seconds since the epoch.
    """
    first: dict[str, float] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        if " joins " in line and (group := _GROUP.search(line)):
            first.setdefault(group[0], datetime.strptime(line.split()[0], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp())
    return round(max(first.values(), default=began_at) - began_at, 2)


def flaws(life: Mapping[str, Any]) -> list[str]:
    """Return the reasons why a recording is worthless; empty if the machine was not too busy.

    Args:
        life: the fields of ``life.json``. Old recordings have no ``joined_seconds``.
    """
    reasons = []
    if life["late_seconds"] > _LATE_SECONDS:
        reasons.append(f"clients acted {life['late_seconds']} s late")
    done = [at for client in life["clients"] for at, what, _ in client["steps"] if what != "start"]
    first, joined = min(done, default=life["seconds"]), life.get("joined_seconds", 0.0)
    if joined >= first:
        reasons.append(f"a group had its first member after {joined} s, the first client ended or paused at {first} s")
    return reasons


def broker_settings(life: Drawn) -> dict[str, str]:
    """Return the settings of the broker."""
    session = next(group["session.timeout.ms"] for name, group in life.groups.items() if name.endswith("-new"))
    heartbeat = life.intervals["heartbeat.interval.ms"]
    return {
        "group.initial.rebalance.delay.ms": life.intervals["group.initial.rebalance.delay.ms"],
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": session,
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": heartbeat,
        "auto.create.topics.enable": "false",
    }


def record(seed: int, folder: Path) -> list[str]:
    """Record one life into a folder, and return the flaws of the recording."""
    life = draw(seed)
    with tempfile.TemporaryDirectory(prefix="random-life-") as scratch:
        broker = Broker(Path(scratch), broker_settings(life))
        with broker:
            recording = _Recording(life, broker.bootstrap)
            recording.play()
        recording.end()
        copy_segments(broker, folder)
        copy_server_log(broker, folder / "server.log")
    joined = joined_seconds(folder / "server.log", recording.began_at)
    recorded = life.as_json() | {"late_seconds": round(recording.late, 2), "joined_seconds": joined}
    (folder / "life.json").write_text(json.dumps(recorded, indent=1))
    said = f"at most {recording.late:.2f} s late, all groups joined after {joined:.2f} s"
    print(f"life {seed}: {life.seconds:.0f} s, {said}", file=sys.stderr)
    return flaws(recorded)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the options, and record. Return 1 if a life must be recorded again."""
    parser = argparse.ArgumentParser(prog="record_life", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to, one folder for each seed")
    options = parser.parse_args(arguments)
    code = 0
    for seed in options.seeds:
        for flaw in record(seed, options.out / str(seed)):
            print(f"life {seed} is recorded badly: {flaw}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
