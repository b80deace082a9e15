"""Names of 0.3 that users may import work for a release, and say what they are called now."""

import importlib
import sys

import pytest

from coordinator_replay.simulation import coordinator
from coordinator_replay.simulation.what_if.measures import Gain

OF_0_3 = [
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
"""What ``coordinator_replay.coordinator`` had in 0.3."""


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("coordinator_replay.whatif.measures", "Gain", Gain),
        *(("coordinator_replay.coordinator", name, getattr(coordinator, name)) for name in OF_0_3),
    ],
)
def test_an_old_name_is_the_new_thing_and_warns(module: str, name: str, now: type) -> None:
    sys.modules.pop(module, None)
    with pytest.warns(DeprecationWarning, match=r"is coordinator_replay\.simulation\."):
        assert getattr(importlib.import_module(module), name) is now
