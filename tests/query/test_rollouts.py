"""Restarts that follow each other are one rollout: of static and dynamic members, with old and new client ids."""

from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.query.rollouts import rollouts_of
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import at, member, rebalances, write_small_warehouse

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
    # One restart alone.
    "crashed": [("c-1", "02:00", "02:05", {}), ("c-2", "02:05:10", None, {}), ("c-3", "02:00", None, {})],
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    rows = [row for group, own in LIVES.items() for row in stays(group, *own)]
    return Tables(str(write_small_warehouse(Path(tmp_path_factory.mktemp("rollouts")), member_timeline=rows)))


@pytest.fixture(scope="module")
def found(warehouse: Tables) -> dict[str, dict[str, Any]]:
    names, answers = run_saved_query(warehouse, "rollouts")
    return {row[0]: dict(zip(names, row, strict=True)) for row in answers}


def test_only_runs_of_restarts_are_rollouts(found: dict[str, dict[str, Any]]):
    assert found.keys() == {"dynamic", "static", "renamed"}


@pytest.mark.parametrize(("group", "restarts", "clients"), [("dynamic", 3, 3), ("static", 2, 2), ("renamed", 2, 2)])
def test_each_restart_counts_once(found: dict[str, dict[str, Any]], group: str, restarts: int, clients: int):
    assert (found[group]["restarts"], found[group]["clients"]) == (restarts, clients)


def test_the_question_has_the_rows_of_the_saved_query(warehouse: Tables, found: dict[str, dict[str, Any]]):
    rollouts = rollouts_of(warehouse)
    assert {rollout.group_id: rollout.restarts for rollout in rollouts} == {
        group: row["restarts"] for group, row in found.items()
    }
    assert {rollout.group_id: rollout.some_clients for rollout in rollouts} == {
        "dynamic": "app-0 to app-2", "static": "client-s-new-0 to client-s-new-1", "renamed": "v2-0 to v2-1"
    }  # fmt: skip
    assert [rollout.group_id for rollout in rollouts_of(warehouse, group="static")] == ["static"]
    assert rollouts_of(warehouse, end=at("02:10")) == []
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


def test_a_rollout_begins_with_the_first_member_that_left(found: dict[str, dict[str, Any]]):
    first, last = found["dynamic"]["first_at"], found["dynamic"]["last_at"]
    assert (f"{first:%H:%M:%S}", f"{last:%H:%M:%S}") == ("02:10:00", "02:12:20")
