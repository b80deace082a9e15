"""Programs of Spark's own distribution as processes on the loopback device."""

import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK = Path(pyspark.__file__).parent
DAEMONS = "org.apache.spark.deploy"
PATIENCE_SECONDS = 300
"""So long a program of Spark takes to start at most, on a machine with other work too."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(python: Path) -> dict[str, str]:
    """Nothing of Spark or Python but what is said here."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_"))}
    return inherited | {
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }


@contextmanager
def running(command: Sequence[str], env: dict[str, str], folder: Path, log: Path) -> Iterator[None]:
    """A program, until the block ends."""
    with log.open("w") as said:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=said, stderr=said)
    try:
        yield
    finally:
        # Spark's scripts become the JVM, and a worker ends its executors when it is asked to end.
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def daemon(python: Path, folder: Path, name: str, *arguments: str) -> Iterator[None]:
    """A process of the cluster, until the block ends."""
    command = [str(SPARK / "bin" / "spark-class"), f"{DAEMONS}.{name}", "--host", "127.0.0.1", *arguments]
    log = folder / f"{name.rpartition('.')[2]}-{time.monotonic_ns()}.log"
    with running(command, environment(python), folder, log):
        yield


def alive_workers(page: str) -> int:
    try:
        with urllib.request.urlopen(page, timeout=5) as answer:
            found = re.search(r'"aliveworkers"\s*:\s*(\d+)', answer.read().decode())
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


@contextmanager
def standalone_cluster(python: Path, folder: Path) -> Iterator[str]:
    """Start a master and two workers of one core each; yield the master's URL."""
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as processes:
        start = ("master.Master", "--port", str(port), "--webui-port", str(page))
        processes.enter_context(daemon(python, folder, *start))
        for number in (1, 2):
            own = ("--cores", "1", "--memory", "1g", "--webui-port", str(free_port()))
            work = ("--work-dir", str(folder / f"worker-{number}"))
            processes.enter_context(daemon(python, folder, "worker.Worker", *own, *work, url))
        until = time.monotonic() + PATIENCE_SECONDS
        while alive_workers(f"http://127.0.0.1:{page}/json/") < 2:
            assert time.monotonic() < until, "".join(log.read_text() for log in folder.glob("*.log"))
            time.sleep(0.5)
        yield url
