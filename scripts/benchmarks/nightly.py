"""Rows about a whole audit: a first one, the night after it, a tenth of the data; all from one series of runs."""

import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from benchmarks.copying import copy_seconds
from benchmarks.dump import make_dump
from benchmarks.measured import Measured, Setting, seconds
from coordinator_replay.log.segment import walk_batches

_NIGHT_SHARE = 0.01
_WANTED_COPIES = 4
_WANTED_NIGHT = 0.10
_WANTED_GROWTH = 11
_WANTED_GIBIBYTES = 6.0
_WANTED_OFFSETS = 1.0
_WANTED_FINDINGS = 0.10
_EVERY_SECONDS = 0.5
_OFFSETS, _FINDINGS = "deriving offset history and expiry", "looking for findings"


def cut_night(dump: Path, into: Path) -> tuple[Path, Path]:
    """Cut the last hundredth of each log partition off, at a batch: the dump without it, and it alone."""
    shutil.rmtree(into, ignore_errors=True)
    before, night = into / "before", into / "night"
    for partition in sorted(path for path in dump.iterdir() if path.is_dir()):
        for folder in (before, night):
            (folder / partition.name).mkdir(parents=True)
        *earlier, last = sorted(partition.glob("*.log"))
        for file in earlier:
            (before / partition.name / file.name).symlink_to(file.resolve())
        raw = last.read_bytes()
        batches = [
            (int(position), int(offset))
            for spans in walk_batches(raw)
            for position, offset in zip(spans.positions, spans.base_offsets, strict=True)
        ]
        size = sum(file.stat().st_size for file in (*earlier, last)) * _NIGHT_SHARE
        position, offset = next(batch for batch in batches if len(raw) - batch[0] <= size)
        (before / partition.name / last.name).write_bytes(raw[:position])
        (night / partition.name / f"{offset:020d}.log").write_bytes(raw[position:])
    return before, night


class PeakMemory:
    """Watches this process, its JVM and its Python workers: the largest sum of what each holds for itself."""

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._done.wait(_EVERY_SECONDS):
            held = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    # Shared pages of forked workers count once.
                    held += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.bytes = max(self.bytes, held)


@dataclass(frozen=True, slots=True)
class Series:
    """Seconds of each run of the series, and the peak of memory in the first audit; seconds of its steps by name."""

    copy: float
    first: float
    night: float
    tenth: float
    gibibytes: float
    steps: Mapping[str, float]


class _Clock:
    """Notes when each step of an audit begins."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []

    def __call__(self, step: str) -> None:
        self.begun.append((step, time.perf_counter()))

    def steps(self) -> dict[str, float]:
        """Seconds that each step took."""
        ends = [at for _, at in self.begun[1:]] + [time.perf_counter()]
        return {step: end - at for (step, at), end in zip(self.begun, ends, strict=True)}


@cache
def _series(dump: Path, records: int, work: Path, spark: Any) -> Series:
    from coordinator_replay.pipeline.audit import Options, run_audit

    def audit(folder: Path, name: str, clock: _Clock | None = None) -> None:
        run_audit(spark, Options(inputs=[str(folder)], warehouse=str(work / name)), clock or _Clock())

    small = make_dump(dump.parent / f"dump-{records // 10}", records=records // 10)
    before, night = cut_night(dump, work / "nights")
    copied = copy_seconds(small, before, work / "copy")
    # Once beforehand, so that what is compiled first counts for nobody.
    audit(small, "warm")
    tenth = seconds(lambda: audit(small, "tenth"))
    clock = _Clock()
    with PeakMemory() as memory:
        first = seconds(lambda: audit(before, "nightly", clock))
    steps = clock.steps()
    later = seconds(lambda: audit(night, "nightly"))
    return Series(copied, first, later, tenth, memory.bytes / 2**30, steps)


def _told(setting: Setting) -> Series:
    return _series(setting.dump, setting.records, setting.work, setting.spark)


def _row(name: str, ours: str, baseline: str, a: float, b: float, wanted: float, unit: str) -> Measured:
    return Measured(
        name=name,
        ours=ours,
        baseline=baseline,
        ours_seconds=a,
        baseline_seconds=b,
        ratio=a / b,
        wanted=f"<= {wanted:g} {unit}",
        holds=a / b <= wanted,
    )


def whole(setting: Setting) -> Measured:
    """Segments to all tables, against a plain copy of the same raw records into Delta."""
    told = _told(setting)
    ours, baseline = "audit, start-up aside", "copy of the raw records into Delta"
    return _row("whole", ours, baseline, told.first, told.copy, _WANTED_COPIES, "x the copy")


def night(setting: Setting) -> Measured:
    """An audit of one per cent more, against the one before it."""
    told = _told(setting)
    return _row("night", "audit of 1 % more", "the first audit", told.night, told.first, _WANTED_NIGHT, "of it")


def offsets(setting: Setting) -> Measured:
    """The part of the first audit that is about offsets, against a plain copy of the raw records into Delta."""
    told = _told(setting)
    ours, baseline = "history and expiry of offsets", "copy of the raw records into Delta"
    return _row("offsets", ours, baseline, told.steps[_OFFSETS], told.copy, _WANTED_OFFSETS, "x the copy")


def findings(setting: Setting) -> Measured:
    """What findings and metrics add to the rest of the first audit."""
    told = _told(setting)
    found = told.steps[_FINDINGS]
    return _row(
        "findings", "findings and metrics", "the audit without", found, told.first - found, _WANTED_FINDINGS, "of it"
    )


def growth(setting: Setting) -> Measured:
    """An audit of ten times the data."""
    told = _told(setting)
    return _row("growth", "audit", "audit of a tenth", told.first, told.tenth, _WANTED_GROWTH, "x the tenth")


def memory(setting: Setting) -> Measured:
    """What driver, JVM and workers hold at most during an audit."""
    told = _told(setting)
    ours = "peak memory of an audit, all processes (GiB)"
    return _row("peak-memory", ours, f"{_WANTED_GIBIBYTES:g} GiB", told.gibibytes, _WANTED_GIBIBYTES, 1, "of it")
