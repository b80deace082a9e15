"""Paths as people type them."""

import re
from pathlib import Path

from coordinator_replay.cli.parsed import Parsed
from coordinator_replay.errors import UsageError

_REFUSED = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]|\[(?![^/]*\])")
"""What Delta's readers and writers spell each in their own way: they would not find each other's tables."""


def check_warehouse(path: str) -> str:
    """Make sure that a path is one that every reader of the tables finds.

    Raises:
        UsageError: it is not.
    """
    if not path.strip():
        raise UsageError("the path of the warehouse is empty")
    if "://" not in path and (refused := _REFUSED.search(path)) is not None:
        raise UsageError(
            f"the path of a warehouse can't hold {refused[0]!r}: Spark, deltalake and DuckDB read it in different ways"
        )
    return path


def absolute(path: str) -> str:
    """A path as Spark's own processes can find it, wherever they were started; a URI as it is."""
    return path if "://" in path else str(Path(path).expanduser().absolute())


PATH = Parsed("path", absolute)
"""A path or URI for Spark's processes."""
