"""Environments of earlier commits: Python with the packages that the commit itself names."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

_OF_ANSWERS = "test"
"""The dependency group that an audit in one process needs, in addition to the packages of the program."""


def python_of(tree: Path) -> Path:
    """Return the Python of an environment with the packages of a tree.

    If no earlier tree had the same packages, make the environment. Environments lie in the user's cache. The tree
    itself is not installed into its environment: ``PYTHONPATH`` names it.

    Args:
        tree: the checkout of a commit.
    """
    wanted, bounds = requirements(tree), _constraints(tree)
    environment = _cache() / _name(wanted, bounds.read_text() if bounds else "")
    python, is_done = environment / "bin" / "python", environment / "done"
    if not is_done.exists():
        print(f"making {environment} with the packages of that commit (a minute or two, once) …", file=sys.stderr)
        venv.create(environment, clear=True, symlinks=True)
        limits = ["--constraint", str(bounds)] if bounds else []
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *limits, *wanted]
        if wanted:
            subprocess.run(command, check=True)
        is_done.touch()
    return python


def requirements(tree: Path) -> list[str]:
    """Return the packages in a tree's ``pyproject.toml``: those of the program, of all its extras, and of its tests."""
    described = tomllib.loads((tree / "pyproject.toml").read_text())
    project = described["project"]
    own = re.compile(rf"{re.escape(project['name'])}\s*\[")
    named = [*project.get("dependencies", ()), *described.get("dependency-groups", {}).get(_OF_ANSWERS, ())]
    for extra in project.get("optional-dependencies", {}).values():
        # An extra that names another extra of the project adds nothing, because all extras are taken.
        named += [requirement for requirement in extra if not own.match(requirement)]
    return sorted(set(named))


def _constraints(tree: Path) -> Path | None:
    path = tree / "conf" / "constraints.txt"
    return path if path.exists() else None


def _name(wanted: list[str], bounds: str) -> str:
    """Return the name of an environment: a hash of Python's version, the packages and their bounds."""
    made_of = "\n".join([sys.version, sys.base_prefix, *wanted, bounds])
    return hashlib.sha256(made_of.encode()).hexdigest()[:16]


def _cache() -> Path:
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return own / "coordinator-replay" / "environments"
