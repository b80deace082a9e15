"""The old import path of ``Gain``, the rows of ``Warehouse.what_if_all``. It is kept for one release."""

import warnings

from coordinator_replay.simulation.what_if.measures import Gain

__all__ = ["Gain"]

warnings.warn(
    "coordinator_replay.whatif.measures is coordinator_replay.simulation.what_if.measures now; "
    "the old name goes in 0.5",
    DeprecationWarning,
    stacklevel=2,
)
