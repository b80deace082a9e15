"""Ctrl-C in an audit, at any moment: a sentence, exit code 130, no trace; answers stay, and the next audit works."""

import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.cli.main import main
from tests.acceptance.processes import Audit
from tests.pipeline.in_process import audit, contents, cut
from tests.samples import Sample

__all__ = ["audit"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux for an audit's processes"),
]

QUICK = Thresholds(stuck_ms=2000, storm_rebalances=6, silent_ms=5000, patience=1, never_committed_ms=5000)
"""What audits that are processes are started with, too."""

QUESTIONS = (
    ("groups",),
    ("rebalances",),
    ("findings",),
    ("expired",),
    ("sql", "SELECT * FROM offset_commits ORDER BY log_partition, log_offset"),
    ("sql", "SELECT run_id, status FROM audit_runs ORDER BY run_id"),
)

NO_TRACE = ("Traceback", "KeyboardInterrupt", "py4j", "Aborted", "Exception", 'File "', "nanobind", "leaked")

IMPORTS_SECONDS = 0.5
"""Before that, Python itself is being started."""


class Nights:
    """A dump in two parts: the first is in a warehouse, the audit of the second is interrupted."""

    def __init__(self, audit, folder: Path) -> None:
        self.audit = audit
        self.parts = [folder / "night-1", folder / "night-2"]
        cut(Sample("transactions").segments, self.parts)
        self.first = folder / "first"
        audit(self.first, self.parts[0], thresholds=QUICK)
        both = folder / "both"
        shutil.copytree(self.first, both)
        audit(both, self.parts[1], thresholds=QUICK)
        self.expected = contents(both)


@pytest.fixture
def nights(audit, tmp_path) -> Nights:
    return Nights(audit, tmp_path)


def answers(warehouse: Path) -> list[str]:
    found = []
    for command, *rest in QUESTIONS:
        result = CliRunner().invoke(main, [command, "--warehouse", str(warehouse), "--output", "json", *rest])
        assert result.exit_code == 0, result.output
        found.append(result.stdout)
    return found


def left_running(audit: Audit) -> list[object]:
    """Processes that an audit has left behind, once they had time to end."""
    until = time.monotonic() + 30
    while (found := list(audit.members())) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def check_interrupted(nights: Nights, folder: Path, step: str, seconds: float, times: int = 1) -> None:
    """Press Ctrl-C some time after a step began, and look at what is left."""
    warehouse = folder / "warehouse"
    shutil.copytree(nights.first, warehouse)
    before = answers(warehouse)
    running = Audit(nights.parts[1], warehouse, folder / "process")
    try:
        if step:
            running.reaches(step)
        time.sleep(seconds)
        for _ in range(times):
            running.interrupt()
            time.sleep(0.05)
        code = running.process.wait(120)
        assert not left_running(running)
    finally:
        running.kill_all()
    told = running.told()
    assert code == 130 or (times > 1 and code == -2), told
    assert not any(word in told for word in NO_TRACE), told
    if times == 1:
        assert told.splitlines()[-1].startswith("Error: ")
        assert "interrupted" in told.splitlines()[-1]
    assert answers(warehouse) == before
    nights.audit(warehouse, nights.parts[1], thresholds=QUICK)
    assert contents(warehouse) == nights.expected


def test_an_audit_that_is_interrupted_while_it_reads_leaves_everything_as_it_was(nights, tmp_path):
    check_interrupted(nights, tmp_path / "run", "reading and decoding", 1.0)


MOMENTS = [
    ("", IMPORTS_SECONDS),
    ("starting Spark", 0.0),
    ("starting Spark", 0.5),
    ("starting Spark", 2.0),
    ("preparing the tables", 0.0),
    ("reading and decoding", 0.0),
    ("reading and decoding", 0.3),
    ("reading and decoding", 1.5),
    ("naming topics", 0.0),
    ("replaying groups", 0.0),
    ("replaying groups", 0.5),
    ("evaluating findings", 0.0),
    ("committing", 0.0),
]


@pytest.mark.long
def test_ctrl_c_is_a_sentence_at_any_moment(nights, tmp_path):
    for number, (step, seconds) in enumerate(MOMENTS):
        check_interrupted(nights, tmp_path / f"run-{number}", step, seconds)


@pytest.mark.long
def test_an_impatient_user_sees_no_trace_either(nights, tmp_path):
    for number, step in enumerate(("starting Spark", "reading and decoding")):
        check_interrupted(nights, tmp_path / f"run-{number}", step, 0.5, times=4)
