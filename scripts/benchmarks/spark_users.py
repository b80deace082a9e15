"""Rows of the parts that Spark's users call: the data source, and the replay as DataFrames.

They run in a process of their own with a plain session, because the session of other rows is tuned for audits.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measured import Measured, Setting, in_turns, seconds
from benchmarks.replay import TOPIC, TOPIC_ID, fold_seconds, many_groups

_WANTED_A_SECOND = 600_000


def _in_plain_session(what: str, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.spark_users", what, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def data_source(setting: Setting) -> Measured:
    """Measure reading all columns by the data source, against a map that does nothing over the same rows in Parquet."""
    found = _in_plain_session("read", str(setting.dump), str(setting.work / "rows"), str(setting.repeat))
    ours, baseline = found["ours"], found["baseline"]
    rate = setting.records / ours
    return Measured(
        name="data-source",
        ours=f"data source: {rate:,.0f} records/s, {found['gibibytes']:.2f} GiB at most in a Python worker",
        baseline="identity mapInArrow over the same rows from Parquet",
        ours_seconds=ours,
        baseline_seconds=baseline,
        ratio=ours / baseline,
        wanted=f"<= 1.3, and >= {_WANTED_A_SECOND:,} records/s",
        holds=ours <= 1.3 * baseline and rate >= _WANTED_A_SECOND,
    )


def replay_frames(setting: Setting) -> Measured:
    """Measure ``replay_groups`` over many groups of ten records, against the audit's own replay of the same records."""
    fold_seconds(setting, "frames-first", many_groups(few=True))
    b = fold_seconds(setting, "frames", many_groups())
    a = _in_plain_session("replay", str(setting.work), str(setting.repeat))["ours"]
    return Measured(
        name="replay-frames",
        ours="replay_groups over 100,000 groups",
        baseline="the audit's own replay of the same records",
        ours_seconds=a,
        baseline_seconds=b,
        ratio=a / b,
        wanted="<= 2 x the audit's replay",
        holds=a / b <= 2,
    )


def _largest_worker() -> float:
    """Return the largest memory of a Python worker so far, in GiB. Linux keeps this value while the process lives."""
    marks = [0.0]
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):
            if "pyspark.daemon" in process.cmdline():
                status = Path(f"/proc/{process.pid}/status").read_text()
                marks.append(int(status.split("VmHWM:")[1].split()[0]) / 2**20)
    return max(marks)


def _read(spark: Any, dump: str, rows: str, repeat: str) -> dict[str, float]:
    log = spark.read.format("consumer_offsets").load(dump)
    log.write.parquet(rows)
    stored = spark.read.parquet(rows)

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    identity = stored.mapInArrow(same, stored.schema)
    a, b = in_turns(int(repeat), lambda: _to_nowhere(log), lambda: _to_nowhere(identity))
    return {"ours": a, "baseline": b, "gibibytes": _largest_worker()}


def _replay(spark: Any, folder: str, repeat: str) -> dict[str, float]:
    from coordinator_replay.spark import replay_groups

    records = spark.read.parquet(*map(str, Path(folder).glob("frames-[0-9].parquet")))
    names = {TOPIC_ID: TOPIC}
    runs = [
        seconds(lambda: _to_nowhere(replay_groups(records, topic_names=names).rows)) for _ in range(int(repeat) + 1)
    ]
    return {"ours": min(runs[1:])}


def _to_nowhere(rows: Any) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _main(what: str, *arguments: str) -> None:
    from benchmarks.plain_session import open_plain_session
    from coordinator_replay.spark import register

    spark = open_plain_session("coordinator-replay-spark-users")
    register(spark)
    sys.stdout.write(json.dumps({"read": _read, "replay": _replay}[what](spark, *arguments)) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
