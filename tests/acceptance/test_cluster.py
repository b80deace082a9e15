"""On a real standalone cluster, from an archive that spark-submit ships, an audit leaves what it leaves on one machine.

A master and two workers run as processes on the loopback device. Their Python has what the package depends on, and not
the package itself: what runs on them can only have come with the job.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from coordinator_replay.pipeline.host.jars import delta, jars_of
from coordinator_replay.pipeline.host.session import DELTA as DELTA_SETTINGS
from coordinator_replay.tables.definition import tables
from tests.acceptance.spark_processes import SPARK, environment, standalone_cluster
from tests.samples import Sample

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Sample("java-clients")
OF_ITS_RUN = ["run_id", "found_in_run", "started_at", "finished_at", "inputs", "settings", "table_versions", "stages"]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has all that is installed here but what is installed as an editable: such files name folders."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Of a folder that a .pth file names, no .pth files are read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    asked = (
        "from importlib.util import find_spec; "
        "print(find_spec('pyspark') is not None, getattr(find_spec('coordinator_replay'), 'origin', None))"
    )
    told = subprocess.run([python, "-c", asked], env=environment(python), cwd=folder, capture_output=True, text=True)
    assert told.stdout == "True None\n", told.stderr
    return python


@pytest.fixture(scope="module")
def master(bare_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(bare_python, tmp_path_factory.mktemp("cluster")) as url:
        yield url


def submit(
    python: Path,
    master: str,
    archive: Path,
    *arguments: str,
    folder: Path,
    job: Path = ROOT / "jobs" / "audit.py",
    **changed: str,
) -> subprocess.CompletedProcess[str]:
    settings = {
        **DELTA_SETTINGS,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        **{f"spark.{name}": value for name, value in changed.items()},
    }
    command = [str(SPARK / "bin" / "spark-submit"), "--master", master, "--py-files", str(archive)]
    command += ["--jars", ",".join(map(str, jars_of(delta())))]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command += [str(job), *arguments]
    return subprocess.run(command, env=environment(python), cwd=folder, capture_output=True, text=True, timeout=900)


def content(warehouse: Path, name: str) -> list[str]:
    table = DeltaTable(str(warehouse / name)).to_pyarrow_table()
    return sorted(map(repr, table.drop_columns([c for c in OF_ITS_RUN if c in table.column_names]).to_pylist()))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, as it is sent to executors."""
    folder = tmp_path_factory.mktemp("archive")
    packed = subprocess.run([ROOT / "scripts" / "package", folder], capture_output=True, text=True)
    assert packed.returncode == 0, packed.stderr
    return folder / "coordinator_replay.zip"


READING = """
import sys
from pyspark.sql import SparkSession
from coordinator_replay.spark import register, replay_groups

spark = SparkSession.builder.getOrCreate()
register(spark)
log = spark.read.format("consumer_offsets").load(sys.argv[1])
replay = replay_groups(log)
print("read", log.count(), "later", log.where("log_offset >= 20").count(), "rebalances", replay.rebalances.count())
"""


def test_the_data_source_and_the_replay_run_on_a_cluster(
    bare_python: Path, master: str, archive: Path, tmp_path: Path
) -> None:
    job = tmp_path / "reading.py"
    job.write_text(READING)
    done = submit(bare_python, master, archive, SAMPLE.segments, folder=tmp_path, job=job)
    assert done.returncode == 0, done.stderr[-5000:]
    later = sum(record["offset"] >= 20 for record in SAMPLE.decoded)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("read "))
    assert line.startswith(f"read {len(SAMPLE.decoded)} later {later} rebalances ")
    assert int(line.rpartition(" ")[2]) > 0


GROWING = {
    "dynamicAllocation.enabled": "true",
    "dynamicAllocation.shuffleTracking.enabled": "true",
    "dynamicAllocation.initialExecutors": "0",
    "dynamicAllocation.minExecutors": "0",
    "dynamicAllocation.executorIdleTimeout": "5s",
    "sql.adaptive.enabled": "true",
}
"""No executor is there when the audit begins."""


@pytest.mark.parametrize("settings", [{}, GROWING], ids=["two workers", "executors as needed"])
def test_an_audit_on_a_cluster_leaves_the_tables_of_one_on_this_machine(
    bare_python: Path, master: str, archive: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    inputs = (SAMPLE.segments, "--cluster-metadata", str(SAMPLE.folder / "cluster-metadata"))
    there = (*inputs, "--warehouse", str(tmp_path / "remote"))
    remote = submit(bare_python, master, archive, *there, folder=tmp_path, **settings)
    assert remote.returncode == 0, remote.stderr[-5000:]
    assert "records of 4 log partitions" in remote.stdout

    here = [*inputs, "--warehouse", str(tmp_path / "local"), "--buckets", "50"]
    command = [sys.executable, "-m", "coordinator_replay", "audit", *here]
    local = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert local.returncode == 0, local.stderr
    for name in tables():
        assert content(tmp_path / "remote", name) == content(tmp_path / "local", name), name
    assert content(tmp_path / "remote", "rebalances")
    assert content(tmp_path / "remote", "offset_history")
