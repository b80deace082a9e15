"""The wheel is whole: what it has, and that an installation of it needs no checkout.

The dependencies of the quick tests are those of the tests' own environment; test_first_hour.py installs all of it.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from coordinator_replay.version import __version__
from tests.install.wheel import ROOT, Installed, build_wheel
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    # Of a folder that a .pth file names, no .pth files are read: the checkout's own installation is not found by it.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [sys.executable, "-m", "pip", "--python", environment, "install", "--quiet", "--no-deps", wheel]
    subprocess.run(command, check=True)
    return Installed(environment, folder / "work")


def tracked(folder: str) -> set[str]:
    """Files of the checkout that are part of the project."""
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name}


def test_the_wheel_has_the_package_and_everything_that_it_reads(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    places = {
        "coordinator_replay/": "coordinator_replay/",
        "schemas/": "coordinator_replay/schemas/",
        "conf/queries/": "coordinator_replay/queries/",
        "jobs/": f"coordinator_replay-{__version__}.data/data/share/coordinator-replay/jobs/",
        "conf/kubernetes/": f"coordinator_replay-{__version__}.data/data/share/coordinator-replay/conf/kubernetes/",
        "conf/platforms/": f"coordinator_replay-{__version__}.data/data/share/coordinator-replay/conf/platforms/",
        "conf/nights/": f"coordinator_replay-{__version__}.data/data/share/coordinator-replay/conf/nights/",
    }
    for source, target in places.items():
        expected = {name.replace(source, target, 1) for name in tracked(source)}
        assert expected, source
        assert expected <= names, sorted(expected - names)
    assert "coordinator_replay/constraints.txt" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


def test_the_archive_for_spark_submit_is_the_wheel(wheel):
    assert (wheel.parent / "coordinator_replay.zip").read_bytes() == wheel.read_bytes()


def test_the_installation_is_not_the_checkout(installed):
    where = installed.run("python", "-c", "import coordinator_replay, pyspark; print(coordinator_replay.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(installed.environment)


def test_an_installation_finds_its_definitions_and_queries(installed):
    installed.run("coordinator-replay", "--version")
    assert "history-completeness" in installed.run("coordinator-replay", "sql", "--list").stdout
    reads = "from coordinator_replay.tables.definition import tables; print(*tables())"
    assert "offset_history" in installed.run("python", "-c", reads).stdout


def java_that_says(folder: Path, version: str) -> Path:
    """A stand-in for a Java of this version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-14' >&2\n")
    java.chmod(0o755)
    return folder


def test_an_audit_without_a_java_says_which_and_how_to_get_it(installed, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "env", "uname"):
        (programs / name).symlink_to(str(shutil.which(name)))
    path = f"{installed.environment / 'bin'}{os.pathsep}{programs}"
    run = installed.run("coordinator-replay", "demo", code=1, PATH=path, JAVA_HOME="")
    assert "Java 17 or newer is needed, and there is none on the PATH" in run.stderr
    assert "apt install openjdk-17-jre-headless" in " ".join(run.stderr.split())
    assert "need no Java" in " ".join(run.stderr.split())


def test_an_audit_on_too_old_a_java_names_both(installed, tmp_path):
    run = installed.run("coordinator-replay", "demo", code=1, JAVA_HOME=str(java_that_says(tmp_path / "old", "11.0.6")))
    assert f"Java 17 or newer is needed, and {tmp_path}/old/bin/java is Java 11" in " ".join(run.stderr.split())


EXTRAS = {"audit": {"numba", "numpy", "pandas"}, "spark": {"pyspark"}, "report": {"bokeh"}}
"""What an installation of the plain package lacks; one library of each extra at least."""


@pytest.mark.parametrize("share", rest_at_night([3, 1], [3]), ids=["a third", "all"])
def test_the_plain_package_answers_and_names_the_extra_that_a_command_needs(installed, tmp_path, share):
    """The environment has all libraries; a package that refuses to be imported hides those that only extras bring."""
    hidden = tmp_path / "hidden"
    for library in set().union(*EXTRAS.values(), {"sqlglot", "javaproperties", "jinja2", "delta", "py4j"}):
        (hidden / library).mkdir(parents=True)
        text = f"raise ModuleNotFoundError('No module named {library}', name={library!r})\n"
        (hidden / library / "__init__.py").write_text(text)
    plain = {"PYTHONPATH": str(hidden), "COORDINATOR_REPLAY_WAREHOUSE": str(tmp_path / "warehouse")}
    segments = ROOT / "coordinator_replay" / "demo_dump" / "segments"
    audit_here(tmp_path / "warehouse", segments)
    script = str(next((ROOT / "docs/examples/scripts").glob("*.jsonl")))
    questions = (
        ["groups"], ["why", "shop-billing"], ["offsets", "shop-billing"], ["findings"], ["metrics"], ["impact"],
        ["sql", "--query", "rebalance-storms"], ["maintain"],
        ["what-if", "shop-billing", "--set", "session.timeout.ms=30000"],
        ["simulate", script, "--out", str(tmp_path / "simulated")],
    )  # fmt: skip
    for asked in questions[::share]:
        assert installed.run("coordinator-replay", *asked, **plain).stdout
    for words, extra in (
        (["demo"], "spark"), (["audit", str(segments)], "spark"), (["decode", str(segments)], "audit"),
        (["report", "--out", "x.html"], "report"),
    ):  # fmt: skip
        refused = installed.run("coordinator-replay", *words, code=2, **plain)
        assert f"pip install 'coordinator-replay[{extra}]'" in " ".join(refused.stderr.split())
