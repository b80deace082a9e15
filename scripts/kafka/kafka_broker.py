"""A real broker for tests and the broker lab: a KRaft node on loopback that keeps everything in one folder."""

import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_jars import java_command

from coordinator_replay.errors import PrerequisiteError

_CLUSTER_ID = "coordinator-replay-lab"
_READY = "Kafka Server started"
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_WITH_ZONE, _LOCAL = "yyyy-MM-dd'T'HH:mm:ss.SSSZ", "'['yyyy-MM-dd HH:mm:ss,SSS']'"

_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # Internal topics have three replicas by default, but there is one node.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The default of fifty partitions is for clusters. A broker with few partitions starts faster.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


def _free_ports(count: int) -> list[int]:
    """Return free ports of loopback. All are bound before the first is closed, so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports


class Broker:
    """A Kafka broker that runs during a ``with`` block. Its folder stays afterwards.

    Lines of ``server_log`` begin with a time: ``2026-11-21T10:00:00.000+0000 INFO …``. If ``time_zone`` is given, they
    begin like lines of Kafka's distribution: ``[2026-11-21 15:30:00,000] INFO …``.

    Attributes:
        bootstrap: address for clients.
        voters: ``controller.quorum.voters`` for further nodes of the cluster.
        log_folder: partition folders, among them ``__consumer_offsets-N`` and ``__cluster_metadata-0``.
        server_log: the broker's own log.
    """

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        time_zone: str | None = None,
        version: str | None = None,
    ) -> None:
        """Describe a broker. ``with`` starts it.

        Args:
            folder: an empty or missing folder, or the folder of an earlier broker, whose log is then continued.
            properties: broker settings. They extend and replace the defaults of a small single node.
            time_zone: time zone of the broker's machine, for local times in the log; None for UTC offsets.
            version: version of Kafka; None for the version in the pom.
        """
        self.folder = folder
        self.log_folder = folder / "log"
        self.server_log = folder / "server.log"
        client_port, controller_port = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{client_port}"
        chosen = {**_DEFAULTS, **(properties or {})}
        addresses = {
            "broker": f"PLAINTEXT://{self.bootstrap}",
            "controller": f"CONTROLLER://127.0.0.1:{controller_port}",
        }
        listeners = ",".join(addresses[role] for role in chosen["process.roles"].split(","))
        self.voters = f"{chosen['node.id']}@127.0.0.1:{controller_port}"
        self._properties = {
            "listeners": listeners,
            "advertised.listeners": listeners.partition(",")[0],
            "controller.quorum.voters": self.voters,
            "log.dirs": str(self.log_folder),
            **chosen,
        }
        self._time_zone = time_zone
        self._version = version
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Format the folder if it is new, start the broker and wait until it serves clients.

        Raises:
            PrerequisiteError: Kafka's jars can't be fetched, or the broker does not start.
        """
        settings = self._write_settings()
        if not (self.log_folder / "meta.properties").exists():
            self.run_tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(settings))
        logging = {
            "org.slf4j.simpleLogger.defaultLogLevel": "info",
            "org.slf4j.simpleLogger.showDateTime": "true",
            "org.slf4j.simpleLogger.dateTimeFormat": _WITH_ZONE if self._time_zone is None else _LOCAL,
            "org.slf4j.simpleLogger.showThreadName": "false",
            "org.slf4j.simpleLogger.showLogName": "false",
            **({} if self._time_zone is None else {"user.timezone": self._time_zone}),
        }
        options = ["-Xms256m", "-Xmx1g"]
        command = java_command("kafka.Kafka", str(settings), options=options, properties=logging, version=self._version)
        with self.server_log.open("ab") as log:
            said_before = log.tell()
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            self._wait_until_ready(self._process, said_before)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the broker."""
        self.stop()

    def stop(self) -> None:
        """Shut the broker down in order. Kill its process if this takes more than a minute."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the broker's process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def segments(self, topic: str = "__consumer_offsets") -> list[Path]:
        """Return the segments of a topic, in the order of partition and base offset."""
        partitions = sorted(self.log_folder.glob(f"{topic}-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        return [segment for partition in partitions for segment in sorted(partition.glob("*.log"))]

    def run_tool(self, main_class: str, *arguments: str, send: str = "") -> str:
        """Run one of Kafka's command line tools to its end, and return its output.

        Args:
            main_class: the tool's class, such as ``org.apache.kafka.tools.TopicCommand``.
            arguments: the tool's arguments, with ``--bootstrap-server`` if the tool needs it.
            send: text for the tool's standard input.

        Raises:
            PrerequisiteError: the tool fails. The text ends with the last line of its output.
        """
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = java_command(main_class, *arguments, options=options, version=self._version)
        run = subprocess.run(command, input=send, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            said = (run.stdout + run.stderr).strip().splitlines()
            raise PrerequisiteError(f"{main_class} failed: {said[-1] if said else run.returncode}")
        return run.stdout

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic, and wait until the broker has created it."""
        where = ["--bootstrap-server", self.bootstrap]
        what = ["--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "1"]
        self.run_tool("org.apache.kafka.tools.TopicCommand", *where, *what)

    def _write_settings(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "server.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()))
        return settings

    def _wait_until_ready(self, process: subprocess.Popen[bytes], said_before: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            said = self.server_log.read_bytes()[said_before:].decode(errors="replace")
            if _READY in said:
                return
            if process.poll() is not None:
                last = next((line for line in reversed(said.splitlines()) if " ERROR " in line), said[-300:])
                raise PrerequisiteError(f"the broker ended while starting ({self.server_log}): {last}")
            time.sleep(0.1)
        raise PrerequisiteError(f"the broker did not come up in {_START_SECONDS:.0f} s ({self.server_log})")
