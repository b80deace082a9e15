"""A simulation of Kafka's group coordinator: it takes requests and the time, and gives responses and records.

The package is the counterpart of the engine, which replays the records that are written here. It has no I/O, no clock
and no threads. ``Coordinator`` is the entrance.
"""

from coordinator_replay.simulation.coordinator.config import Config
from coordinator_replay.simulation.coordinator.coordinator import Coordinator
from coordinator_replay.simulation.coordinator.messages import Request
from coordinator_replay.simulation.coordinator.operations import Batch, Failure, MarkerWritten, Response, Result
from coordinator_replay.simulation.coordinator.topics import Topic, Topics
from coordinator_replay.simulation.coordinator.truth import (
    BatchWritten,
    EpochBumped,
    Event,
    MemberRemoved,
    RebalanceStarted,
)

__all__ = [
    "Batch",
    "BatchWritten",
    "Config",
    "Coordinator",
    "EpochBumped",
    "Event",
    "Failure",
    "MarkerWritten",
    "MemberRemoved",
    "RebalanceStarted",
    "Request",
    "Response",
    "Result",
    "Topic",
    "Topics",
]
