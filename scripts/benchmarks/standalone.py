"""The row of a cluster: the same audit on a standalone cluster with two workers of one core, and on ``local[2]``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measured import Measured, Setting, seconds
from tests.acceptance.spark_processes import SPARK, environment, standalone_cluster

ROOT = Path(__file__).resolve().parents[2]


def _audit(master: str, setting: Setting, folder: Path) -> None:
    """Run the nightly job as on a cluster whose workers have the package installed."""
    warehouse = folder / "warehouse"
    shutil.rmtree(warehouse, ignore_errors=True)
    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    command = [str(SPARK / "bin" / "spark-submit"), "--master", master]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command += [str(ROOT / "jobs" / "audit.py"), str(setting.dump), "--warehouse", str(warehouse)]
    done = subprocess.run(command, env=environment(Path(sys.executable)), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def _cpu_seconds() -> float:
    """Return the CPU time of all ended processes that this process started."""
    spent = os.times()
    return spent.children_user + spent.children_system


def cluster(setting: Setting) -> Measured:
    """Measure an audit on a standalone cluster against the same audit on one machine, from Enter to the prompt."""
    folder = setting.work / "cluster"
    folder.mkdir()
    before = _cpu_seconds()
    here = [seconds(lambda: _audit("local[2]", setting, folder)) for _ in range(setting.repeat)]
    between = _cpu_seconds()
    with standalone_cluster(Path(sys.executable), folder) as master:
        there = [seconds(lambda: _audit(master, setting, folder)) for _ in range(setting.repeat)]
    # The processes of the cluster have ended, so their CPU time is counted now.
    here_cpu, there_cpu = between - before, _cpu_seconds() - between
    ratio = min(there) / min(here)
    return Measured(
        name="cluster",
        ours=f"two workers of one core, {there_cpu / setting.repeat:.0f} s of CPU for each audit, with the daemons'",
        baseline=f"local[2], {here_cpu / setting.repeat:.0f} s of CPU",
        ours_seconds=min(there),
        baseline_seconds=min(here),
        ratio=ratio,
        wanted="<= 2 x local[2]",
        holds=ratio <= 2,
    )
