"""Scripts of requests, topics and time as JSON lines, and their results in the same form."""

from coordinator_replay.simulation.coordinator.script.run import (
    COMMANDS,
    ScriptRun,
    as_written,
    simulate,
    truth_line,
)

__all__ = ["COMMANDS", "ScriptRun", "as_written", "simulate", "truth_line"]
