"""Counts of files, bytes and records that this process reads and writes, as in Spark's own metrics of a task.

Python workers open files themselves, so Spark does not count these files. Instead, code that reads or writes a file
calls ``count``. The metrics of a task are the difference of ``counted`` before and after the task.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from threading import Lock
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class IoMetrics:
    """Files, bytes and records that were read and written.

    Attributes:
        files_read: opened files; a file that is read twice counts twice.
        bytes_read: bytes of these files; for Parquet, the compressed bytes of the requested columns.
        records_read: rows of these files.
        files_written: finished files.
        bytes_written: bytes of these files.
        records_written: rows of these files.
    """

    files_read: int = 0
    bytes_read: int = 0
    records_read: int = 0
    files_written: int = 0
    bytes_written: int = 0
    records_written: int = 0

    def __add__(self, other: "IoMetrics") -> "IoMetrics":
        return IoMetrics(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def since(self, before: "IoMetrics") -> "IoMetrics":
        """Return the counts since an earlier time. ``before`` has the counts at that time."""
        return IoMetrics(*(mine - its for mine, its in zip(astuple(self), astuple(before), strict=True)))

    @classmethod
    def total(cls, parts: Iterable["IoMetrics"]) -> "IoMetrics":
        """Return the sum of the metrics of several tasks."""
        return sum(parts, cls())


NAMES = tuple(field.name for field in fields(IoMetrics))
"""The names of the counts, in their order."""


class StageMetrics(NamedTuple):
    """Sums of the metrics of one stage of an audit.

    Attributes:
        name: name of the stage.
        tasks: number of the stage's tasks.
        io: files, bytes and records that the tasks read and wrote.
    """

    name: str
    tasks: int
    io: IoMetrics


class _Counter:
    """The counts of this process. DuckDB reads batches in its own threads, so a lock guards the counts."""

    def __init__(self) -> None:
        self.counts = IoMetrics()
        self.lock = Lock()


_COUNTER = _Counter()


def count(metrics: IoMetrics) -> None:
    """Add the counts of files that were just read or written to the counts of this process."""
    with _COUNTER.lock:
        _COUNTER.counts += metrics


def counted() -> IoMetrics:
    """Return how many files, bytes and records this process has read and written so far."""
    with _COUNTER.lock:
        return _COUNTER.counts
