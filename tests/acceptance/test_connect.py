"""Over Spark Connect, with a server on the loopback device, an audit leaves the tables of one in this process."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.spark_processes import PATIENCE_SECONDS, SPARK, environment, free_port, running
from tests.pipeline.in_process import audit_here, contents
from tests.samples import Sample

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not [*SPARK.glob("jars/spark-connect_*.jar")], reason="Spark 3.5 comes without the server"),
]

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Sample("java-clients")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server's URL."""
    pytest.importorskip("grpc")
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    command = [str(SPARK / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    # Spark starts this class with the memory of its daemons.
    own = {"PYTHONPATH": str(ROOT), "SPARK_DAEMON_MEMORY": "1g"}
    env, log = {**environment(Path(sys.executable)), **own}, folder / "server.log"
    with running(command, env, folder, log):
        until = time.monotonic() + PATIENCE_SECONDS
        while not is_open(port):
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def typed(server: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a shell that names the server."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_REMOTE": server}
    command = [sys.executable, "-m", "coordinator_replay", *arguments]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=600)


def test_an_audit_leaves_the_tables_of_one_in_this_process(server: str, tmp_path: Path) -> None:
    done = typed(server, tmp_path, "audit", SAMPLE.segments, "--warehouse", str(tmp_path / "remote"))
    assert done.returncode == 0, done.stderr
    assert "decode segments: 1 task, read 4 files" in done.stderr
    audit_here(tmp_path / "here", SAMPLE.segments, buckets=None)
    assert contents(tmp_path / "remote") == contents(tmp_path / "here")


def test_export_says_what_session_it_needs(server: str, tmp_path: Path) -> None:
    done = typed(server, tmp_path, "export", "--bootstrap-servers", "127.0.0.1:9", "--out", str(tmp_path / "dump"))
    assert done.returncode == 1
    assert "export needs a classic Spark session" in done.stderr
