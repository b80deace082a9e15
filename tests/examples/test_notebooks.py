"""The notebooks under ``examples/`` run from the first cell to the last, and what they show is small."""

import os
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner
from nbclient import NotebookClient

from coordinator_replay.cli.main import main

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """What ``coordinator-replay demo`` leaves behind."""
    folder = tmp_path_factory.mktemp("demo") / "warehouse"
    done = CliRunner().invoke(main, ["demo", "--warehouse", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_shows_is_there_small_and_no_error(path):
    assert path.stat().st_size < MOST_BYTES
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    # Nothing of the machine that it was executed on.
    assert str(Path.home()) not in path.read_text(encoding="utf-8")


SLOW = {"dump-in-spark", "should-we-move-to-kip-848"}
"""Run at night: a session of its own for the whole dump, and predictions for all groups. Other tests do both too."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.long] if path.stem in SLOW else []) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs(path, warehouse, tmp_path, monkeypatch):
    monkeypatch.setenv("COORDINATOR_REPLAY_WAREHOUSE", str(warehouse))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    notebook = nbformat.read(path, as_version=4)
    shown = outputs_of(notebook)
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=folder).execute()
    assert outputs_of(notebook) == shown


def outputs_of(notebook):
    """What each cell shows, by its sort; what the JVM and matplotlib say on standard error is none of it."""
    return [
        [output.output_type for output in cell.outputs if output.get("name") != "stderr"]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
