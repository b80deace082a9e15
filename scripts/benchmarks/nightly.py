"""Rows of whole audits: a first audit, its memory, twenty nights, other sizes, an object store, a small dump."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from benchmarks.copying import copy_seconds
from benchmarks.dump import make_dump
from benchmarks.measured import Measured, MemoryWatch, Setting, seconds
from coordinator_replay.pipeline.host.class_archive import BARE_SESSION
from tests.log.batch_spans import walk_batches

_NIGHTS = 20
_NIGHT_SHARE = 0.01
_SKEW_RECORDS = 4_000_000
_LOG_PARTITIONS = 50
"""Kafka's default of ``offsets.topic.num.partitions``."""
_NIGHT_RECORDS = 2_000_000


def cut_nights(dump: Path, into: Path, nights: int = _NIGHTS, share: float = _NIGHT_SHARE) -> list[Path]:
    """Cut parts off the end of each log partition, at the begin of batches.

    Return the folder of the rest of the dump, then the folder of each night.

    Args:
        dump: the dump. The last segment of each log partition has all nights.
        into: the folder for the parts.
        nights: number of parts to cut off.
        share: the part of a log partition that a night has.
    """
    shutil.rmtree(into, ignore_errors=True)
    folders = [into / f"night-{number:02d}" for number in range(nights + 1)]
    for partition in sorted(path for path in dump.iterdir() if path.is_dir()):
        files = sorted(partition.glob("*.log"))
        *earlier, last = files
        size = sum(file.stat().st_size for file in files) * share
        raw = last.read_bytes()
        batches = [
            (int(position), int(offset))
            for spans in walk_batches(raw)
            for position, offset in zip(spans.positions, spans.base_offsets, strict=True)
        ]
        wanted = [len(raw) - size * (nights - number) for number in range(nights)]
        marks = [next(batch for batch in batches if batch[0] >= at) for at in wanted]
        for folder in folders:
            (folder / partition.name).mkdir(parents=True)
        for file in earlier:
            (folders[0] / partition.name / file.name).symlink_to(file.resolve())
        (folders[0] / partition.name / last.name).write_bytes(raw[: marks[0][0]])
        ends = [mark[0] for mark in marks[1:]] + [len(raw)]
        for folder, (position, offset), end in zip(folders[1:], marks, ends, strict=True):
            (folder / partition.name / f"{offset:020d}.log").write_bytes(raw[position:end])
    return folders


@dataclass(frozen=True, slots=True)
class _First:
    """Seconds of a first audit and of its baseline, a copy, and the audit's memory."""

    copy: float
    audit: float
    gibibytes: float


@cache
def _first(dump: Path, records: int, work: Path, spark: Any) -> _First:
    small = make_dump(dump.parent / f"dump-{records // 10}", records=records // 10)
    copied = copy_seconds(small, dump, work / "copy")
    # A smaller audit runs first, so that the first compilation does not count.
    _audit(spark, small, str(work / "warm"))
    with MemoryWatch(psutil.Process()) as memory:
        took = seconds(lambda: _audit(spark, dump, str(work / "first")))
    return _First(copied, took, memory.largest_sum / 2**30)


def _audit(spark: Any, dump: Path, warehouse: str) -> None:
    from coordinator_replay.pipeline.audit import Options, run_audit

    run_audit(spark, Options(inputs=[str(dump)], warehouse=warehouse))


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


def _of(setting: Setting) -> _First:
    return _first(setting.dump, setting.records, setting.work, setting.spark)


def whole(setting: Setting) -> Measured:
    """Measure an audit into all tables, against a plain copy of the same raw records into Delta."""
    found = _of(setting)
    ours, baseline = "audit, start-up aside", "copy of the raw records into Delta"
    return _row("whole", ours, baseline, found.audit, found.copy, 2.0, "x the copy")


def memory(setting: Setting) -> Measured:
    """Measure the largest memory of driver, JVM and workers together during an audit."""
    ours = "peak memory of an audit, all processes (GiB)"
    return _row("peak-memory", ours, "6 GiB", _of(setting).gibibytes, 6.0, 1, "of it")


def scale(setting: Setting) -> Measured:
    """Measure an audit of four times the records, against an audit of the dump."""
    large = make_dump(setting.dump.parent / f"dump-{setting.records * 4}", records=setting.records * 4)
    a = seconds(lambda: _audit(setting.spark, large, str(setting.work / "large")))
    return _row("scale", "audit of four times the records", "audit", a, _of(setting).audit, 4.2, "x the audit")


def skew(setting: Setting) -> Measured:
    """Measure an audit with half of all commits in one group, against a dump of the same size without such a group."""
    records = min(_SKEW_RECORDS, setting.records)

    def audited(name: str, **how: bool) -> float:
        folder = setting.dump.parent / f"dump-{records}-{name}"
        dump = make_dump(folder, records=records, partitions=_LOG_PARTITIONS, **how)
        return seconds(lambda: _audit(setting.spark, dump, str(setting.work / name)))

    # Another audit runs first, so that the first compilation does not count.
    _of(setting)
    b, a = audited("even"), audited("hot", has_hot_group=True)
    ours = "audit with half of all commits in one group"
    return _row("skew", ours, "audit of as many commits, spread", a, b, 1.3, "x the spread")


def _command(arguments: Sequence[str], **environment: str) -> float:
    command = [sys.executable, "-m", "coordinator_replay", *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": {**os.environ, **environment}}
    return seconds(lambda: subprocess.run(command, check=True, **quiet))


def store(setting: Setting) -> Measured:
    """Measure an audit into an S3 API on loopback, against the same audit into a folder. Each is a process."""
    from tests.object_store import BUCKET, serve_s3

    dump = str(setting.dump)
    b = _command(["audit", dump, "--warehouse", str(setting.work / "folder")])
    with serve_s3() as environment:
        # Workers find the store by the environment in which their JVM was started.
        os.environ.update(environment)
        a = _command(["audit", dump, "--warehouse", f"s3://{BUCKET}/benchmark"])
    return _row("store", "audit into an S3 stand-in", "audit into a folder", a, b, 1.5, "x the folder")


def nights(setting: Setting) -> Measured:
    """Measure twenty nights of one per cent, a process each: the last night against the second.

    The second night is also compared with the first audit.
    """
    records = min(_NIGHT_RECORDS, setting.records)
    dump = make_dump(setting.dump.parent / f"dump-{records}", records=records)
    folders = cut_nights(dump, setting.work / "nights")
    warehouse = str(setting.work / "nightly")
    took = [_command(["audit", str(folder), "--warehouse", warehouse]) for folder in folders]
    sys.stderr.write(f"nights: first audit {took[0]:.1f} s, then {', '.join(f'{one:.1f}' for one in took[1:])}\n")
    holds = took[-1] <= 1.2 * took[2] and took[2] <= 0.3 * took[0]
    return Measured(
        name="nights",
        ours=f"the last of {_NIGHTS} nights of 1 %; the second is {took[2] / took[0]:.2f} of the first audit",
        baseline="the second night",
        ours_seconds=took[-1],
        baseline_seconds=took[2],
        ratio=took[-1] / took[2],
        wanted="<= 1.2, and 0.3 of the first audit",
        holds=holds,
    )


def small(setting: Setting) -> Measured:
    """Measure an audit of the demo's dump, from Enter to the prompt, against a Spark session that runs one job."""
    import coordinator_replay

    demo = Path(coordinator_replay.__file__).parent / "demo_dump" / "segments"
    a = [_command(["audit", str(demo), "--warehouse", str(setting.work / f"small-{n}")]) for n in range(3)]
    b = [
        seconds(lambda: subprocess.run([sys.executable, "-c", BARE_SESSION], stderr=subprocess.DEVNULL, check=True))
        for _ in range(3)
    ]
    return _row("small", "audit of the demo's dump", "a bare session", min(a), min(b), 1.5, "x the session")


def first_audit(setting: Setting) -> Measured:
    """Measure the first audit of an installation, which has compiled nothing yet, against the second."""
    import coordinator_replay

    demo = Path(coordinator_replay.__file__).parent / "demo_dump" / "segments"
    compiled = str(setting.work / "compiled")
    a, b = (
        _command(["audit", str(demo), "--warehouse", str(setting.work / name)], NUMBA_CACHE_DIR=compiled)
        for name in ("first", "second")
    )
    return _row("first-audit", "the first audit of an installation", "the second", a, b, 2, "x the second")
