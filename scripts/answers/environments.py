"""Environments of earlier commits: Python with the packages that a commit itself names, for its own answers."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

_OF_ANSWERS = "test"
"""The group of packages that audits in one process take, beside those of the program."""


def python_of(tree: Path) -> Path:
    """Return the Python of a tree's own environment, which is made if no tree with the same needs came before.

    Environments lie in the user's cache. The tree is not installed into its environment: ``PYTHONPATH`` names it.

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
    """Return what a tree's ``pyproject.toml`` asks for: the program, all its extras, and its tests."""
    described = tomllib.loads((tree / "pyproject.toml").read_text())
    project = described["project"]
    own = re.compile(rf"{re.escape(project['name'])}\s*\[")
    named = [*project.get("dependencies", ()), *described.get("dependency-groups", {}).get(_OF_ANSWERS, ())]
    for extra in project.get("optional-dependencies", {}).values():
        # An extra that names another one of the project adds nothing, since all are taken.
        named += [requirement for requirement in extra if not own.match(requirement)]
    return sorted(set(named))


def _constraints(tree: Path) -> Path | None:
    path = tree / "conf" / "constraints.txt"
    return path if path.exists() else None


def _name(wanted: list[str], bounds: str) -> str:
    """Return a name that follows from all that an environment is made of."""
    made_of = "\n".join([sys.version, sys.base_prefix, *wanted, bounds])
    return hashlib.sha256(made_of.encode()).hexdigest()[:16]


def _cache() -> Path:
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return own / "coordinator-replay" / "environments"
