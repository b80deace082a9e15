"""Questions over warehouses of made-up groups. The number of rows that a question reads is doubled."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.generations import generation
from benchmarks.warehouse import warehouse_of
from coordinator_replay.api import Warehouse
from coordinator_replay.pipeline.groups.replay import InputRow, ReplayContext, replay_groups
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.life_marks import finding_columns
from coordinator_replay.report.lives import life_of
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.owner_marks import member_columns, partition_columns
from coordinator_replay.report.trace import trace_events


def _replayed(work: Path, name: str, rows: list[InputRow], more: Iterable[tuple[str, dict[str, Any]]] = ()) -> str:
    """Replay records of groups into a warehouse, and return its folder."""
    folder = work / f"questions-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    place = {"cluster": "default", "log_partition": 0}
    first = {**place, "log_offset": rows[0].log_offset, "log_timestamp": rows[0].timestamp_ms}
    about = {"group_id": rows[0].group_id, "kind": rows[0].kind, "is_tombstone": False}
    end = {"end_timestamp": rows[-1].timestamp_ms, "complete_from_offset": 0, "missing_offsets": 0, "gaps": []}
    read = [("group_records", {**first, **about}), ("log_partitions", {**place, **end})]
    replayed = replay_groups(rows, ReplayContext(cluster="default"))
    return str(warehouse_of(folder, [*read, *more, *replayed]))


def _of_group(folder: str) -> None:
    """Ask the questions about one group, and draw the group."""
    warehouse = Warehouse(folder)
    warehouse.owner("group", "orders", 0)
    warehouse.timeline("group")
    warehouse.rebalances("group")
    life = life_of(Tables(folder), "group")
    clock, members = Clock(life.start, life.end), MemberIdentities(life)
    partition_columns(life, clock, members)
    member_columns(life, clock, members)
    for _ in trace_events(life):
        pass


def generations(count: int, work: Path) -> Callable[[], object]:
    """Return questions about a group in which two members take a partition from each other in each generation."""
    rows = [generation(n, {f"m{m}": range(1) if m == n % 2 else range(0) for m in range(2)}) for n in range(1, count)]
    folder = _replayed(work, f"generations-{count}", rows)
    return lambda: _of_group(folder)


def members(count: int, work: Path) -> Callable[[], object]:
    """Return questions about a group with ``count`` members of one client. All members leave and come back."""
    there: Mapping[str, range] = {f"member-{n:06}": range(n, n + 1) for n in range(count)}
    folder = _replayed(work, f"members-{count}", [generation(1, there), generation(2, {}), generation(3, there)])
    return lambda: _of_group(folder)


def partitions(count: int, work: Path) -> Callable[[], object]:
    """Return questions about a group in which two members take ``count`` partitions from each other.

    Nobody owns the partitions in the generation between two owners.
    """
    turns: list[Mapping[str, range]] = [
        {"a": range(count), "b": range(0)},
        {"a": range(0), "b": range(0)},
        {"a": range(0), "b": range(count)},
    ]
    folder = _replayed(work, f"partitions-{count}", [generation(n, owned) for n, owned in enumerate(turns * 2, 1)])
    return lambda: _of_group(folder)


def findings(count: int, work: Path) -> Callable[[], object]:
    """Return questions about a group with ``count`` findings."""
    rows = [generation(n, {"a": range(n % 2, 2)}) for n in range(1, 9)]
    about = {"cluster": "default", "group_id": "group", "rule": "offset_rewind", "severity": "warning", "detail": "{}"}
    times = {"first_seen": rows[0].timestamp_ms, "last_seen": rows[-1].timestamp_ms, "occurrences": 1}
    found = [("findings", {**about, **times, "finding_id": f"f{n}", "message": f"finding {n}"}) for n in range(count)]
    folder = _replayed(work, f"findings-{count}", rows, found)

    def ask() -> None:
        warehouse = Warehouse(folder)
        warehouse.findings()
        warehouse.metrics()
        life = life_of(Tables(folder), "group")
        finding_columns(life, Clock(life.start, life.end))

    return ask


def groups(count: int, work: Path) -> Callable[[], object]:
    """Return questions about ``count`` groups with two members each. Half of the groups rebalance twice."""
    rows = [
        generation(turn, {"a": range(turn, turn + 1), "b": range(1)}, group=f"group-{number:06}")
        for number in range(count)
        for turn in range(1, 3 + number % 2)
    ]
    folder = _replayed(work, f"groups-{count}", rows)

    def ask() -> None:
        warehouse = Warehouse(folder)
        warehouse.impact()
        warehouse.metrics()
        warehouse.groups()

    return ask


QUESTIONS: Mapping[str, tuple[Callable[[int, Path], Callable[[], object]], int]] = {
    "generations asked about": (generations, 1_000),
    "members asked about": (members, 500),
    "groups asked about": (groups, 500),
    "partitions asked about": (partitions, 1_000),
    "findings asked about": (findings, 1_000),
}
"""The quantities that are doubled, each with the function that makes the questions, and with its first number."""
