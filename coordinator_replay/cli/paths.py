"""Paths as people type them."""

from pathlib import Path


def absolute(path: str) -> str:
    """A path as Spark's own processes can find it, wherever they were started; a URI as it is."""
    return path if "://" in path else str(Path(path).expanduser().absolute())
