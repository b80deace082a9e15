"""What people use in a Spark session: a data source of segments, functions for SQL, replay as DataFrames.

The public names are ``register``, ``replay_groups``, ``replay_group`` and ``Replay``; the page *Python and Spark* of
the documentation lists them with their options.
"""

from coordinator_replay.spark.register import register

__all__ = ["register"]
