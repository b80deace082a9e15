"""Examples in docstrings are right."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import coordinator_replay

PACKAGE = Path(coordinator_replay.__file__).parent

FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_in_docstrings_are_right(path: Path):
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    found = doctest.testmod(import_module(module))
    assert found.attempted > 0 or "doctest: +SKIP" in path.read_text()
    assert found.failed == 0
