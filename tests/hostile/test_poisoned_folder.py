"""Started in a folder that somebody sent, full of Python files named like modules: none of them is ever run."""

import os
import subprocess
import sys
from collections.abc import Collection
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.samples import Sample

ROOT = Path(__file__).parents[2]
OWN = {"coordinator_replay", "tests", "__main__"}
SPARK_HOME = (
    Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "pyspark"
)


def imported_by_python() -> set[str]:
    """What ``python -m`` itself imports before it comes to a program; only ``python -P -m`` is safe from these."""
    ask = "import runpy, pkgutil, typing, sys; print(*{name.split('.')[0] for name in sys.modules})"
    return set(subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True, text=True).stdout.split())


def poisoned(folder: Path, spared: Collection[str] = ()) -> Path:
    """A dump in a folder with a file for each module that Python, we, or what we use may ask for."""
    folder.mkdir()
    mark = f"open({str(folder / 'MARK')!r}, 'a').write(__name__ + ' ')\n"
    names = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"} - OWN - set(spared)
    for name in names:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(mark)
    (folder / ".numba_config.yaml").write_text("cache_dir: here\nno_such_setting: 1\n")
    (folder / ".mvn").mkdir()
    (folder / ".mvn" / "jvm.config").write_text("-XX:NoSuchOption\n")
    (folder / "dump").symlink_to(Path(Sample("transactions").segments))
    return folder


def run(folder: Path, *command: str, env: dict[str, str] | None = None) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env={**clean, **(env or {})}, capture_output=True, text=True, timeout=300, check=False
    )
    assert not (folder / "MARK").exists(), (folder / "MARK").read_text()
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAMS = {
    "module": (sys.executable, "-m", "coordinator_replay"),
    "module, safely": (sys.executable, "-P", "-m", "coordinator_replay"),
    "script": (str(Path(sys.executable).with_name("coordinator-replay")),),
}


QUESTIONS = (
    ("groups",),
    ("describe", "payments"),
    ("offsets", "payments"),
    ("report", "payments", "--out", "page.html"),
    ("timeline", "payments"),
    ("why",),
    ("sql", "SELECT 1"),
    ("rebalances",),
    ("owner", "payments", "orders", "0"),
    ("trace", "payments", "--out", "trace.json"),
    ("expired",),
    ("findings",),
)


@pytest.mark.parametrize(
    ("program", "asked"),
    [
        ("module", QUESTIONS[:1]),
        ("script", QUESTIONS[::6]),
        *(pytest.param(program, QUESTIONS, marks=pytest.mark.long) for program in PROGRAMS),
    ],
)
def test_commands_without_spark_import_nothing_of_the_current_folder(tmp_path, program, asked, small):
    folder = poisoned(tmp_path / "sent", imported_by_python() if program == "module" else ())
    assert run(folder, *PROGRAMS[program], "decode", "dump")
    for command, *rest in asked:
        run(folder, *PROGRAMS[program], command, "--warehouse", str(small), *rest)


@pytest.mark.long
@pytest.mark.spark
def test_an_audit_and_upkeep_import_nothing_of_the_current_folder(tmp_path):
    folder = poisoned(tmp_path / "sent")
    program = PROGRAMS["script"]
    assert "45 records" in run(folder, *program, "audit", "dump", "--warehouse", "warehouse", "--records-only")
    run(folder, *program, "maintain", "--warehouse", "warehouse")
    assert "bank-eos" in run(folder, *program, "sql", "FROM offset_commits", "--warehouse", "warehouse")


@pytest.mark.spark
@pytest.mark.long
def test_a_job_of_spark_submit_imports_nothing_of_the_current_folder(tmp_path):
    from coordinator_replay.pipeline.host.jars import delta, jars_of
    from coordinator_replay.pipeline.host.session import DELTA as DELTA_SETTINGS

    folder = poisoned(tmp_path / "sent")
    *_, archive = run(tmp_path, str(ROOT / "scripts" / "package"), str(tmp_path)).split()
    settings = ["--py-files", archive]
    few = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}
    for name, value in {**DELTA_SETTINGS, **few, "spark.ui.enabled": "false"}.items():
        settings += ["--conf", f"{name}={value}"]
    jars = ("--jars", ",".join(map(str, jars_of(delta()))))
    job = (str(ROOT / "jobs" / "audit.py"), "dump", "--warehouse", "warehouse", "--records-only")
    submit = str(SPARK_HOME / "bin" / "spark-submit")
    env = {"PYSPARK_PYTHON": sys.executable}
    assert "45 records" in run(folder, submit, "--master", "local[2]", *settings, *jars, *job, env=env)
