"""Programs of Spark's own distribution as processes on the loopback device."""

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

SPARK = Path(pyspark.__file__).parent
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
