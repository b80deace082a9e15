"""Restarts that follow each other are one rollout: of static and dynamic members, with old and new client ids."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.query.rollouts import Rollout, rollouts_of
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


def caused(rebalance_id: str, clock: str, **columns: Any) -> dict[str, Any]:
    """Return a rebalance of the group ``dynamic``; nobody left or joined, unless ``columns`` name members."""
    nobody: dict[str, Any] = {name: [] for name in ("members_joined", "members_left", "trigger_members")}
    own = {"group_id": "dynamic", "rebalance_id": rebalance_id, "started_at": at(clock), "unowned_ms_total": 1500}
    return rebalances()[1] | own | nobody | columns


def costs(folder: Path, *rows: dict[str, Any]) -> list[Rollout]:
    members = [row for group in ("dynamic", "static") for row in stays(group, *LIVES[group])]
    return rollouts_of(Tables(str(write_small_warehouse(folder, member_timeline=members, rebalances=list(rows)))))


STATIC = {"group_id": "static", "group_type": "classic", "started_at": None, "unowned_ms_total": None}


def test_costs_are_those_of_the_rebalances_of_restarted_members_and_a_classic_join_phase_makes_them_bounds(
    tmp_path: Path,
):
    first, second = costs(
        tmp_path,
        caused("d0", "02:10:30", members_joined=["new-0"]),
        caused("d1", "02:12:00", members_left=["old-2"]),
        caused("s1", "02:11", members_left=["s-old-1"], began_by=at("02:11"), **STATIC),
    )
    assert (first.group_id, first.rebalances, first.unowned_ms_total, first.is_at_least) == ("dynamic", 2, 3000, False)
    assert first.costs == "2 rebalances, 3.0 partition-seconds without an owner, commits paused for 12,000 ms"
    assert (second.group_id, second.unowned_ms_total, second.is_at_least) == ("static", None, True)
    # The join phase hides times without an owner, but no commits and no rebalances.
    assert second.costs == "1 rebalance, commits paused for 6,000 ms"
    assert replace(second, unowned_ms_total=0).costs == second.costs
    assert replace(second, is_pause_at_least=True).costs == "1 rebalance, commits paused for at least 6,000 ms"
    assert replace(second, is_count_at_least=True).costs.startswith("at least 1 rebalance, ")
    assert ", 0.0 partition-seconds without an owner, " in replace(first, unowned_ms_total=0).costs


def test_other_rebalances_of_that_time_are_no_costs_of_a_rollout(tmp_path: Path):
    found = costs(
        tmp_path,
        # The join phase of the first departure ended before the record that shows the departure.
        caused("first", "02:09:59", members_left=["old-0"]),
        caused("joined", "02:10:20", members_joined=["new-0"]),
        caused("follow-up", "02:10:30", cause="COOPERATIVE_FOLLOW_UP"),
        caused("next follow-up", "02:10:40", cause="COOPERATIVE_FOLLOW_UP"),
        # Within the rollout, or within a minute after it: new partitions, another member, and what follows these.
        caused("topic", "02:11:40", cause="TOPIC_METADATA_CHANGE"),
        caused("other", "02:12:40", members_joined=["new-3"], trigger_members=["new-3"]),
        caused("follow-up of another", "02:12:50", cause="COOPERATIVE_FOLLOW_UP"),
        caused("rejoined", "02:13", cause="LEADER_REJOIN", trigger_members=["new-2"]),
        # A static member that comes back with a new member id neither leaves nor joins.
        caused("static", "02:10", cause="MEMBER_RESTART", trigger_members=["s-new-0"], **STATIC),
    )
    assert {rollout.group_id: rollout.rebalances for rollout in found} == {"dynamic": 4, "static": 1}
    assert found[0].unowned_ms_total == 6000


def test_a_rollout_without_a_rebalance_has_no_costs(tmp_path: Path):
    first, second = costs(tmp_path, caused("topic", "02:11:40", cause="TOPIC_METADATA_CHANGE"))
    assert {first.costs, second.costs} == {"no rebalance"}
    assert replace(first, is_count_at_least=True).costs == "no rebalance on record"
    assert (first.unowned_ms_total, first.is_at_least) == (0, False)


def test_a_rebalance_that_stands_for_several_makes_the_number_of_rebalances_a_bound(tmp_path: Path):
    first = costs(tmp_path, caused("d0", "02:10:30", members_joined=["new-0"], is_exact=False))[0]
    assert first.costs.startswith("at least 1 rebalance, at least 1.5 partition-seconds without an owner, ")


def test_rebalances_of_recorded_rollouts_are_those_of_the_restarted_members(life: Tables):
    assert {rollout.group_id: rollout.rebalances for rollout in rollouts_of(life)} == {
        "shop-newstatic": 2, "shop-static": 2, "shop-rolling": 4, "shop-migrate": 8
    }  # fmt: skip


def test_a_rollout_begins_with_the_first_member_that_left(found: dict[str, dict[str, Any]]):
    first, last = found["dynamic"]["first_at"], found["dynamic"]["last_at"]
    assert (f"{first:%H:%M:%S}", f"{last:%H:%M:%S}") == ("02:10:00", "02:12:20")


def test_a_time_range_follows_the_rules_of_commands(warehouse: Tables):
    def asked(**values: str) -> list[Any]:
        return run_saved_query(warehouse, "rollouts", values)[1]

    assert len(asked(to="2026-11-20")) == len(asked(to="today")) == len(asked(to="now")) == len(RESTARTS)
    with pytest.raises(UsageError, match="the time range is empty"):
        asked(**{"from": "02:10", "to": "02:05"})
    for wrong in ({"to": "2026-11-19"}, {"from": "2026-11-21"}):
        with pytest.raises(UsageError, match="not covered"):
            asked(**wrong)
    with pytest.raises(UsageError, match="not covered"):
        rollouts_of(warehouse, end=at("01:00"))


@pytest.mark.parametrize(
    ("most", "why"),
    [("-1", "no number of rows"), ("0", "no number of rows"), ("1.5", "no number of rows"), ("1e30", "too large")],
)
def test_a_number_of_rows_is_a_whole_number(warehouse: Tables, most: str, why: str):
    with pytest.raises(UsageError, match=f"parameter most: '{most}' is {why}"):
        run_saved_query(warehouse, "rollouts", {"most": most})


def test_the_largest_number_of_rows_is_kept_as_it_is_typed(warehouse: Tables):
    assert len(run_saved_query(warehouse, "rollouts", {"most": "9223372036854775807"})[1]) == len(RESTARTS)
