"""Replays dumps of Kafka's ``__consumer_offsets`` topic."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coordinator_replay.version import __version__

if TYPE_CHECKING:
    from coordinator_replay.api import Warehouse

__all__ = ["Warehouse", "__version__"]


def __getattr__(name: str) -> Any:
    # The class is loaded at its first use, because Spark's workers and the command line's help don't need DuckDB.
    if name == "Warehouse":
        return import_module("coordinator_replay.api").Warehouse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
