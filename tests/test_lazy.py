"""Modules that offer names of others offer the same ones to mypy and at run time, and load them only when asked."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "coordinator_replay"
OFFERING = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if "= loaded_when_asked(" in path.read_text(encoding="utf-8")
]


def _imports(body: list[ast.stmt]) -> dict[str, str]:
    return {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def _path(module: str) -> Path:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _typed(module: str) -> dict[str, str]:
    """The names that a module has for mypy, and what each of them is."""
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return _imports(block.body)


def test_there_are_such_modules() -> None:
    assert "coordinator_replay.simulation.door" in OFFERING


@pytest.mark.parametrize("module", OFFERING)
def test_a_name_is_the_same_thing_for_mypy_and_at_run_time(module: str) -> None:
    offering = import_module(module)
    for name, full in _typed(module).items():
        parent, _, last = full.rpartition(".")
        try:
            expected = import_module(full)
        except ImportError:
            expected = getattr(import_module(parent), last)
        assert getattr(offering, name) is expected, name
    with pytest.raises(AttributeError, match="no_such_name"):
        offering.no_such_name  # noqa: B018 - the look-up is the test


@pytest.mark.parametrize("module", OFFERING)
def test_nothing_is_loaded_before_it_is_asked_for(module: str) -> None:
    loaded = {full if _is_module(full) else full.rpartition(".")[0] for full in _typed(module).values()}
    # Run as a file: the packages around it may have loaded some for themselves.
    script = (
        f"import runpy, sys; runpy.run_path({str(_path(module))!r}); "
        f"print([name for name in {sorted(loaded)!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True
