"""Where a change goes: docs/changing.md lists the files, and each list is tried in a copy of the tree.

With all files of its list the change passes the quick tests; without any one of them a test fails.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.cli.main import SECTIONS
from tests.docs.changes import CHANGES, Change, Edit

ROOT = Path(__file__).parents[2]
PROBE = "tests/analysis/test_the_change.py"
QUICK = ["tests/tables", "tests/records", "tests/engine", "tests/analysis"]
"""What ``scripts/test --quick`` runs."""

MAKE_PAGES = (
    "from scripts.reasons.rows import TABLE_DOCUMENT, draw; TABLE_DOCUMENT.write_text(draw(), encoding='utf-8')"
)


def listed(row: str) -> list[str]:
    """The files that the page lists for a change."""
    text = (ROOT / "docs" / "changing.md").read_text(encoding="utf-8")
    [cells] = re.findall(rf"^\| {row} \|(.*)\|$", text, re.MULTILINE)
    return sorted(path for path in re.findall(r"`([^`]+)`", cells) if "/" in path and "." in path)


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )


def problems(copy: Path, *paths: str) -> str:
    """What pytest says of tests in a copy; empty where they pass."""
    done = run(copy, "-m", "pytest", "-q", "-x", "-m", "not long", *paths)
    return "" if done.returncode == 0 else f"{done.returncode}: {done.stdout[-3000:]}{done.stderr[-1000:]}"


def edited(tree: Path, path: str, edits: Sequence[Edit]) -> str:
    """A file of a tree with the edits of a change."""
    text = (tree / path).read_text(encoding="utf-8")
    for before, inserted in edits:
        assert text.count(before) == 1, f"{path} no longer has one line {before!r}: mend tests/docs/changes.py"
        text = text.replace(before, before + inserted)
    return text


def apply(copy: Path, change: Change) -> None:
    for path, edits in change.edits.items():
        text = edited(copy, path, edits)
        (copy / path).write_text(text, encoding="utf-8")
    for path, text in change.added.items():
        (copy / path).write_text(text, encoding="utf-8")
    (copy / PROBE).write_text(change.probe, encoding="utf-8")
    for script in (["scripts/docs/write_pages.py"], ["-c", MAKE_PAGES]):
        made = run(copy, *script)
        assert made.returncode == 0, made.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """A copy of the tree as it is, with what is not committed yet."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in names.stdout.splitlines():
        if (ROOT / name).is_file():
            (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / "copy" / name)
    yield tmp_path / "copy"
    shutil.rmtree(tmp_path / "copy")


@pytest.mark.parametrize(("row", "most"), [("a new cause", 5), ("a new table", 5), ("a new column of an answer", 3)])
def test_a_change_touches_the_files_that_the_page_lists_and_no_more(row: str, most: int) -> None:
    assert listed(row) == [re.sub("group_tombstones", "NAME", path) for path in CHANGES[row].files]
    assert len(CHANGES[row].files) <= most


@pytest.mark.parametrize("row", CHANGES)
def test_the_lines_that_a_change_is_written_behind_are_there(row: str) -> None:
    for path, edits in CHANGES[row].edits.items():
        assert edited(ROOT, path, edits) != (ROOT / path).read_text(encoding="utf-8")


def test_the_method_of_a_command_is_in_the_module_of_its_section() -> None:
    modules = set()
    for title, commands in SECTIONS.items():
        module = f"coordinator_replay.api.{title.lower().replace(' ', '_')}"
        names = [str(command.name).replace("-", "_") for command in commands]
        for name in names:
            if hasattr(Warehouse, name):
                assert getattr(Warehouse, name).__module__ == module, name
                modules.add(module)
    assert {base.__module__ for base in Warehouse.__bases__} == modules


@pytest.mark.long
@pytest.mark.parametrize("row", CHANGES)
def test_the_listed_files_are_enough_and_none_can_be_left_out(copy: Path, row: str) -> None:
    change = CHANGES[row]
    before = {path: (copy / path).read_bytes() for path in change.files if (copy / path).exists()}
    apply(copy, change)
    assert problems(copy, *QUICK, *change.checks) == ""
    for path in change.files:
        after = (copy / path).read_bytes()
        assert after != before.get(path), path
        if path in before:
            (copy / path).write_bytes(before[path])
        else:
            (copy / path).unlink()
        assert problems(copy, PROBE, *change.checks), f"{path} can be left out"
        (copy / path).write_bytes(after)
