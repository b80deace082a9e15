"""Minutes of one group: its counts, and where it stands at the end of each."""

from collections.abc import Mapping
from typing import Any

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.analysis.metrics import COUNTERS, Minutes, Sums


def state(at: int, name: str, group_type: str = "consumer") -> dict[str, Any]:
    return {"at": at, "state": name, "group_type": group_type}


def commits(at: int, count: int) -> dict[str, Any]:
    return {"at": at, "commits": count}


def counted(*happened: Mapping[str, Any], held: bool = True, ended_at: int | None = None) -> list[dict[str, Any]]:
    minutes = Minutes()
    rows = [row for one in happened for row in minutes.take(one)]
    minutes.hold({"is_held": held, "ended_at": ended_at})
    rows += minutes.finish()
    return [{name: value for name, value in row.items() if value or name == "bucket"} for row in rows]


def test_a_group_stands_where_it_is_at_the_end_of_the_minute():
    rows = counted(state(0, "Assigning"), state(10, "Stable"), state(MINUTE_MS + 5, "Reconciling"))
    stable, moved = (
        {"group_type": "consumer", "state": "Stable"},
        {"group_type": "consumer", "state": "Reconciling"},
    )
    assert rows == [
        {"bucket": 0, **stable, "delta": 1},
        {"bucket": 0, **stable},
        {"bucket": MINUTE_MS, **stable, "delta": -1},
        {"bucket": MINUTE_MS, **moved, "delta": 1},
        {"bucket": MINUTE_MS, **moved},
    ]


def test_a_minute_in_which_the_state_stays_has_counts_alone():
    rows = counted(
        state(0, "Stable"),
        commits(MINUTE_MS, 7),
        {"at": MINUTE_MS, "rebalance_id": "r", "is_over": True},
        {"at": MINUTE_MS, "rebalance_id": "r", "is_over": False},
        {"at": MINUTE_MS, "ended_by": "EXPIRED", "offsets": 3},
        {"at": MINUTE_MS, "ended_by": "GROUP_DELETED", "offsets": 2},
    )
    assert rows[2:] == [
        {
            "bucket": MINUTE_MS,
            "group_type": "consumer",
            "state": "Stable",
            "offset_commits": 7,
            "rebalance_count": 1,
            "expired_offsets": 3,
            "deleted_offsets": 2,
        }
    ]


def test_a_deleted_group_is_nowhere_and_one_made_anew_is_back():
    rows = counted(state(0, "Stable"), state(MINUTE_MS, "Dead"), state(2 * MINUTE_MS, "Stable"))
    deltas = [(row["bucket"] // MINUTE_MS, row["state"], row["delta"]) for row in rows if "delta" in row]
    assert deltas == [(0, "Stable", 1), (1, "Stable", -1), (2, "Stable", 1)]


def test_a_group_of_offsets_alone_is_an_empty_classic_one_until_its_last_offset_is_gone():
    gone = counted(commits(0, 1), commits(3 * MINUTE_MS, 1), held=False, ended_at=5 * MINUTE_MS)
    assert [(row["bucket"] // MINUTE_MS, row["delta"]) for row in gone if "delta" in row] == [(0, 1), (5, -1)]
    there = counted(commits(0, 1))
    assert [(row["state"], row["delta"]) for row in there if "delta" in row] == [("Empty", 1)]


def test_sums_are_those_of_all_groups_whenever_they_are_taken() -> None:
    def row(bucket: int, state: str, delta: int) -> dict[str, Any]:
        told = {"bucket": bucket, "group_type": "classic", "state": state, "delta": delta}
        return {**told, **dict.fromkeys(COUNTERS, 2)}

    sums = Sums()
    for one in (row(0, "Stable", 1), row(0, "Stable", 1), row(0, "Empty", -1), row(60, "Stable", 0)):
        sums.add(one)
    taken = list(sums.take())
    assert [(one["bucket"], one["state"], one["delta"], one["offset_commits"]) for one in taken] == [
        (0, "Stable", 2, 4),
        (0, "Empty", -1, 2),
        (60, "Stable", 0, 2),
    ]
    assert list(sums.take()) == []
