"""How long a person waits: commands that ask, as processes of their own, on a warehouse of ten million commits."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.warehouse import group_name

COMMITS = 10_000_000
MOST_SECONDS = 1.0
MOST_REPORT_SECONDS = 5.0
MOST_MEBIBYTES = 300

_BUSIEST, _USUAL = group_name(0), group_name(1000)


def questions(page: Path) -> list[tuple[list[str], float]]:
    """Commands, each with the seconds that it may take; of the group that commits most, and of a usual one."""
    quick = [[name, group] for group in (_BUSIEST, _USUAL) for name in ("describe", "offsets", "rebalances")]
    quick.append(["offsets", _BUSIEST, "--at", "2026-11-15T00:00:00Z"])
    slow = [["report", group, "--out", str(page)] for group in (_BUSIEST, _USUAL)]
    return [*((words, MOST_SECONDS) for words in quick), *((words, MOST_REPORT_SECONDS) for words in slow)]


# A small process in between: what a child has at its peak counts from its parent's size on.
_LAUNCHER = """
import os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(time.perf_counter() - began, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def ask(words: Sequence[str], warehouse: Path) -> tuple[float, float]:
    """Seconds from Enter to the end of the answer, and MiB at the peak."""
    seconds, mebibytes, _ = _asked(words, warehouse)
    return seconds, mebibytes


def core_seconds_to_ask(words: Sequence[str], warehouse: Path) -> float:
    """Seconds for which cores worked on the answer, start-up included, whatever else the machine does."""
    return _asked(words, warehouse)[2]


def _asked(words: Sequence[str], warehouse: Path) -> tuple[float, float, float]:
    command = [sys.executable, "-m", "coordinator_replay", *words, "--warehouse", str(warehouse)]
    done = subprocess.run([sys.executable, "-c", _LAUNCHER, *command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {done.stderr}")
    seconds, mebibytes, core_seconds = map(float, done.stdout.split())
    return seconds, mebibytes, core_seconds
