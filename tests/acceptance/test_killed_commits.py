"""A run that ends right before or right after any of its commits leaves nothing that counts.

A killed run commits nothing more, while other commits may be on their way. In the long test it is a process that ends
itself by ``os._exit``; in the quick one an exception ends the run, and keeps it from committing.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.store.beginning import begin
from coordinator_replay.store.layout import LEDGER
from coordinator_replay.store.snapshot import Snapshot
from coordinator_replay.store.warehouse import Store
from coordinator_replay.tables.definition import tables
from tests.pipeline.in_process import audit, audit_here, contents, cut
from tests.samples import Sample

__all__ = ["audit"]

QUICK = Thresholds(stuck_ms=2000, storm_rebalances=6, silent_ms=5000, patience=1, never_committed_ms=5000)
"""So that lives of seconds have findings."""

KILLED = 99


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Starts processes from one that has imported all there is, and has started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["coordinator_replay.pipeline.audit", "tests.pipeline.in_process"])
    return context


def kill_process(processes: ForkServerContext, warehouse: str, dump: Path, name: str, *, is_after: bool) -> None:
    """Audit a dump in a process that ends right before or right after the commit of a table."""
    ended = {"is_after": is_after, "end": _exit}
    process = processes.Process(target=run_until, args=(warehouse, str(dump), name), kwargs=ended)
    process.start()
    process.join()
    assert process.exitcode == KILLED


def _exit() -> None:
    os._exit(KILLED)


class Killed(BaseException):
    """Ends a run as nothing in it expects."""


def kill_thread(_processes: ForkServerContext, warehouse: str, dump: Path, name: str, *, is_after: bool) -> None:
    """Audit a dump; the run ends right before or right after the commit of a table."""

    def end() -> None:
        raise Killed

    commit = Store.commit
    try:
        with pytest.raises(Killed):
            run_until(warehouse, str(dump), name, is_after=is_after, end=end)
    finally:
        Store.commit = staticmethod(commit)  # type: ignore[method-assign]


def run_until(warehouse: str, dump: str, name: str, *, is_after: bool, end: Callable[[], None]) -> None:
    """Audit a dump up to the commit of a table."""
    commit, is_over = Store.commit, threading.Event()

    def commit_or_end(snapshot: Snapshot, *of: Any, **about: Any) -> int:
        if is_over.is_set():
            end()
        if snapshot.table != name:
            return commit(snapshot, *of, **about)
        if is_after:
            commit(snapshot, *of, **about)
        is_over.set()
        end()
        return 0

    Store.commit = staticmethod(commit_or_end)  # type: ignore[method-assign, assignment]
    audit_here(warehouse, dump, thresholds=QUICK)


Kill = Callable[..., None]


@pytest.fixture(
    params=[
        ("local", kill_thread),
        pytest.param(("local", kill_process), marks=pytest.mark.long),
        pytest.param(("s3", kill_thread), marks=pytest.mark.long),
    ],
    ids=["local", "local-processes", "s3"],
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Kill]:
    """The warehouse, and how a run is killed."""
    where, kill = request.param
    folder = str(tmp_path) if where == "local" else request.getfixturevalue("s3")
    return f"{folder}/warehouse", kill


def files(warehouse: str) -> dict[str, set[str]]:
    """The files that each table consists of; a table without files is like one that is not there."""
    store = Store(warehouse)
    found = {name: store.snapshot(name) for name in tables()}
    return {name: {file.uri for file in one.every} for name, one in found.items() if one is not None and one.every}


SOME = ("group_timeline", LEDGER)
"""A table of a step in the middle of a run, and the ledger last: where a run ends before it, all tables are undone."""


@pytest.mark.parametrize(
    "is_first", [False, pytest.param(True, marks=pytest.mark.long)], ids=["second run", "first run"]
)
@pytest.mark.parametrize(
    ("at", "sample"),
    [(SOME, "java-clients"), pytest.param(tuple(tables()), "group-lifecycles", marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_a_run_killed_at_any_commit_is_undone(
    at: tuple[str, ...],
    sample: str,
    is_first: bool,
    place: tuple[str, Kill],
    audit: Callable[..., Summary],
    processes: ForkServerContext,
    tmp_path: Path,
):
    warehouse, kill = place
    nights = [tmp_path / f"night-{number}" for number in (1, 2)]
    cut(Sample(sample).segments, nights)
    dump = nights[0] if is_first else nights[1]
    for held in (warehouse, str(tmp_path / "undisturbed")):
        if not is_first:
            audit(held, nights[0], thresholds=QUICK)
    before = files(warehouse)
    audit(tmp_path / "undisturbed", dump, thresholds=QUICK)
    expected, undone = contents(tmp_path / "undisturbed"), set()
    for name in sorted(at):
        for is_after in (False, True):
            if name == LEDGER and is_after:
                continue
            kill(processes, warehouse, dump, name, is_after=is_after)
            undone |= set(begin(Store(warehouse)).undone)
            assert files(warehouse) == before, (name, is_after)
    assert undone >= {"offset_commits", "group_timeline", "offset_history", "findings"}
    # One that ends after its last commit has finished.
    kill(processes, warehouse, dump, LEDGER, is_after=True)
    assert contents(warehouse) == expected
    assert begin(Store(warehouse)).undone == ()
    again = audit(warehouse, dump, thresholds=QUICK)
    assert any("nothing new" in note for note in again.run.notes)
    assert contents(warehouse) == expected
