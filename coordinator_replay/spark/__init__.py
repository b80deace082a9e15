"""Tools for a Spark session: a data source that reads segments, functions for SQL, and a replay that gives DataFrames.

The page *Python and Spark* of the documentation explains these tools and lists the stable names.
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
