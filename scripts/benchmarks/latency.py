"""The time that a person waits for an answer. Commands run as processes on a warehouse of ten million commits.

The warehouse is a folder. A statement of SQL is also asked of a copy behind an S3 API on the same machine.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.warehouse import group_name

COMMITS = 10_000_000
MOST_SECONDS = 1.0
MOST_REPORT_SECONDS = 5.0
MOST_SQL_SECONDS = {"folder": 1.0, "S3": 3.0}
"""Limits for a statement that reads all commits. The S3 server runs on the same cores."""
MOST_MEBIBYTES = 300

SQL = (
    "SELECT group_id, count(*) AS commits, max(committed_offset) AS last FROM offset_commits "
    "GROUP BY ALL ORDER BY commits DESC LIMIT 10"
)

_BUSIEST, _USUAL = group_name(0), group_name(1000)


def questions(page: Path) -> list[tuple[list[str], float]]:
    """Return commands on the busiest group and on a usual group, each with the seconds that it may take."""
    quick = [[name, group] for group in (_BUSIEST, _USUAL) for name in ("describe", "offsets", "rebalances")]
    quick.append(["offsets", _BUSIEST, "--at", "2026-11-15T00:00:00Z"])
    slow = [["report", group, "--out", str(page)] for group in (_BUSIEST, _USUAL)]
    return [*((words, MOST_SECONDS) for words in quick), *((words, MOST_REPORT_SECONDS) for words in slow)]


@contextmanager
def in_object_store(warehouse: Path) -> Iterator[str]:
    """Copy a warehouse into an object store, which this process and its children can read until the block ends.

    Yields:
        The copy's URI.
    """
    from pyarrow import fs

    from coordinator_replay.filesystem import open_filesystem
    from tests.object_store import BUCKET, serve_s3

    former = dict(os.environ)
    with serve_s3() as environment:
        os.environ.update(environment)
        try:
            uri = f"s3://{BUCKET}/{warehouse.name}"
            store, key = open_filesystem(uri)
            fs.copy_files(str(warehouse), key, source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
            yield uri
        finally:
            os.environ.clear()
            os.environ.update(former)


# A small process starts the command, because the peak memory of a child is at least the memory of its parent.
_LAUNCHER = """
import os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(time.perf_counter() - began, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def ask(words: Sequence[str], warehouse: Path | str) -> tuple[float, float]:
    """Return the seconds from Enter to the end of the answer, and the peak memory in MiB."""
    seconds, mebibytes, _ = _asked(words, warehouse)
    return seconds, mebibytes


def core_seconds_to_ask(words: Sequence[str], warehouse: Path) -> float:
    """Return the CPU time of an answer in seconds, start-up included."""
    return _asked(words, warehouse)[2]


def _asked(words: Sequence[str], warehouse: Path | str) -> tuple[float, float, float]:
    command = [sys.executable, "-m", "coordinator_replay", *words, "--warehouse", str(warehouse)]
    done = subprocess.run([sys.executable, "-c", _LAUNCHER, *command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {done.stderr}")
    seconds, mebibytes, core_seconds = map(float, done.stdout.split())
    return seconds, mebibytes, core_seconds
