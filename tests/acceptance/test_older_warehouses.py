"""A warehouse that an older commit has made: carried over with the tables of a new one, or refused with a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import check_same, tables
from tests.pipeline.in_process import cut
from tests.samples import Sample

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
CARRIED = "54e9a2b"
"""Its snapshots are of another form, and its tables lack columns and one table."""
REFUSED = {"aabb329": "whose rows have no sums", "4eb2e09": "whose layout this one does not know"}


def audit(code: Path, dump: Path, warehouse: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator_replay", "audit", str(dump), "--warehouse", str(warehouse)]
    environment = {**os.environ, "PYTHONPATH": str(code)}
    return subprocess.run(command, env=environment, cwd=code, capture_output=True, text=True)


def made_by(commit: str, dump: Path, folder: Path) -> Path:
    """A warehouse that an older commit makes of a dump."""
    archived = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if archived.returncode:
        pytest.skip(f"the history here does not reach back to {commit}")
    code = folder / "code"
    code.mkdir(parents=True)
    subprocess.run(["tar", "x"], input=archived.stdout, cwd=code, check=True)
    run = audit(code, dump, folder / "warehouse")
    assert run.returncode == 0, run.stderr
    return folder / "warehouse"


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("nights")
    cut(Sample("group-lifecycles").segments, [folder / "1", folder / "2"])
    return [folder / "1", folder / "2"]


def test_a_warehouse_with_other_snapshots_and_fewer_columns_is_carried_over(nights, tmp_path):
    older = made_by(CARRIED, nights[0], tmp_path / "older")
    for dump, warehouse in ((nights[1], older), (nights[0], tmp_path / "new"), (nights[1], tmp_path / "new")):
        run = audit(ROOT, dump, warehouse)
        assert run.returncode == 0, run.stderr
    # The leaders of records that an older release has read are not looked up again.
    check_same(older, tables(tmp_path / "new"), but=("coordinator_changes",))


@pytest.mark.parametrize("commit", REFUSED)
def test_a_warehouse_that_lacks_what_each_row_has_is_refused_with_what_to_do(commit, nights, tmp_path):
    older = made_by(commit, nights[0], tmp_path / "older")
    run = audit(ROOT, nights[1], older)
    told = " ".join(run.stderr.split())
    assert run.returncode == 2
    assert f"was written by an older release, {REFUSED[commit]}; audit the dump again into a new warehouse" in told
    assert "Traceback" not in told
