"""Shared parts of all rows of the benchmark: the dump, the Spark session, and measurements of time and memory."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import psutil

from coordinator_replay.log.dump import Dump, find_dump


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row: the seconds of our program and of the baseline, and the ratio that is judged."""

    name: str
    ours: str
    baseline: str
    ours_seconds: float
    baseline_seconds: float
    ratio: float
    wanted: str
    holds: bool


@dataclass
class Setting:
    """Inputs that all rows share.

    Attributes:
        dump: the folder with the segments.
        records: number of records of the dump.
        work: a folder for files that the rows write.
        repeat: number of times that our program and the baseline run.
        part: the part of the full sizes that the rows of ``sizes`` make.
    """

    dump: Path
    records: int
    work: Path
    repeat: int
    part: float = 1.0

    @cached_property
    def spark(self) -> Any:
        """Return one session for all Spark rows, with an audit's settings. So start-up counts for no row."""
        from coordinator_replay.pipeline.host.session import open_session

        return open_session("coordinator-replay-benchmark", with_delta=True)

    @cached_property
    def found(self) -> Dump:
        """Return the dump's files."""
        return find_dump([str(self.dump)])


def seconds(run: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def in_turns(repeat: int, ours: Callable[[], object], baseline: Callable[[], object]) -> tuple[float, float]:
    """Return the best times of our program and of the baseline, after one round that warms both up."""
    times = [(seconds(ours), seconds(baseline)) for _ in range(repeat + 1)][1:]
    return min(a for a, _ in times), min(b for _, b in times)


class MemoryWatch:
    """Memory of a process and its children while a block runs, in bytes. Pages that processes share count once.

    Attributes:
        peaks: the largest memory of the process itself (``driver``), of a ``JVM`` and of another child (``worker``).
        largest_sum: the largest memory of all these processes together.
    """

    _EVERY_SECONDS = 0.5

    def __init__(self, root: psutil.Process) -> None:
        self.peaks = Counter[str]()
        self.largest_sum = 0
        self._root = root
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._EVERY_SECONDS):
            try:
                processes = [self._root, *self._root.children(recursive=True)]
            except psutil.Error:
                return
            self.largest_sum = max(self.largest_sum, sum(map(self._seen, processes)))

    def _seen(self, process: psutil.Process) -> int:
        """Note the memory of a process, and return it; 0 if the process has ended."""
        try:
            role = "driver" if process == self._root else "JVM" if process.name() == "java" else "worker"
            held = int(process.memory_full_info().pss)
        except psutil.Error:
            return 0
        self.peaks[role] = max(self.peaks[role], held)
        return held
