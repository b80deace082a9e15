"""Records failovers and an unclean election: ``python -m lab.record_failovers --out DIR``.

There are a controller and two brokers. Both brokers have every partition of ``__consumer_offsets``, and the second
broker logs in another time zone. The coordinators move when a broker is stopped, and when a broker is killed. In the
end, one broker is alone. It writes records, which ``first`` has, and is killed. The other broker lacks these records,
but is elected. ``second`` has its final log. ``checkpoints.jsonl`` has the answers of the brokers in between.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka_broker import Broker

from lab.journal import Journal
from lab.life import Life, LifeError
from lab.member import SILENT
from lab.recording import AskedCheckpoints, copy_segments, copy_server_log

ZONES = {1: None, 2: "Asia/Kolkata"}
CONTROLLER = 100
GROUPS = {"brig": "classic", "ketch": "classic", "barque": "consumer", "sloop": "consumer"}
_PATIENCE_SECONDS = 120.0
_SETTLE_SECONDS = 8.0
_TIMES = 5
_TOPIC = "__consumer_offsets"
_SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
    "default.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
    # Only the script changes the leader of a partition.
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
}


class Cluster:
    """A controller and two brokers. A script starts and ends the brokers."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        """Describe the nodes. ``start`` starts a broker."""
        self.journal = journal
        self.controller = Broker(
            folder / "controller", {**_SETTINGS, "process.roles": "controller", "node.id": str(CONTROLLER)}
        )
        voters = {"process.roles": "broker", "controller.quorum.voters": self.controller.voters}
        self.brokers = {
            number: Broker(folder / f"broker-{number}", {**_SETTINGS, **voters, "node.id": str(number)}, zone)
            for number, zone in ZONES.items()
        }
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=SILENT)

    def start(self, number: int) -> None:
        """Start a broker and wait until it has caught up."""
        self.journal.note(None, "broker_started", broker=number)
        self.brokers[number].__enter__()

    def stop(self, number: int) -> None:
        """Stop a broker in order, so that it hands its partitions over."""
        self.journal.note(None, "broker_stopping", broker=number, how="clean")
        self.brokers[number].stop()

    def kill(self, number: int) -> None:
        """Kill a broker."""
        self.journal.note(None, "broker_killed", broker=number)
        self.brokers[number].kill()

    def wait_for(self, leaders: set[int], in_sync: set[int]) -> None:
        """Wait until one of ``leaders`` leads each partition of the topic, and exactly ``in_sync`` are in sync."""

        def is_reached() -> bool:
            try:
                topics = self.admin.list_topics(timeout=10).topics
            except KafkaException:
                return False
            partitions = topics[_TOPIC].partitions.values() if _TOPIC in topics else ()
            return bool(partitions) and all(one.leader in leaders and set(one.isrs) == in_sync for one in partitions)

        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_reached():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{_TOPIC} is not led by {leaders} with {in_sync} in sync")
            time.sleep(0.5)
        time.sleep(_SETTLE_SECONDS)


def settle(life: Life) -> None:
    """Wait until a group is at rest, and let its members commit. If the broker refuses a commit, try again."""
    for _ in range(_TIMES):
        try:
            return life.settle()
        except KafkaException as problem:
            life.note("commit_refused", error=str(problem))
    raise LifeError(f"group {life.group} does not come to rest")


class _Script:
    def __init__(self, cluster: Cluster, lives: Sequence[Life], folder: Path) -> None:
        self.cluster, self.lives, self.folder = cluster, lives, folder
        self.topics: dict[str, str] = {}

    def each(self, act: Callable[[Life], None]) -> None:
        for life in self.lives:
            act(life)

    def play(self) -> None:
        self.each(self.begin)
        self.cluster.wait_for({1, 2}, {1, 2})
        self.failovers()
        self.cluster.stop(2)
        self.cluster.wait_for({1}, {1})
        self.each(lambda life: self.join(life, "lost"))
        keep(self.cluster.brokers[1], self.folder / "first")
        self.cluster.kill(1)
        self.cluster.start(2)
        self.cluster.wait_for({2}, {2})
        self.each(settle)
        self.each(lambda life: life.close("lost"))
        self.each(lambda life: self.join(life, "late"))
        self.cluster.start(1)
        self.cluster.wait_for({2}, {1, 2})
        self.each(settle)

    def failovers(self) -> None:
        self.cluster.stop(1)
        self.cluster.wait_for({2}, {2})
        self.each(settle)
        self.cluster.start(1)
        self.cluster.wait_for({2}, {1, 2})
        self.each(lambda life: self.join(life, "third"))
        self.cluster.kill(2)
        self.cluster.wait_for({1}, {1})
        self.each(settle)
        self.cluster.start(2)
        self.cluster.wait_for({1}, {1, 2})

    def begin(self, life: Life) -> None:
        self.topics[life.group] = life.topic("orders", 4)
        for name in ("first", "second"):
            self.start(life, name)
        settle(life)

    def join(self, life: Life, name: str) -> None:
        self.start(life, name)
        settle(life)

    def start(self, life: Life, name: str) -> None:
        # A long session timeout: no member must be removed because the machine is busy.
        patient = {"session_timeout_ms": 30_000} if life.protocol == "classic" else {}
        life.start(name, self.topics[life.group], **patient)


def keep(broker: Broker, folder: Path) -> None:
    """Copy the folders of a broker's log partitions: segments, leader epochs and the topic id, without indexes."""
    for path in broker.segments():
        copy = folder / path.parent.name
        shutil.copytree(path.parent, copy, ignore=shutil.ignore_patterns("*index", "*.snapshot"), dirs_exist_ok=True)


def record(folder: Path) -> None:
    """Record the failovers into a folder."""
    folder.mkdir(parents=True)
    journal = Journal(folder / "journal.jsonl")
    with tempfile.TemporaryDirectory(prefix="failovers-") as scratch, ExitStack() as running:
        cluster = Cluster(Path(scratch), journal)
        running.enter_context(cluster.controller)
        for number, broker in cluster.brokers.items():
            running.callback(broker.stop)
            cluster.start(number)
        checkpoints = AskedCheckpoints(cluster.bootstrap, folder / "checkpoints.jsonl")
        lives = [Life(group, kind, cluster.bootstrap, journal, checkpoints) for group, kind in GROUPS.items()]
        _Script(cluster, lives, folder).play()
        for number in (1, 2):
            cluster.stop(number)
        for life in lives:
            life.end()
        keep(cluster.brokers[2], folder / "second")
        for number, broker in cluster.brokers.items():
            copy_server_log(broker, folder / f"server-{number}.log")
        copy_segments(cluster.controller, folder)
    journal.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the options, and record."""
    parser = argparse.ArgumentParser(prog="record_failovers", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    record(parser.parse_args(arguments).out)


if __name__ == "__main__":
    main()
