"""Who was last to rejoin: by what records say of KIP-848 groups, and by the last commits of classic ones."""

from pathlib import Path
from typing import Any

from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import at, member, offset, write_small_warehouse


def rebalance(name: str, clock: str, **columns: Any) -> dict[str, Any]:
    about = {"cluster": "default", "group_id": "old", "group_type": "classic", "is_exact": True, "cause": "MEMBER_JOIN"}
    times = {
        "rebalance_id": name,
        "began_by": at(clock),
        "completed_at": at(clock),
        "completed_offset": place(clock) + 1,
    }
    return about | times | {"log_partition": 3} | columns


def place(clock: str) -> int:
    """The log offset of a record: ten a second from 02:00 on."""
    return int((at(clock) - at("02:00")).total_seconds()) * 10


def committed(partition: int, owner: str, *clocks: str, **columns: Any) -> list[dict[str, Any]]:
    about = {"group_id": "old", "owner_member_id": owner, "log_partition": 3} | columns
    return [
        offset("x", partition, 10 * number, start, end, from_offset=place(start) - partition, **about)
        for number, (start, end) in enumerate(zip(clocks, [*clocks[1:], None], strict=True))
    ]


def last_to_rejoin(folder: Path, **values: str) -> list[tuple[Any, ...]]:
    names, rows = run_saved_query(Tables(str(folder)), "last-to-rejoin", {"group": "old", **values})
    assert names[:6] == ["group_id", "client", "rebalances", "shown_by", "behind_ms_total", "behind_ms_max"]
    return sorted(row[1:6] for row in rows)


MEMBERS = [member("old", name, "01:00", None, 600, client_id=f"app-{name}") for name in ("a", "b", "c")]


def test_clients_are_summed_up_by_what_shows_them(tmp_path: Path):
    rebalances = [
        rebalance("o0", "02:01"),
        # b commits 7 s after a, and that ends the join phase; what it commits later says nothing.
        rebalance("o1", "02:05"),
        # Both commit at once: nobody is known to be the last.
        rebalance("o2", "02:08"),
        # c was the last to commit, and it left. So a was the last of those that stayed.
        rebalance("o3", "02:12", members_left=["c"]),
        # Of a KIP-848 group, records say it; commits don't count.
        rebalance("o4", "02:12:01", group_type="consumer", held_up_by="a", held_up_ms=400),
        # Two rebalances that end together share one wait; the later one counts again.
        rebalance("o5", "02:20", group_type="consumer", held_up_by="c", held_up_ms=900, completed_offset=90_000),
        rebalance("o6", "02:20", group_type="consumer", held_up_by="c", held_up_ms=700, completed_offset=90_000),
        rebalance("o7", "02:30", group_type="consumer", held_up_by="c", held_up_ms=300, completed_offset=90_001),
    ]
    commits = [
        *committed(0, "a", "02:04:53", "02:08", "02:12"),
        *committed(1, "b", "02:05", "02:05:30", "02:08", "02:11:50"),
        *committed(2, "c", "02:12"),
    ]
    folder = write_small_warehouse(tmp_path, member_timeline=MEMBERS, rebalances=rebalances, offset_history=commits)
    assert last_to_rejoin(folder) == [
        ("app-a", 1, "commits", 10_000, 10_000),
        ("app-a", 1, "records", 400, 400),
        ("app-b", 1, "commits", 7000, 7000),
        ("app-c", 3, "records", 1200, 900),
    ]


def test_an_old_commit_does_not_show_who_rejoined_last(tmp_path: Path):
    """Offsets stay in force for long. Only a commit of the generation before, just before the end, shows its owner."""
    rebalances = [
        # The first on record: whose generation a commit before it was made in is not known.
        rebalance("o1", "02:01"),
        # Nobody has committed since the rebalance before.
        rebalance("o2", "02:02"),
        # The last commit was 30 s before the end.
        rebalance("o3", "02:03"),
        # Only one member has committed: the others may have rejoined at any time.
        rebalance("o4", "02:04"),
        # By the broker's log it began after the last commit.
        rebalance("o5", "02:05", started_at=at("02:05")),
        # Records are missing, so there may have been other rebalances since.
        rebalance("o6", "02:06", is_exact=False),
        # A commit of a consumer before it was a member of the group's next log partition.
        rebalance("o7", "02:07"),
    ]
    commits = [
        *committed(0, "a", "02:00:50", "02:02:20", "02:04:50", "02:05:50", "02:06:50"),
        *committed(1, "b", "02:01", "02:02:30", "02:04", "02:04:59", "02:06"),
        *committed(1, "b", "02:07", log_partition=4),
    ]
    folder = write_small_warehouse(tmp_path, member_timeline=MEMBERS, rebalances=rebalances, offset_history=commits)
    assert last_to_rejoin(folder, within="2000") == []
    assert last_to_rejoin(folder, within="30000") == [("app-b", 1, "commits", 10_000, 10_000)]


def test_a_wait_is_no_longer_than_the_join_phase(tmp_path: Path):
    """The member before may have committed long before the rebalance began."""
    rebalances = [
        rebalance("o0", "02:01"),
        rebalance("o1", "02:05", started_at=at("02:04:57")),
        rebalance("o2", "02:09", duration_ms_max=2000),
    ]
    commits = [*committed(0, "a", "02:02", "02:06"), *committed(1, "b", "02:05", "02:09")]
    folder = write_small_warehouse(tmp_path, member_timeline=MEMBERS, rebalances=rebalances, offset_history=commits)
    assert last_to_rejoin(folder) == [("app-b", 2, "commits", 5000, 3000)]
