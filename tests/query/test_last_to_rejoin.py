"""Who was last to rejoin: by what records say of KIP-848 groups, and by the last commits of classic ones."""

from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import at, member, offset, write_small_warehouse


def rebalance(name: str, clock: str, **columns: Any) -> dict[str, Any]:
    about = {"cluster": "default", "group_id": "old", "group_type": "classic", "is_exact": True, "cause": "MEMBER_JOIN"}
    return (
        about
        | {"rebalance_id": name, "began_by": at(clock), "completed_at": at(clock), "completed_offset": 9}
        | columns
    )


def committed(partition: int, owner: str, *clocks: str, **columns: Any) -> list[dict[str, Any]]:
    ends = [*clocks[1:], None]
    return [
        offset("x", partition, 10 * place, start, end, group_id="old", owner_member_id=owner, **columns)
        for place, (start, end) in enumerate(zip(clocks, ends, strict=True))
    ]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    members = [member("old", name, "01:00", None, 600, client_id=f"app-{name}") for name in ("a", "b", "c")]
    rebalances = [
        # b commits 7 s after a, then the join phase ends; what it commits later says nothing.
        rebalance("o1", "02:05"),
        # Both commit at once: nobody is known to be the last.
        rebalance("o2", "02:08"),
        # c was the last to commit, and it left.
        rebalance("o3", "02:12", members_left=["c"]),
        # Of a KIP-848 group, records say it; commits don't count.
        rebalance("o4", "02:12", group_type="consumer", held_up_by="a", held_up_ms=400),
        # Two rebalances that end together share one wait; the later one counts again.
        rebalance("o5", "02:20", group_type="consumer", held_up_by="c", held_up_ms=900, completed_offset=20),
        rebalance("o6", "02:20", group_type="consumer", held_up_by="c", held_up_ms=700, completed_offset=20),
        rebalance("o7", "02:30", group_type="consumer", held_up_by="c", held_up_ms=300, completed_offset=30),
    ]
    commits = [
        *committed(0, "a", "02:04:50", "02:07:30", "02:11:50"),
        *committed(1, "b", "02:04:57", "02:05:30", "02:07:30", "02:11:40"),
        *committed(2, "c", "02:11:59"),
    ]
    folder = write_small_warehouse(
        Path(tmp_path_factory.mktemp("rejoin")), member_timeline=members, rebalances=rebalances, offset_history=commits
    )
    names, rows = run_saved_query(Tables(str(folder)), "last-to-rejoin", {"group": "old"})
    assert names[:6] == ["group_id", "client", "rebalances", "behind_ms_total", "behind_ms_max", "shown_by"]
    return [tuple(row[1:6]) for row in rows]


def test_clients_are_summed_up_by_what_shows_them(found: list[tuple[Any, ...]]):
    assert sorted(found) == [
        ("app-a", 1, 400, 400, "records"),
        ("app-a", 1, 10_000, 10_000, "commits"),
        ("app-b", 1, 7000, 7000, "commits"),
        ("app-c", 3, 1200, 900, "records"),
    ]
