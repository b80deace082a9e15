"""What scripts/release refuses before it builds anything."""

import subprocess
from pathlib import Path

import pytest

from coordinator_replay.version import __version__
from tests.install.wheel import ROOT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", tmp_path / "clone"], check=True)
    # Not what is committed, but what is about to be.
    (tmp_path / "clone" / "scripts" / "release").write_bytes((ROOT / "scripts" / "release").read_bytes())
    return tmp_path / "clone"


def refused(clone: Path, file: str, old: str, new: str) -> str:
    """What it says after a change of a file that is committed."""
    text = (clone / file).read_text("utf-8")
    assert old in text
    (clone / file).write_text(text.replace(old, new), "utf-8")
    by = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", *by, "commit", "--quiet", "--all", "--message", "a change"], cwd=clone, check=True)
    run = subprocess.run([clone / "scripts" / "release"], capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    return run.stderr


def test_a_release_of_what_is_not_committed_is_refused(clone):
    (clone / "README.md").write_text("something else")
    run = subprocess.run([clone / "scripts" / "release"], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (1, "release: there are changes that are not committed\n")


def test_an_option_that_there_is_not_is_refused(clone):
    run = subprocess.run([clone / "scripts" / "release", "--quick"], capture_output=True, text=True)
    assert (run.returncode, run.stderr.startswith("release: there is no option --quick;")) == (1, True)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("CHANGELOG.md", f"## {__version__}", "## 0.0.9", f"CHANGELOG.md has no section {__version__}"),
        ("CHANGELOG.md", f"## {__version__}", f"## Unreleased\n\n## {__version__}", "has changes under Unreleased"),
        pytest.param(
            "conf/kubernetes/follow.yaml",
            f"replay:{__version__}",
            "replay:0.0.9",
            "follow.yaml names another version",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "conf/platforms/kubernetes/spark-application.yaml",
            f"replay:{__version__}",
            "replay:0.0.9",
            "spark-application.yaml names another version",
            marks=pytest.mark.long,
        ),
        (
            "coordinator_replay/version.py",
            f'"{__version__}"',
            '"0.0.9"',
            "version.py has another version than pyproject.toml",
        ),
    ],
)
def test_versions_that_do_not_agree_are_refused(clone, file, old, new, told):
    assert told in refused(clone, file, old, new)
