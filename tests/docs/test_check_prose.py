"""``scripts/check-prose`` fails on what is certainly wrong, and on nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check-prose"

RIGHT = '''"""Rows of a table."""


def rows(table: str) -> list[str]:
    """Return the rows of a table."""
    return [row for row in table]
'''


def _check(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    path = folder / "example.py"
    path.write_text(source, encoding="utf-8")
    return subprocess.run(
        [sys.executable, SCRIPT, *options, str(path)], capture_output=True, encoding="utf-8", check=False
    )


def test_plain_prose_passes(tmp_path: Path) -> None:
    checked = _check(tmp_path, RIGHT)
    assert checked.returncode == 0, checked.stdout
    assert "noun clause 0, name one 0, inversion 0, tangle 0, long 0" in checked.stdout


@pytest.mark.parametrize(
    "first", ["What a table has.", "Whose rows these are.", "From which row on it is read.", "Whether it is full."]
)
def test_a_function_that_begins_with_a_noun_clause_fails(tmp_path: Path, first: str) -> None:
    checked = _check(tmp_path, RIGHT.replace("Return the rows of a table.", first))
    assert checked.returncode == 1
    assert f"example.py:5: noun clause: {first}" in checked.stdout


@pytest.mark.parametrize(
    "source",
    [
        RIGHT.replace("[row for row in table]", "[one for one in table]"),
        RIGHT.replace("table: str", "one: str").replace("in table]", "in one]"),
        "def last(rows: list[str]) -> str:\n    ones = rows[-1]\n    return ones\n",
        "smallest = min([3, 2], key=lambda one: -one)\n",
    ],
)
def test_a_variable_or_parameter_named_one_fails(tmp_path: Path, source: str) -> None:
    checked = _check(tmp_path, source)
    assert checked.returncode == 1
    assert ": name one: one" in checked.stdout


def test_a_hard_sentence_is_listed_and_does_not_fail(tmp_path: Path) -> None:
    hard = "Of a deleted file no end is known. " + "It is long " * 12 + "too."
    checked = _check(tmp_path, RIGHT.replace("Rows of a table.", hard))
    assert checked.returncode == 0
    assert "inversion 1, tangle 0, long 1" in checked.stdout
    assert (
        "inversion: Of a deleted file no end is known."
        in _check(tmp_path, RIGHT.replace("Rows of a table.", hard), "--list", "inversion").stdout
    )


def test_the_package_and_the_documents_pass() -> None:
    checked = subprocess.run([sys.executable, SCRIPT], capture_output=True, encoding="utf-8", check=False)
    assert checked.returncode == 0, checked.stdout
