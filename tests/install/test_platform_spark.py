"""A platform's own Spark: pyspark is on the path, and pip knows nothing of it or of Delta."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.install.wheel import ROOT
from tests.pipeline.in_process import audit_here, contents
from tests.samples import Sample

_UNKNOWN = re.compile(r"(pyspark|py4j|delta_spark)-[^/]*\.(dist|egg)-info|delta|.*\.pth")
"""What a platform lacks: metadata, and the package of Delta."""

SAMPLE = Sample("kafka-3.9")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all that is installed here, as a platform has it."""
    folder = tmp_path_factory.mktemp("platform")
    venv.create(folder / "environment", with_pip=False, symlinks=True)
    packages = folder / "packages"
    packages.mkdir()
    # The first folder of the path counts, as it does for imports.
    for site in (Path(entry) for entry in sys.path if Path(entry).name == "site-packages"):
        for entry in site.iterdir():
            if not _UNKNOWN.fullmatch(entry.name) and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    (own,) = (folder / "environment").glob("lib/python*/site-packages")
    (own / "platform.pth").write_text(f"{packages}\n")
    return folder / "environment" / "bin" / "python"


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "COORDINATOR_REPLAY_JARS"}
    env |= {"PYTHONPATH": str(ROOT)}
    return subprocess.run([str(python), *arguments], env=env, cwd=folder, capture_output=True, text=True, timeout=600)


def test_pip_knows_nothing_of_it(python: Path, tmp_path: Path) -> None:
    asked = "import pyspark, importlib.metadata as m; print([*m.distributions(name='pyspark')], pyspark.__version__)"
    told = run(python, tmp_path, "-c", asked)
    assert re.fullmatch(r"\[\] \d+\.\d+\.\d+\n", told.stdout), told.stderr


@pytest.mark.spark
def test_an_audit_runs_on_it(python: Path, tmp_path: Path) -> None:
    asked = ("-m", "coordinator_replay", "audit", SAMPLE.segments, "--warehouse", str(tmp_path / "there"))
    done = run(python, tmp_path, *asked)
    assert done.returncode == 0, done.stderr
    audit_here(tmp_path / "here", SAMPLE.segments, buckets=None)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_what_needs_delta_says_so(python: Path, tmp_path: Path) -> None:
    asked = (
        "-m",
        "coordinator_replay",
        "audit",
        SAMPLE.segments,
        "--warehouse",
        str(tmp_path / "w"),
        "--database",
        "d",
    )
    done = run(python, tmp_path, *asked)
    assert done.returncode == 1
    assert "the package delta-spark" in done.stderr
    assert "install it, or run jobs/audit.py in a session that knows Delta" in done.stderr
