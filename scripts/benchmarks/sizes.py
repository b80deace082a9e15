"""Rows of large sizes: an audit of each size, the memory of its processes, and questions afterwards.

``--part 0.1`` makes a tenth of each size. On two cores, all sizes in full take many hours.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from benchmarks.dump import make_dump
from benchmarks.latency import ask
from benchmarks.measured import Measured, MemoryWatch, Setting
from benchmarks.nightly import cut_nights
from benchmarks.replay import large_modern_group

_RECORDS = 100_000_000
_GROUPS = 1_000_000
_RECORDS_OF_A_GROUP = 10
_HOT_COMMITS = 20_000_000
_SEGMENTS, _SEGMENT_PARTITIONS, _COPIES, _SMALL_SEGMENT = 5_000, 200, 3, 200
_YEAR, _NIGHT_RECORDS, _NIGHTS_TO_MAINTAIN = 365, 100_000, 30
_COMPARED_NIGHT, _MOST_SLOWER = 3, 1.5
"""The night with which the last night is compared, and the largest ratio of their times."""
_LOG_PARTITIONS = 50
"""Kafka's default of ``offsets.topic.num.partitions``."""

_WORKER_GIBIBYTES, _DRIVER_GIBIBYTES = 2.0, 1.0


class ProcessMemory:
    """The largest memory of the driver, of the JVM and of a Python worker while a command runs, in GiB."""

    def __init__(self) -> None:
        self.peaks = {"driver": 0.0, "JVM": 0.0, "worker": 0.0}

    def run(self, arguments: Sequence[str]) -> float:
        """Run a command of the program, and return its seconds."""
        command = [sys.executable, "-m", "coordinator_replay", *arguments]
        began = time.perf_counter()
        with (
            subprocess.Popen(command, stdout=subprocess.DEVNULL) as run,
            MemoryWatch(psutil.Process(run.pid)) as watch,
        ):
            code = run.wait()
        if code:
            raise SystemExit(f"{' '.join(arguments)} ended with {code}")
        self.peaks = {role: max(held, watch.peaks[role] / 2**30) for role, held in self.peaks.items()}
        return time.perf_counter() - began

    def told(self) -> str:
        """Return the peaks as a text."""
        return ", ".join(f"{role} {held:.2f} GiB" for role, held in self.peaks.items())

    def ratio(self) -> float:
        """Return the used share of the memory that a worker or the driver may take, whichever is larger."""
        return max(self.peaks["worker"] / _WORKER_GIBIBYTES, self.peaks["driver"] / _DRIVER_GIBIBYTES)


def _row(name: str, what: str, took: float, memory: ProcessMemory, more: Sequence[str]) -> Measured:
    sys.stderr.write(f"{name}: {'; '.join([f'{took:.0f} s', memory.told(), *more])}\n")
    return Measured(
        name=name,
        ours=f"{what}: {memory.told()}; {'; '.join(more)}",
        baseline="2 GiB a worker, 1 GiB the driver",
        ours_seconds=took,
        baseline_seconds=0,
        ratio=memory.ratio(),
        wanted="<= 1 of it",
        holds=memory.ratio() <= 1,
    )


def _questions(warehouse: Path, asked: Sequence[Sequence[str]]) -> list[str]:
    """Ask questions, and return a text about each: its words, seconds and memory."""
    told = []
    for words in asked:
        seconds, mebibytes = ask(words, warehouse)
        told.append(f"{words[0]} {seconds:.2f} s, {mebibytes:.0f} MiB")
    return told


def _audited(
    setting: Setting, name: str, what: str, dump: Path, asked: Sequence[Sequence[str]] = (("groups",), ("findings",))
) -> Measured:
    """Audit a dump into a new warehouse, and ask questions about it."""
    warehouse, memory = setting.work / name, ProcessMemory()
    took = memory.run(["audit", str(dump), "--warehouse", str(warehouse)])
    row = _row(name, what, took, memory, _questions(warehouse, asked))
    shutil.rmtree(warehouse)
    return row


def _kept(setting: Setting, name: str) -> Path:
    """Return the folder of a dump of one of the sizes."""
    return setting.dump.parent / f"{name}-{setting.part:g}"


_GROUP = "team-000000"
"""The group that commits most (see ``dump``)."""

_ABOUT_ONE = tuple((name, _GROUP) for name in ("describe", "offsets", "rebalances"))


def records(setting: Setting) -> Measured:
    """Measure a hundred million records, and the questions about them."""
    count = int(_RECORDS * setting.part)
    dump = make_dump(_kept(setting, "size-records"), records=count, partitions=_LOG_PARTITIONS)
    asked = (("groups",), ("findings",), *_ABOUT_ONE)
    return _audited(setting, "size-records", f"audit of {count:,} records", dump, asked)


def groups(setting: Setting) -> Measured:
    """Measure a million groups: audit, ``groups``, ``findings`` and pages of all groups with rebalances or findings."""
    count = int(_GROUPS * setting.part)
    folder = _kept(setting, "size-groups")
    dump = make_dump(folder, records=count * _RECORDS_OF_A_GROUP, partitions=_LOG_PARTITIONS, groups=count)
    asked = (("groups",), ("findings",), ("report", "--out", str(setting.work / "pages") + "/"))
    return _audited(setting, "size-groups", f"audit of {count:,} groups", dump, asked)


def hot_group(setting: Setting) -> Measured:
    """Measure a group with twenty million commits, which are half of all records."""
    count = int(_HOT_COMMITS * setting.part)
    folder = _kept(setting, "size-hot-group")
    dump = make_dump(folder, records=2 * count, partitions=_LOG_PARTITIONS, has_hot_group=True)
    return _audited(setting, "size-hot-group", f"audit with {count:,} commits of a group", dump, _ABOUT_ONE)


def segments(setting: Setting) -> Measured:
    """Measure 200 log partitions with 5,000 segments in all, and three copies of each segment."""
    count = int(_SEGMENTS * setting.part)
    folder = _kept(setting, "size-segments")
    partitions = min(_SEGMENT_PARTITIONS, count)
    dump = make_dump(
        folder / "broker-0", records=count * _SMALL_SEGMENT, partitions=partitions, segment_records=_SMALL_SEGMENT
    )
    for copy in range(1, _COPIES):
        _link_copy(dump, folder / f"broker-{copy}")
    what = f"audit of {count:,} segments in {partitions} log partitions, {_COPIES} copies"
    return _audited(setting, "size-segments", what, folder)


def _link_copy(dump: Path, copy: Path) -> None:
    """Make a copy of a dump with hard links, unless there is a copy."""
    if copy.exists():
        return
    # The copy gets its name when it is complete. Until then it lies outside of the audited folder.
    unfinished = copy.parent.with_name(f"{copy.parent.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(dump, unfinished, copy_function=os.link)
    unfinished.rename(copy)


def year(setting: Setting) -> Measured:
    """Measure 365 nights of 100,000 records, with ``maintain`` every 30 nights: the last night against the third."""
    count = max(_COMPARED_NIGHT, int(_YEAR * setting.part))
    folder = _kept(setting, "size-year")
    dump = make_dump(folder, records=_NIGHT_RECORDS * (count + 1), partitions=_LOG_PARTITIONS)
    nights = cut_nights(dump, setting.work / "size-year-nights", count, 1 / (count + 1))
    warehouse, memory, took = setting.work / "size-year", ProcessMemory(), list[float]()
    for number, night in enumerate(nights, 1):
        took.append(memory.run(["audit", str(night), "--warehouse", str(warehouse)]))
        if number % _NIGHTS_TO_MAINTAIN == 0:
            memory.run(["maintain", "--warehouse", str(warehouse)])
    files = sum(1 for path in warehouse.rglob("*.parquet"))
    compared, last = took[_COMPARED_NIGHT - 1], took[-1]
    told = [f"night {_COMPARED_NIGHT} {compared:.1f} s, the last {last:.1f} s", f"{files:,} files"]
    asked = (("groups",), ("findings",), *_ABOUT_ONE)
    what = f"{count} nights of {_NIGHT_RECORDS:,} records"
    row = _row("size-year", what, sum(took), memory, [*told, *_questions(warehouse, asked)])
    return replace(
        row,
        wanted=f"{row.wanted}, the last night <= {_MOST_SLOWER:g} x night {_COMPARED_NIGHT}",
        holds=row.holds and last <= _MOST_SLOWER * compared,
    )


SIZES: dict[str, Callable[[Setting], Measured]] = {
    "size-records": records,
    "size-groups": groups,
    "size-hot-group": hot_group,
    "size-consumer-group": large_modern_group,
    "size-segments": segments,
    "size-year": year,
}
"""Rows by name. ``--part`` makes a part of each size."""
