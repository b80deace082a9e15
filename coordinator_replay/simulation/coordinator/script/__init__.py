"""Files of JSON lines (scripts) that give a coordinator requests, topics and time. The answers are JSON lines too."""

from coordinator_replay.simulation.coordinator.script.run import (
    COMMANDS,
    ScriptRun,
    as_written,
    simulate,
    truth_line,
)

__all__ = ["COMMANDS", "ScriptRun", "as_written", "simulate", "truth_line"]
