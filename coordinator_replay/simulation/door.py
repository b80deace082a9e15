"""The entrance to the simulation: the names that code outside the simulation may import.

The module of a name is loaded when the name is first used.
"""

from typing import TYPE_CHECKING

from coordinator_replay.lazy import loaded_when_asked

if TYPE_CHECKING:
    from coordinator_replay.simulation.coordinator.script import simulate
    from coordinator_replay.simulation.coordinator.truth import Event
    from coordinator_replay.simulation.page import what_if_drawing, what_if_page
    from coordinator_replay.simulation.recorded_groups import what_if, what_if_all
    from coordinator_replay.simulation.simulated_log import write_log, write_truth
    from coordinator_replay.simulation.what_if.answer import WhatIf
    from coordinator_replay.simulation.what_if.measures import Gain, Measures
    from coordinator_replay.simulation.what_if.settings import (
        WITHOUT_RESTARTS,
        TriedSetting,
        alternative_of,
        setting_names,
        tried_settings,
    )
else:
    __getattr__ = loaded_when_asked(
        __name__,
        {
            "coordinator_replay.simulation.coordinator.script": ["simulate"],
            "coordinator_replay.simulation.coordinator.truth": ["Event"],
            "coordinator_replay.simulation.page": ["what_if_drawing", "what_if_page"],
            "coordinator_replay.simulation.recorded_groups": ["what_if", "what_if_all"],
            "coordinator_replay.simulation.simulated_log": ["write_log", "write_truth"],
            "coordinator_replay.simulation.what_if.answer": ["WhatIf"],
            "coordinator_replay.simulation.what_if.measures": ["Gain", "Measures"],
            "coordinator_replay.simulation.what_if.settings": [
                "WITHOUT_RESTARTS",
                "TriedSetting",
                "alternative_of",
                "setting_names",
                "tried_settings",
            ],
        },
    )

__all__ = [
    "WITHOUT_RESTARTS",
    "Event",
    "Gain",
    "Measures",
    "TriedSetting",
    "WhatIf",
    "alternative_of",
    "setting_names",
    "simulate",
    "tried_settings",
    "what_if",
    "what_if_all",
    "what_if_drawing",
    "what_if_page",
    "write_log",
    "write_truth",
]
