"""Environments that scripts/compare-answers makes for earlier commits."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from scripts.answers.environments import python_of, requirements

PROJECT = """
[project]
name = "some-program"
version = "{version}"
dependencies = {needs}

[project.optional-dependencies]
audit = {audit}
all = ["some-program[audit]"]

[dependency-groups]
test = {tests}
lint = ["a-package-that-no-answer-takes"]
"""


def a_tree(
    folder: Path, *needs: str, audit: str = "[]", tests: str = "[]", version: str = "1", bounds: str = ""
) -> Path:
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "constraints.txt").write_text(bounds)
    described = PROJECT.format(needs=list(needs), audit=audit, tests=tests, version=version)
    (folder / "pyproject.toml").write_text(described)
    return folder


def a_wheel(folder: Path, version: str) -> str:
    """Make a package that knows its version; how a project asks for it."""
    path = folder / f"tiny-{version}-py3-none-any.whl"
    about = f"tiny-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", f"VERSION = {version!r}\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return f"tiny @ {path.as_uri()}"


def prints(python: Path, program: str) -> str:
    return subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)


def test_all_extras_and_the_tests_but_no_tools(tmp_path: Path):
    tree = a_tree(tmp_path, "one>=1", audit='["two<3", "some-program[all]"]', tests='["three"]')
    assert requirements(tree) == ["one>=1", "three", "two<3"]


def test_each_commit_has_the_packages_that_it_names(tmp_path: Path):
    # The second names its package in an extra, which is how an older and a newer commit differ.
    older = python_of(a_tree(tmp_path / "older", a_wheel(tmp_path, "1")))
    newer = python_of(a_tree(tmp_path / "newer", audit=f'["{a_wheel(tmp_path, "2")}"]'))
    said = "import tiny; print(tiny.VERSION)"
    assert (prints(older, said), prints(newer, said)) == ("1", "2")
    # Nothing of the environment that the newer code runs in is seen.
    assert prints(older, "import importlib.util as found; print(found.find_spec('pyarrow'))") == "None"
    assert not older.is_relative_to(tmp_path / "older")


def test_commits_with_equal_needs_share_an_environment(tmp_path: Path):
    first = python_of(a_tree(tmp_path / "first", version="1"))
    (first.parent / "mark").touch()
    assert python_of(a_tree(tmp_path / "again", version="2")) == first
    assert (first.parent / "mark").exists()
    assert python_of(a_tree(tmp_path / "bounded", bounds="two==2\n")) != first


def test_an_environment_that_was_not_finished_is_made_again(tmp_path: Path):
    tree = a_tree(tmp_path / "tree", "no-such-package @ file:///nowhere.whl")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            python_of(tree)
