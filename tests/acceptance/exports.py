"""Exports as processes of their own, and what is in the log and in the dump after them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator_replay.log.dump import find_dump
from tests.brokers import Broker

from kafka_jars import java_command  # isort: skip - tests.brokers puts the folder on the path

ROOT = Path(__file__).resolve().parents[2]

TOPIC = "orders"
PARTITIONS = 3
PATIENCE_SECONDS = 300


def commit(broker: Broker, offset: int) -> None:
    """Let five groups commit for every partition; a broker that has just started is asked again."""
    wanted = [TopicPartition(TOPIC, partition, offset) for partition in range(PARTITIONS)]
    for number in range(5):
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            asked = ConsumerGroupTopicPartitions(f"group-{number}", wanted)
            try:
                (done,) = admin.alter_consumer_group_offsets([asked], request_timeout=5).values()
                if not any(one.error for one in done.result().topic_partitions):
                    break
            except KafkaException:
                if time.monotonic() > until:
                    raise


def rebalance(broker: Broker, group: str, protocol: str) -> None:
    """Let two members join a group one after the other, and leave it again."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": protocol, "log_level": 0}
    members = []
    for _ in range(2):
        member = Consumer(settings)
        member.subscribe([TOPIC])
        members.append(member)
        until = time.monotonic() + 60
        while not member.assignment() and time.monotonic() < until:
            for one in members:
                one.poll(0.2)
    for member in members:
        member.close()


def export_command(bootstrap: str, out: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "coordinator_replay", "export", "--out", str(out), *options]
    return [*command, "--bootstrap-servers", bootstrap]


def environment(jars: Path) -> dict[str, str]:
    return {**os.environ, "COORDINATOR_REPLAY_JARS": str(jars), "PYTHONPATH": str(ROOT)}


def export(bootstrap: str, jars: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = export_command(bootstrap, out, "--output", "json", *options)
    return subprocess.run(command, env=environment(jars), capture_output=True, text=True)


def exported(broker: Broker, jars: Path, out: Path, *options: str) -> dict[str, Any]:
    run = export(broker.bootstrap, jars, out, *options)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


class Following:
    """A process that goes on until it is ended; its log takes what it says."""

    def __init__(self, command: list[str], jars: Path, log: Path) -> None:
        self.log = log
        with log.open("ab") as said:
            self.process = subprocess.Popen(
                command,
                env=environment(jars),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def told(self) -> str:
        return self.log.read_text("utf-8")

    def waits_until(self, condition: Any) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self.process.poll() is None, self.told()
            assert time.monotonic() < until, self.told()
            time.sleep(0.5)

    def kill(self) -> None:
        """End it and its Java at once, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Ask it to end; its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_SECONDS)


class Follower(Following):
    """One that follows the topic."""

    def __init__(self, broker: Broker, jars: Path, out: Path, log: Path, *, every: str = "2s") -> None:
        super().__init__(export_command(broker.bootstrap, out, "--follow", "--every", every), jars, log)


def written(broker: Broker) -> list[tuple[int, int]]:
    """Partition and offset of every record in the broker's log but markers, as Kafka's classes read it."""
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = java_command("coordinatorreplay.DecodeSegments", *map(str, broker.segments()), options=options)
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    return sorted((record["partition"], record["offset"]) for record in records if "control" not in record)


def dumped(out: Path) -> list[tuple[int, int]]:
    """The same of every record that an audit of the dump would read."""
    positions: list[tuple[int, int]] = []
    for path in find_dump([str(out)]).paths if list(out.glob("export-*/_SUCCESS")) else ():
        rows = pyarrow.parquet.read_table(path, columns=["partition", "offset"])
        positions += zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    return sorted(positions)
