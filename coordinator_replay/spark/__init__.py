"""Tools for a Spark session: a data source of segments, functions for SQL, replay as DataFrames.

The page *Python and Spark* of the documentation explains them and lists the stable names.
"""

from coordinator_replay.spark.register import register
from coordinator_replay.spark.replay import (
    Replay,
    replay_group,
    replay_groups,
    replay_in_pandas,
    replay_input,
    replay_schema,
)

__all__ = ["Replay", "register", "replay_group", "replay_groups", "replay_in_pandas", "replay_input", "replay_schema"]
