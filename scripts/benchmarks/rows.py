"""The rows of the benchmark: the measured program, its baseline, and the wanted ratio.

Our program and the baseline run in turns, and the best time of each counts. So a busy moment of the machine hits both.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.broker_logs import read_broker_logs
from benchmarks.coordinator import heartbeats, rebalance
from benchmarks.copying import copy_seconds
from benchmarks.following import following
from benchmarks.growth import growth
from benchmarks.measured import Measured, Setting, in_turns, seconds
from benchmarks.nightly import first_audit, memory, nights, scale, skew, small, store, whole
from benchmarks.replay import engine, groups, large_group
from benchmarks.sizes import SIZES
from benchmarks.spark_users import data_source, replay_frames
from benchmarks.standalone import cluster
from benchmarks.what_if import what_if, what_if_all
from coordinator_replay.log.reading import gather_records
from coordinator_replay.log.segment import read_segment
from coordinator_replay.records.decoder import decode_records


def _decode_all(files: list[Path]) -> int:
    records = 0
    for path in files:
        with path.open("rb") as file:
            for batch in gather_records(read_segment(file, source=str(path), log_partition=0)):
                decoded = decode_records(batch)
                records += len(decoded.commit_rows) + len(decoded.group_rows)
    return records


def parse_and_decode(setting: Setting) -> Measured:
    """Measure the decoding of segments into columns on one core, against Kafka's own classes on one thread."""
    from kafka_jars import time_decode_command

    files = sorted(setting.dump.rglob("*.log"))
    decoded = _decode_all(files)
    ours, baseline = [], []
    for _ in range(setting.repeat):
        ours.append(seconds(lambda: _decode_all(files)))
        done = subprocess.run(time_decode_command(setting.dump, 3), capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        if report["records"] != decoded:
            raise SystemExit(f"Kafka read {report['records']} records beside markers, we {decoded}")
        baseline.append(min(report["seconds"]))
    ratio = min(baseline) / min(ours)
    return Measured(
        name="parse-decode",
        ours="parse and decode segments, one core",
        baseline="Kafka's own classes, one thread",
        ours_seconds=min(ours),
        baseline_seconds=min(baseline),
        ratio=ratio,
        wanted=">= 0.8 x Kafka's speed",
        holds=ratio >= 0.8,
    )


def audit_records(setting: Setting) -> Measured:
    """Measure reading, decoding and writing all records, against a plain copy of the raw records into Delta.

    The audit and the copy both read the segments.
    """
    from coordinator_replay.pipeline.audit import Options, run_audit

    def ours() -> None:
        warehouse = setting.work / "warehouse"
        shutil.rmtree(warehouse, ignore_errors=True)
        options = Options(inputs=[str(setting.dump)], warehouse=str(warehouse), records_only=True)
        summary = run_audit(setting.spark, options)
        if summary.run.records_decoded != setting.records:
            raise SystemExit(f"the audit decoded {summary.run.records_decoded} of {setting.records} records")

    b = copy_seconds(setting.dump, setting.dump, setting.work / "copy")
    a = min(seconds(ours) for _ in range(setting.repeat))
    return Measured(
        name="audit-records",
        ours="audit --records-only, start-up aside",
        baseline="copy of the raw records into Delta",
        ours_seconds=a,
        baseline_seconds=b,
        ratio=a / b,
        wanted="<= 3 x the copy",
        holds=a / b <= 3,
    )


def dump_log(setting: Setting) -> Measured:
    """Measure the ``decode`` command against kafka-dump-log. Both outputs are dropped, and start-up counts."""
    from kafka_jars import dump_log_command

    files = sorted(setting.dump.rglob("*.log"))[:1]

    def run(command: list[str]) -> Callable[[], object]:
        return lambda: subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    decode = [sys.executable, "-m", "coordinator_replay", "decode", *map(str, files)]
    a, b = in_turns(1, run(decode), run(dump_log_command(files)))
    return Measured(
        name="dump-log",
        ours="decode FILE",
        baseline="kafka-dump-log --offsets-decoder",
        ours_seconds=a,
        baseline_seconds=b,
        ratio=b / a,
        wanted="(no bound)",
        holds=True,
    )


_MEMORY_PROBE = """
import resource, sys
from coordinator_replay.log.dump import find_dump
from coordinator_replay.log.reading import gather_records, read_file
from coordinator_replay.pipeline.read.decode import decode_batch
file = max(find_dump([sys.argv[1]]).segments, key=lambda file: file.size)
rows = sum(rows.num_rows for batch in gather_records(read_file(file)) for _, rows in decode_batch(batch))
print(file.size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def worker_memory(setting: Setting) -> Measured:
    """Measure the peak memory of a process that reads and decodes the largest segment, as a Spark worker does."""
    command = [sys.executable, "-c", _MEMORY_PROBE, str(setting.dump)]
    size, peak = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    gibibytes = peak / 2**30
    return Measured(
        name="memory",
        ours=f"peak memory over a segment of {size / 2**20:.0f} MiB (GiB)",
        baseline="1 GiB",
        ours_seconds=gibibytes,
        baseline_seconds=1.0,
        ratio=gibibytes,
        wanted="<= 1 GiB",
        holds=gibibytes <= 1,
    )


def latency(setting: Setting) -> Measured:
    """Measure commands that ask, from Enter to the answer.

    Return the command that comes nearest to its limit of time or memory.
    """
    from benchmarks.latency import COMMITS, MOST_MEBIBYTES, MOST_SQL_SECONDS, SQL, in_object_store, questions
    from benchmarks.warehouse import make_warehouse

    warehouse = make_warehouse(setting.dump.parent / f"warehouse-{COMMITS}", commits=COMMITS)
    asked = [_waited(setting, words, most, warehouse) for words, most in questions(setting.work / "page.html")]
    asked.append(_waited(setting, ["sql", SQL], MOST_SQL_SECONDS["folder"], warehouse))
    with in_object_store(warehouse) as uri:
        asked.append(_waited(setting, ["sql", SQL], MOST_SQL_SECONDS["S3"], uri))
    ratio, seconds, most, told = max(asked)
    return Measured(
        name="latency",
        ours=f"{told}, 10 million commits",
        baseline="what a person waits for",
        ours_seconds=seconds,
        baseline_seconds=most,
        ratio=ratio,
        wanted=f"<= 1 (1 s, {MOST_MEBIBYTES} MiB; report 5 s; sql of S3 {MOST_SQL_SECONDS['S3']:.0f} s)",
        holds=ratio <= 1,
    )


def _waited(setting: Setting, words: list[str], most: float, warehouse: Path | str) -> tuple[float, float, float, str]:
    """Ask a question again and again.

    Returns:
        The used share of the limit of time or memory, the seconds, the limit of seconds, and a text about all these.
    """
    from benchmarks.latency import MOST_MEBIBYTES, ask

    runs = [ask(words, warehouse) for _ in range(setting.repeat + 1)][1:]
    seconds, mebibytes = min(run[0] for run in runs), max(run[1] for run in runs)
    subject = words[1] if words[0] != "sql" else "of S3" if isinstance(warehouse, str) else "of a folder"
    told = f"{words[0]} {subject}: {seconds:.2f} s, {mebibytes:.0f} MiB"
    sys.stderr.write(f"latency: {told} (at most {most:.0f} s)\n")
    # The limit of memory is for answers. A page needs the memory for everything that it draws.
    memory = 0.0 if words[0] == "report" else mebibytes / MOST_MEBIBYTES
    return max(seconds / most, memory), seconds, most, told


ROWS: dict[str, Callable[[Setting], Measured]] = {
    "parse-decode": parse_and_decode,
    "memory": worker_memory,
    "dump-log": dump_log,
    "latency": latency,
    "engine": engine,
    "coordinator-heartbeats": heartbeats,
    "coordinator-rebalance": rebalance,
    "groups": groups,
    "large-group": large_group,
    "growth": growth,
    "skew": skew,
    "data-source": data_source,
    "replay-frames": replay_frames,
    "what-if": what_if,
    "what-if-all": what_if_all,
    "audit-records": audit_records,
    "broker-logs": read_broker_logs,
    "whole": whole,
    "peak-memory": memory,
    "store": store,
    "nights": nights,
    "scale": scale,
    "small": small,
    "first-audit": first_audit,
    "following": following,
    "cluster": cluster,
    **SIZES,
}
"""Every row by its name. Rows without Spark come first."""

USUAL = [name for name in ROWS if name not in SIZES]
"""The rows that run if none is named: all rows except ``SIZES``, which take hours."""
