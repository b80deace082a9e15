"""Restarts that follow each other are one rollout: of static and dynamic members, with old and new client ids."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.query.rollouts import rollouts_of
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from tests.pipeline.audited_once import AuditedOnce
from tests.query.small_warehouse import at, member, rebalances, write_small_warehouse
from tests.samples import Sample

Stay = tuple[str, str, str | None, dict[str, Any]]


def stays(group: str, *own: Stay) -> list[dict[str, Any]]:
    return [
        member(group, name, start, end, 500 + place, **columns) for place, (name, start, end, columns) in enumerate(own)
    ]


def named(client: str) -> dict[str, Any]:
    return {"client_id": client}


LIVES = {
    # Three clients restart one after the other.
    "dynamic": [
        *((f"old-{n}", "02:00", f"02:1{n}", named(f"app-{n}")) for n in range(3)),
        *((f"new-{n}", f"02:1{n}:20", None, named(f"app-{n}")) for n in range(3)),
    ],
    # Static members keep their instance id, and have a new member id at once.
    "static": [
        *((f"s-old-{n}", "02:00", f"02:1{n}", {"instance_id": f"i-{n}"}) for n in range(2)),
        *((f"s-new-{n}", f"02:1{n}", None, {"instance_id": f"i-{n}"}) for n in range(2)),
    ],
    # Each deployment has client ids of its own, and new members come before old ones go.
    "renamed": [
        *((f"a-{n}", "02:00", f"02:1{n}:30", named(f"v1-{n}")) for n in range(2)),
        *((f"b-{n}", f"02:1{n}", None, named(f"v2-{n}")) for n in range(2)),
    ],
    # More members, and nobody went.
    "grown": [("g-1", "02:00", None, {}), ("g-2", "02:05", None, {}), ("g-3", "02:06", None, {})],
    # Fewer members, and nobody came.
    "shrunk": [("h-1", "02:00", "02:05", {}), ("h-2", "02:00", "02:06", {}), ("h-3", "02:00", None, {})],
    # Members that were there before the first record of the log: when they joined is not on record.
    "cleaned": [
        *((f"d-old-{n}", "02:00", f"02:1{n}", {}) for n in range(2)),
        *((f"d-new-{n}", f"02:1{n}:20", None, {"is_begin_open": True}) for n in range(2)),
    ],
    # A group starts, and one member leaves again: the others are no successors of it.
    "started": [
        *((f"e-{n}", f"02:00:0{n}", None, {}) for n in range(2, 5)),
        ("e-1", "02:00:01", "02:00:30", {}),
    ],
    # Members come and go within seconds, none under the name of another one.
    "tried": [
        ("t-1", "02:00", "02:00:10", {}),
        ("t-2", "02:00:03", "02:00:25", {}),
        ("t-3", "02:00:15", "02:00:24", {}),
    ],
    # One of several members of one client id leaves while its group starts.
    "alike": [(f"k-{n}", f"02:00:0{n}", "02:00:30" if n < 2 else None, named("app")) for n in range(4)],
    # All members are gone, and one name comes back twice: the second one is another process.
    "emptied": [
        ("n-1", "02:00", "02:05", named("app-1")),
        ("n-2", "02:06", None, named("app-1")),
        ("n-3", "02:07", None, named("app-1")),
    ],
    # Client ids come and go, but a member of before stays.
    "partly": [
        ("p-1", "02:00", None, {}),
        *((f"p-old-{n}", "02:00", f"02:1{n}", {}) for n in range(2)),
        *((f"p-new-{n}", f"02:1{n}:20", None, {}) for n in range(2)),
    ],
    # One name comes back; then a member that left and one that came have nothing to do with each other.
    "kept": [
        ("q-1", "02:00", "02:05", named("app-1")),
        ("q-2", "02:05:10", None, named("app-1")),
        ("q-3", "02:00", "02:06", named("app-2")),
        ("q-4", "02:06:10", None, named("app-3")),
    ],
    # Four members of one client id restart; each successor comes before its predecessor is gone.
    "overlapping": [
        *((f"o-old-{n}", "02:00", f"02:0{n + 1}:30", named("app")) for n in range(4)),
        *((f"o-new-{n}", f"02:0{n + 1}", None, named("app")) for n in range(4)),
    ],
    # The same the other way round: each successor comes twenty seconds after its predecessor went.
    "rolling": [
        *((f"r-old-{n}", "02:00", f"02:0{n + 1}", named("app")) for n in range(4)),
        *((f"r-new-{n}", f"02:0{n + 1}:20", None, named("app")) for n in range(4)),
    ],
    # Two members crash at once, and one process comes back again and again.
    "looping": [
        ("u-1", "02:00", "02:05", named("app-1")),
        ("u-2", "02:05:05", "02:05:20", named("app-1")),
        ("u-3", "02:05:25", "02:05:40", named("app-1")),
        ("u-4", "02:00", "02:05", named("app-2")),
    ],
    # One restart alone.
    "crashed": [("c-1", "02:00", "02:05", {}), ("c-2", "02:05:10", None, {}), ("c-3", "02:00", None, {})],
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    rows = [row for group, own in LIVES.items() for row in stays(group, *own)]
    return Tables(str(write_small_warehouse(Path(tmp_path_factory.mktemp("rollouts")), member_timeline=rows)))


@pytest.fixture(scope="module")
def life(audited_once: AuditedOnce) -> Tables:
    """A recorded log, and what its journal says was done to the clients."""
    return Tables(str(audited_once(Sample("group-lifecycles").segments).warehouse))


@pytest.fixture(scope="module")
def found(warehouse: Tables) -> dict[str, dict[str, Any]]:
    names, answers = run_saved_query(warehouse, "rollouts")
    return {row[0]: dict(zip(names, row, strict=True)) for row in answers}


RESTARTS = {"dynamic": 3, "static": 2, "renamed": 2, "overlapping": 4, "rolling": 4, "looping": 2}


def test_only_runs_of_restarts_are_rollouts(found: dict[str, dict[str, Any]]):
    assert {group: row["restarts"] for group, row in found.items()} == RESTARTS


def test_a_departure_has_one_successor_at_most(warehouse: Tables):
    names, answers = run_saved_query(warehouse, "rollouts", {"threshold": "1"})
    restarts = {row[0]: row[names.index("restarts")] for row in answers}
    assert restarts == RESTARTS | {"emptied": 1, "kept": 1}


def test_restarts_are_those_that_the_journal_of_a_recorded_log_names(life: Tables):
    names, answers = run_saved_query(life, "rollouts", {"threshold": "1"})
    assert {row[0]: row[names.index("restarts")] for row in answers} == {
        "shop-billing": 1, "shop-new": 1, "shop-newstatic": 2, "shop-static": 3, "shop-rolling": 2, "shop-migrate": 4
    }  # fmt: skip


@pytest.mark.parametrize(("group", "restarts", "clients"), [("dynamic", 3, 3), ("static", 2, 2), ("renamed", 2, 2)])
def test_each_restart_counts_once(found: dict[str, dict[str, Any]], group: str, restarts: int, clients: int):
    assert (found[group]["restarts"], found[group]["clients"]) == (restarts, clients)


def test_the_question_has_the_rows_of_the_saved_query(warehouse: Tables, found: dict[str, dict[str, Any]]):
    rollouts = rollouts_of(warehouse)
    assert {rollout.group_id: rollout.restarts for rollout in rollouts} == {
        group: row["restarts"] for group, row in found.items()
    }
    assert {rollout.group_id: rollout.some_clients for rollout in rollouts} == {
        "dynamic": "app-0 to app-2", "static": "client-s-new-0 to client-s-new-1", "renamed": "v2-0 to v2-1",
        "overlapping": "app", "rolling": "app", "looping": "app-1"
    }  # fmt: skip
    assert [rollout.group_id for rollout in rollouts_of(warehouse, group="static")] == ["static"]
    assert rollouts_of(warehouse, end=at("02:01")) == []
    assert {rollout.group_id for rollout in rollouts_of(warehouse, start=at("02:12"))} == {"dynamic"}


def test_costs_are_those_of_the_rebalances_of_that_time_and_a_classic_join_phase_makes_them_bounds(tmp_path: Path):
    template = rebalances()[1]
    rows = [
        template | {"group_id": "dynamic", "rebalance_id": f"d{n}", "started_at": at(clock), "unowned_ms_total": 1500}
        for n, clock in enumerate(("02:10:30", "02:12:50", "02:14"))
    ] + [
        template | {"group_id": "static", "rebalance_id": "s1", "started_at": None, "began_by": at("02:11"),
                    "group_type": "classic", "unowned_ms_total": None}
    ]  # fmt: skip
    members = [row for group in ("dynamic", "static") for row in stays(group, *LIVES[group])]
    folder = write_small_warehouse(tmp_path, member_timeline=members, rebalances=rows)
    first, second = rollouts_of(Tables(str(folder)))
    assert (first.group_id, first.rebalances, first.unowned_ms_total, first.is_at_least) == ("dynamic", 2, 3000, False)
    assert first.costs == "2 rebalances, 3.0 partition-seconds without an owner, commits paused for 12,000 ms"
    assert (second.group_id, second.unowned_ms_total, second.is_at_least) == ("static", None, True)
    assert second.costs == "1 rebalance, commits paused for at least 6,000 ms"
    assert replace(second, unowned_ms_total=0).costs == second.costs
    assert ", 0.0 partition-seconds without an owner, " in replace(first, unowned_ms_total=0).costs


def test_a_rollout_begins_with_the_first_member_that_left(found: dict[str, dict[str, Any]]):
    first, last = found["dynamic"]["first_at"], found["dynamic"]["last_at"]
    assert (f"{first:%H:%M:%S}", f"{last:%H:%M:%S}") == ("02:10:00", "02:12:20")
