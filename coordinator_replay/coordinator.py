"""The old name of the package ``coordinator_replay.simulation.coordinator``. Its import gives a DeprecationWarning."""

import warnings

from coordinator_replay.simulation.coordinator import (
    Batch,
    Config,
    Coordinator,
    Failure,
    MarkerWritten,
    Request,
    Response,
    Result,
    Topic,
    Topics,
)

__all__ = [
    "Batch",
    "Config",
    "Coordinator",
    "Failure",
    "MarkerWritten",
    "Request",
    "Response",
    "Result",
    "Topic",
    "Topics",
]

warnings.warn(
    "coordinator_replay.coordinator is coordinator_replay.simulation.coordinator now; the old name goes in 0.5",
    DeprecationWarning,
    stacklevel=2,
)
