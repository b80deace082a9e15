"""The time until questions see a commit, and the files of the tables, while a topic is followed for half an hour.

The run is four times as fast as usual. The export writes a folder every 15 seconds, not every minute. The audit
maintains the tables every quarter of an hour, not every hour. So half an hour has the audits of two hours. Meanwhile
members join and leave, the cleaner works, and the broker is restarted once.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_broker import Broker
from kafka_jars import java_command
from kafka_source import kafka_source_jars
from lab.member import Member

from benchmarks.measured import Measured, Setting
from coordinator_replay import Warehouse
from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.log.dump import find_dump

MINUTES = 30
MOST_SECONDS = 120
"""Longest allowed time until questions see a commit."""

_GROUPS = 12
_PARTITIONS = 24
_TOPIC = "orders"
_PROBE = "asked-for"
_OFFSETS_PARTITIONS = 4

_CLEANED_SOON = {
    "offsets.topic.num.partitions": str(_OFFSETS_PARTITIONS),
    "offsets.topic.segment.bytes": str(1 << 20),
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    # Without this lag, such a cleaner removes new records before a follower has read them.
    "log.cleaner.min.compaction.lag.ms": "60000",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
}


@dataclass
class _Seen:
    """Measured values.

    Attributes:
        seconds: the time from the answer to a commit until questions see it, for each commit.
        files: pairs of the seconds since the beginning and the number of files of all tables at that time.
        unanswered: number of questions that ended with an error.
        missing: number of records that the broker wrote and the dump lacks.
    """

    seconds: list[float] = field(default_factory=list)
    files: list[tuple[float, int]] = field(default_factory=list)
    unanswered: int = 0
    missing: int = 0


def following(setting: Setting) -> Measured:
    """Measure the longest time in half an hour until questions see a commit, against two minutes."""
    seen = follow(setting.work / "following", minutes=MINUTES)
    worst = max(seen.seconds)
    return Measured(
        name="following",
        ours="from a commit until questions see it, the longest of half an hour",
        baseline="two minutes",
        ours_seconds=worst,
        baseline_seconds=MOST_SECONDS,
        ratio=worst / MOST_SECONDS,
        wanted="<= 1, and no record missing",
        holds=worst <= MOST_SECONDS and not seen.missing,
    )


def follow(work: Path, *, minutes: float) -> _Seen:
    """Follow a broker that is at work, and count at the end the broker's records that the dump lacks."""
    jars = kafka_source_jars(work / "jars")
    dump, warehouse, seen, over = work / "dump", work / "warehouse", _Seen(), threading.Event()
    with Broker(work / "broker", _CLEANED_SOON) as broker:
        broker.create_topic(_TOPIC, _PARTITIONS)
        exporting = [
            "export",
            "--bootstrap-servers",
            broker.bootstrap,
            "--out",
            str(dump),
            "--follow",
            "--every",
            "15s",
        ]
        auditing = ["audit", str(dump), "--warehouse", str(warehouse), "--follow", "--maintain-every", "15m"]
        with _at_work(broker, over), _process(exporting, jars, work / "export.log"):
            with _process(auditing, jars, work / "audit.log"):
                _ask(broker, warehouse, seen, minutes)
            over.set()
            _wait_until(lambda: {partition: end for partition, (end, _) in _dumped(dump).items()} == _ends(broker))
    # The cleaner swaps files while a broker runs.
    left = _records_left(broker)
    lines = (work / "audit.log").read_text("utf-8").splitlines()
    rounds = [line for line in lines if "audited " in line]
    # By now, the cleaner has removed most of these records from the log.
    records = sum(count for _, count in _dumped(dump).values())
    seen.missing = sum(end - count for end, count in _dumped(dump).values())
    seen.seconds.sort()
    report = {
        "minutes": minutes,
        "records": records,
        "records_missing": seen.missing,
        "records_that_the_cleaner_left": left,
        "audits": len(rounds),
        "upkeeps": sum("maintained the tables" in line for line in lines),
        "commits_asked_for": len(seen.seconds),
        "seconds_until_seen": {
            "median": round(seen.seconds[len(seen.seconds) // 2], 1),
            "longest": round(seen.seconds[-1], 1),
        },
        "questions_with_an_error": seen.unanswered,
        "files_of_all_tables": [(round(at), files) for at, files in seen.files],
    }
    (work / "report.json").write_text(json.dumps(report, indent=1))
    sys.stderr.write(json.dumps(report) + "\n")
    return seen


@contextmanager
def _process(options: list[str], jars: Path, log: Path) -> Iterator[None]:
    """Run a command during the block, then stop it with SIGTERM. Raise SystemExit if the command fails."""
    environment = {**os.environ, "COORDINATOR_REPLAY_JARS": str(jars)}
    with log.open("ab") as said:
        command = [sys.executable, "-m", "coordinator_replay", *options]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(300)
    if code:
        raise SystemExit(f"{options[0]} ended with code {code}: see {log}")


@contextmanager
def _at_work(broker: Broker, over: threading.Event) -> Iterator[None]:
    """Run groups during the block. Members commit every second; every ten seconds one leaves and another one joins."""
    numbers = iter(range(1_000_000))

    def member(group: int) -> Member:
        protocol = "consumer" if group % 3 == 0 else "classic"
        settings = {"client.id": f"client-{next(numbers)}", "group.protocol": protocol}
        return Member(broker.bootstrap, f"group-{group}", [_TOPIC], settings)

    members = [(group, member(group)) for group in range(_GROUPS) for _ in range(2)]

    def work() -> None:
        changed, offset, changes = time.monotonic(), 0, 0
        while not over.wait(1):
            offset += 1
            for _, one in members:
                # A member that is interrupted by a rebalance or by a restart of the broker commits a second later.
                with suppress(KafkaException, TimeoutError):
                    one.commit(offset)
            if time.monotonic() - changed > 10:
                changed = time.monotonic()
                changes += 1
                place = changes * 7 % len(members)
                group, leaving = members[place]
                leaving.leave()
                members[place] = (group, member(group))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join(120)
        for _, one in members:
            one.crash()


def _ask(broker: Broker, warehouse: Path, seen: _Seen, minutes: float) -> None:
    """Again and again commit, and ask until the answer has the commit.

    Restart the broker after two thirds of the time.
    """
    began, offset, is_restarted, counted = time.monotonic(), 0, False, 0.0
    _wait_until(lambda: (warehouse / "audit_runs").exists())
    while (now := time.monotonic() - began) < minutes * 60:
        if now - counted >= 60:
            counted = now
            seen.files.append((now, _files(warehouse)))
        if now > minutes * 40 and not is_restarted:
            is_restarted = True
            broker.stop()
            broker.__enter__()
        offset += 1
        _commit(broker, offset)
        at = time.monotonic()
        _wait_until(lambda wanted=offset: _committed(warehouse, seen) == wanted)
        seen.seconds.append(time.monotonic() - at)
        # Commits fall anywhere between two folders.
        time.sleep(offset * 7 % 15)
    seen.files.append((time.monotonic() - began, _files(warehouse)))


def _commit(broker: Broker, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    wanted = ConsumerGroupTopicPartitions(_PROBE, [TopicPartition(_TOPIC, 0, offset)])

    def is_done() -> bool:
        with suppress(KafkaException):
            (done,) = admin.alter_consumer_group_offsets([wanted], request_timeout=5).values()
            return not any(one.error for one in done.result().topic_partitions)
        return False

    _wait_until(is_done)


def _committed(warehouse: Path, seen: _Seen) -> int | None:
    try:
        asked = Warehouse(str(warehouse))
        try:
            return max((row.committed_offset for row in asked.offsets(_PROBE)), default=None)
        finally:
            asked.close()
    except CoordinatorReplayError as problem:
        if len(seen.seconds):
            seen.unanswered += 1
            sys.stderr.write(f"not answered: {problem}\n")
        return None


def _wait_until(condition: Callable[[], bool], most: float = 900) -> None:
    until = time.monotonic() + most
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"waited {most:.0f} s for what did not come")
        time.sleep(1)


def _files(warehouse: Path) -> int:
    """Return the number of files of the tables' newest versions."""
    from deltalake import DeltaTable

    tables = [log.parent for log in warehouse.rglob("_delta_log")]
    return sum(len(DeltaTable(str(table)).file_uris()) for table in tables)


def _dumped(dump: Path) -> dict[int, tuple[int, int]]:
    """Return the end of each partition in the dump, and the number of its records in the dump."""
    counts: dict[int, set[int]] = {}
    rows = 0
    for path in find_dump([str(dump)]).paths:
        table = pq.read_table(path, columns=["partition", "offset"])
        rows += table.num_rows
        for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True):
            counts.setdefault(partition, set()).add(offset)
    if rows != sum(map(len, counts.values())):
        raise SystemExit("the dump has records twice")
    return {partition: (max(offsets) + 1, len(offsets)) for partition, offsets in counts.items()}


def _ends(broker: Broker) -> dict[int, int]:
    """Return the end of each partition. Nothing here writes transaction markers, so every offset has a record."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", "log_level": 0})
    partitions = [TopicPartition("__consumer_offsets", number) for number in range(_OFFSETS_PARTITIONS)]
    ends = {one.partition: reader.get_watermark_offsets(one)[1] for one in partitions}
    reader.close()
    return {partition: end for partition, end in ends.items() if end}


def _records_left(broker: Broker) -> int:
    command = java_command("coordinatorreplay.DecodeSegments", *map(str, broker.segments()))
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sum('"control"' not in line for line in lines)


if __name__ == "__main__":
    follow(Path(sys.argv[1]), minutes=float(sys.argv[2]))
