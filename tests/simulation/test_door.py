"""What lies behind the door of the simulation is loaded by those who simulate, and by nobody else."""

import subprocess
import sys

import pytest

BEHIND = ("coordinator", "page", "recorded_groups", "simulated_log", "what_if.run", "what_if.answer", "what_if.clients")


@pytest.mark.parametrize("module", ["cli.main", "api", "pipeline.audit"])
def test_nobody_else_loads_the_simulation(module: str) -> None:
    names = [f"coordinator_replay.simulation.{name}" for name in BEHIND]
    script = f"import sys, coordinator_replay.{module}; print([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
