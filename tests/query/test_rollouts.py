"""Restarts that follow each other are one rollout: of static and dynamic members, with old and new client ids."""

from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import member, write_small_warehouse

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
    # One restart alone.
    "crashed": [("c-1", "02:00", "02:05", {}), ("c-2", "02:05:10", None, {}), ("c-3", "02:00", None, {})],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    rows = [row for group, own in LIVES.items() for row in stays(group, *own)]
    folder = write_small_warehouse(Path(tmp_path_factory.mktemp("rollouts")), member_timeline=rows)
    names, answers = run_saved_query(Tables(str(folder)), "rollouts")
    return {row[0]: dict(zip(names, row, strict=True)) for row in answers}


def test_only_runs_of_restarts_are_rollouts(found: dict[str, dict[str, Any]]):
    assert found.keys() == {"dynamic", "static", "renamed"}


@pytest.mark.parametrize(("group", "restarts", "clients"), [("dynamic", 3, 3), ("static", 2, 2), ("renamed", 2, 2)])
def test_each_restart_counts_once(found: dict[str, dict[str, Any]], group: str, restarts: int, clients: int):
    assert (found[group]["restarts"], found[group]["clients"]) == (restarts, clients)


def test_a_rollout_begins_with_the_first_member_that_left(found: dict[str, dict[str, Any]]):
    first, last = found["dynamic"]["first_at"], found["dynamic"]["last_at"]
    assert (f"{first:%H:%M:%S}", f"{last:%H:%M:%S}") == ("02:10:00", "02:12:20")
