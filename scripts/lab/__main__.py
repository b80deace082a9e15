"""Runs the lab: ``python -m lab``; ``scripts/broker-lab`` sets it up."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from kafka_broker import Broker

from coordinator_replay.errors import PrerequisiteError
from lab.journal import Journal
from lab.life import Life, LifeError
from lab.lives import LIVES, SESSION_SECONDS
from lab.recording import Checkpoints, copy_dump, copy_server_log, write_broker_log

_SESSION_MS = str(round(SESSION_SECONDS * 1000))

BROKER = {
    # Short sessions keep runs short. Members that start together still share a rebalance.
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": _SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.migration.policy": "bidirectional",
    # Few groups share a partition, so that a checkpoint belongs to known end offsets for most of them.
    "offsets.topic.num.partitions": "32",
    # A topic of a script must not exist before the script creates it.
    "auto.create.topics.enable": "false",
}


def run_lab(folder: Path, names: Sequence[str], at_once: int = 6, version: str | None = None) -> list[str]:
    """Run lives on a broker, and write the results.

    Args:
        folder: folder of the results; created if it is missing.
        names: names of the lives.
        at_once: number of lives that run at the same time.
        version: version of Kafka; None for the version of ``scripts/kafka``.

    Returns:
        A sentence for each life that did not follow its script.
    """
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder / "journal.jsonl")
    with tempfile.TemporaryDirectory(prefix="broker-lab-") as scratch:
        broker = Broker(Path(scratch), BROKER, version=version)
        lives: list[Life] = []

        def live(name: str, checkpoints: Checkpoints) -> str | None:
            script = LIVES[name]
            life = Life(name, script.protocol, broker.bootstrap, journal, checkpoints)
            lives.append(life)
            began = time.monotonic()
            try:
                script.act(life)
            except LifeError as problem:
                return str(problem)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            return None

        with broker:
            # Checkpoints end before the broker stops, so that the last answer fits the last records.
            with (
                Checkpoints(broker.bootstrap, folder / "checkpoints.jsonl") as checkpoints,
                ThreadPoolExecutor(at_once) as pool,
            ):
                told = pool.map(partial(live, checkpoints=checkpoints), names)
                failed = [problem for problem in told if problem is not None]
            journal.note(None, "broker_stopping", how="clean")
        for life in lives:
            life.end()
        write_broker_log(broker, names, folder / "broker-log.jsonl")
        copy_server_log(broker, folder / "server.log")
        copy_dump(broker, folder)
    journal.close()
    return failed


def main() -> int:
    """Parse the options, run the lives, and report the lives that failed."""
    parser = argparse.ArgumentParser(prog="broker-lab", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write to")
    parser.add_argument("--lives", help="names, joined by commas; all of them if left out")
    parser.add_argument("--at-once", type=int, default=6, help="how many lives go on side by side")
    parser.add_argument("--kafka", help="version of the broker, such as 3.9.1: Scala's coordinator, classic lives only")
    parser.add_argument("--list", action="store_true", help="tell the lives and end")
    options = parser.parse_args()
    if options.list:
        for name, script in LIVES.items():
            print(f"{name:28} {(script.act.__doc__ or '').splitlines()[0]}")
        return 0
    names = options.lives.split(",") if options.lives else list(LIVES)
    unknown = [name for name in names if name not in LIVES]
    if unknown or options.out is None:
        parser.error(f"no life is called {', '.join(unknown)}; --list tells them" if unknown else "--out is needed")
    try:
        failed = run_lab(options.out, names, options.at_once, options.kafka)
    except PrerequisiteError as problem:
        print(f"broker-lab: {problem}", file=sys.stderr)
        return 1
    for problem in failed:
        print(f"broker-lab: {problem}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
