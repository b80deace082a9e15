"""Results of a run of the lab: the broker's answers, and afterwards its log, its segments and the decoded records."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_broker import Broker
from kafka_jars import java_command

_TICK_SECONDS = 0.4
_COORDINATOR = re.compile(
    r"(?P<at>\S+) \w+ \[GroupCoordinator id=\d+ topic=__consumer_offsets partition=(?P<partition>\d+)\] (?P<text>.*)"
)
_QUICK = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


class Checkpoints:
    """A thread that asks the broker for the state of all groups, again and again until the ``with`` block ends.

    It asks once more at the end of the block.
    """

    def __init__(self, bootstrap: str, path: Path) -> None:
        """Start asking."""
        self._path = path
        self._ended = threading.Event()
        self._answers = 0
        self._answered = threading.Condition()
        # The admin client would warn of every partition with an open transaction, at every checkpoint.
        quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
        command = java_command("coordinatorreplay.Checkpoints", bootstrap, options=_QUICK, properties=quiet)
        self._admin = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._ticks = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._ticks.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the last checkpoint and end the admin client."""
        self._ended.set()
        self._ticks.join()
        if self._admin.stdin is not None:
            self._admin.stdin.close()
        self._admin.wait(60)

    def wait(self, patience_seconds: float) -> None:
        """Wait for the answer of a checkpoint that began after this call, but no longer than the given seconds.

        If the machine is busy and a script did not wait, no checkpoint might see a state of the script.
        """
        with self._answered:
            # The next answer may belong to a question from before this call.
            enough = self._answers + 2
            self._answered.wait_for(lambda: self._answers >= enough, patience_seconds)

    def _run(self) -> None:
        with self._path.open("w", encoding="utf-8") as file:
            while not self._ended.wait(_TICK_SECONDS):
                file.write(self._ask("tick"))
            file.write(self._ask("end"))

    def _ask(self, label: str) -> str:
        if self._admin.stdin is None or self._admin.stdout is None:
            raise RuntimeError("the admin client has no pipes")
        self._admin.stdin.write(label + "\n")
        self._admin.stdin.flush()
        answer = self._admin.stdout.readline()
        with self._answered:
            self._answers += 1
            self._answered.notify_all()
        return answer


class AskedCheckpoints:
    """Checkpoints that are taken only when a script waits, because at other times all brokers may be down.

    Each checkpoint has a new client, so that no client knows of brokers that are gone.
    """

    def __init__(self, bootstrap: str, path: Path) -> None:
        """Prepare checkpoints, without asking the brokers yet."""
        self._bootstrap, self._path = bootstrap, path

    def wait(self, patience_seconds: float) -> None:
        """Take a checkpoint. If no broker answers, write nothing."""
        quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
        command = java_command("coordinatorreplay.Checkpoints", self._bootstrap, options=_QUICK, properties=quiet)
        run = subprocess.run(
            command, input="asked\n", stdout=subprocess.PIPE, text=True, check=False, timeout=2 * patience_seconds
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(run.stdout)


def _group_of(text: str, groups: Iterable[str]) -> str | None:
    """Return the group that a line names. If several names fit, the longest is right: a name may begin with another."""
    named = [group for group in groups if re.search(rf"(?<![\w.-]){re.escape(group)}(?![\w.-]*\w)", text)]
    return max(named, key=len, default=None)


def write_broker_log(broker: Broker, groups: Iterable[str], path: Path) -> None:
    """Write the coordinators' lines in the broker's log, each as a JSON line."""
    known = tuple(groups)
    with broker.server_log.open(encoding="utf-8", errors="replace") as log, path.open("w", encoding="utf-8") as out:
        for line in log:
            said = _COORDINATOR.match(line)
            if said is None:
                continue
            at = datetime.strptime(said["at"], "%Y-%m-%dT%H:%M:%S.%f%z")
            entry = {
                "at": round(at.timestamp() * 1000),
                "partition": int(said["partition"]),
                "group": _group_of(said["text"], known),
                "text": said["text"].rstrip(),
            }
            out.write(json.dumps(entry) + "\n")


def copy_segments(broker: Broker, folder: Path) -> list[Path]:
    """Copy the segments of a broker that has stopped, and return the copies of ``__consumer_offsets``."""
    segments = []
    for segment in broker.segments():
        copy = folder / "segments" / segment.parent.name / segment.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        segments.append(shutil.copyfile(segment, copy))
    metadata = folder / "cluster-metadata"
    metadata.mkdir(parents=True, exist_ok=True)
    for segment in broker.segments("__cluster_metadata"):
        shutil.copyfile(segment, metadata / segment.name)
    return segments


def copy_server_log(broker: Broker, path: Path) -> None:
    """Copy the lines about groups from a broker's log. Other lines name folders of this machine."""
    lines = broker.server_log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "GroupCoordinator" in line or "GroupMetadata" in line))


def copy_dump(broker: Broker, folder: Path) -> None:
    """Copy the segments of a broker that has stopped, and decode them with Kafka's own classes."""
    segments = copy_segments(broker, folder)
    command = java_command("coordinatorreplay.DecodeSegments", *map(str, segments), options=_QUICK)
    with (folder / "decoded.jsonl").open("wb") as out:
        subprocess.run(command, stdout=out, check=True)
