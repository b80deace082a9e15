"""Audits as processes of their own, as a person or cron starts them, and what they leave in the tables."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

QUICK = ("stuck=2s", "storm-rebalances=6", "silent=5s", "patience=1", "never-committed=5s")
"""So that lives of seconds have findings."""

LONGEST_SECONDS = 900
"""No audit of a small sample takes that long, on a machine with other work too: it hangs."""


@dataclass(frozen=True)
class Member:
    """A process of an audit: driver, JVM, daemon of the Python workers, worker."""

    pid: int
    parent: int
    command: str

    @property
    def is_jvm(self) -> bool:
        return "org.apache.spark.deploy.SparkSubmit" in self.command

    @property
    def is_python_worker(self) -> bool:
        return "pyspark.daemon" in self.command


class Audit:
    """An audit that runs; its folder takes what it prints, and what it would leave in the machine's."""

    def __init__(self, dump: Path | str, warehouse: Path | str, folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.printed, self.said = folder / "stdout", folder / "stderr"
        thresholds = [part for threshold in QUICK for part in ("--threshold", threshold)]
        command = ["audit", str(dump), "--warehouse", str(warehouse), *thresholds, *options]
        env = {**os.environ, "TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder)}
        with self.printed.open("wb") as out, self.said.open("wb") as err:
            # A session of its own: the daemon of the workers leaves the process group, but not the session.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "coordinator_replay", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=env,
                start_new_session=True,
                # Whatever started the tests in the background may have made them deaf to it.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def members(self) -> Iterator[Member]:
        """The processes of the audit that live now."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # gone meanwhile
                state, parent, _, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.process.pid and state != "Z":
                    command = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield Member(int(stat.parent.name), int(parent), command)

    def is_over_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> int:
        """Wait until it ends by itself; its exit code. What it leaves running is ended."""
        try:
            return self.process.wait(LONGEST_SECONDS)
        finally:
            self.kill_all()

    def kill_all(self) -> None:
        """End every process of the audit at once, as a power cut would."""
        while members := list(self.members()):
            for member in members:
                _kill(member)
            time.sleep(0.02)
        self.process.wait()

    def interrupt(self) -> None:
        """Press Ctrl-C: every process of the group is told, as a terminal does it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)

    def kill_jvm(self) -> None:
        for member in self.members():
            if member.is_jvm:
                _kill(member)

    def kill_worker(self) -> None:
        """End a Python worker, as soon as there is one; it may be idle, and none may come before the audit ends."""
        while self.process.poll() is None:
            python = [member for member in self.members() if member.is_python_worker]
            forks = {member.pid for member in python}
            for worker in [member for member in python if member.parent in forks][-1:]:
                _kill(worker)
                return
            time.sleep(0.01)

    def fill_disk(self) -> None:
        """From now on, none of its processes can write a file beyond some kilobytes."""
        for member in self.members():
            with suppress(ProcessLookupError):
                resource.prlimit(member.pid, resource.RLIMIT_FSIZE, (4096, 4096))

    def reaches(self, step: str) -> None:
        """Wait until it says that a step begins."""
        until = time.monotonic() + LONGEST_SECONDS
        while step not in self.told():
            assert self.process.poll() is None, f"it ended before {step!r}: {self.told()}"
            assert time.monotonic() < until, f"it never came to {step!r}: {self.told()}"
            time.sleep(0.02)

    def told(self) -> str:
        return self.said.read_text(errors="replace")

    def last_sentence(self) -> str:
        """What it said at its end; whoever runs it is no reader of stack traces."""
        told = self.told()
        assert "Traceback" not in told, told
        last = told.strip().splitlines()[-1]
        assert last.startswith("Error: "), told
        return last


def _kill(member: Member) -> None:
    with suppress(ProcessLookupError):
        os.kill(member.pid, signal.SIGKILL)


def audited(dump: Path | str, warehouse: Path | str, folder: Path, *options: str) -> float:
    """Audit without disturbance; how long it took."""
    began = time.monotonic()
    audit = Audit(dump, warehouse, folder, *options)
    assert audit.end() == 0, audit.told()
    return time.monotonic() - began


def tables(warehouse: Path) -> dict[str, list[str]]:
    """All that a warehouse holds but its ledger, in an order that says nothing of how it came there."""
    found = {}
    for folder in sorted(warehouse.iterdir()):
        if (folder / "_delta_log").is_dir() and folder.name != "audit_runs":
            rows = DeltaTable(folder).to_pyarrow_table()
            # A column that was added to a table of an older release stands at its end.
            in_order = rows.select(sorted({*rows.column_names} - {"run_id", "found_in_run"}))
            found[folder.name] = sorted(repr(_filled(row)) for row in in_order.to_pylist())
    return found


def _filled(row: dict[str, object]) -> dict[str, object]:
    """A row without what is null: a column that has another name since an older release is still there, and empty."""
    return {name: value for name, value in row.items() if value is not None}


def ledger(warehouse: Path) -> list[dict[str, object]]:
    """What each run that is done says of itself, the oldest first."""
    runs: list[dict[str, object]] = DeltaTable(warehouse / "audit_runs").to_pyarrow_table().to_pylist()
    return sorted(runs, key=lambda run: str(run["run_id"]))


def check_same(warehouse: Path, expected: dict[str, list[str]], *, but: tuple[str, ...] = ()) -> None:
    """Table by table, so that a failure names the first that differs and shows how."""
    found = tables(warehouse)
    assert found.keys() == expected.keys()
    for name in expected.keys() - set(but):
        assert found[name] == expected[name], name
