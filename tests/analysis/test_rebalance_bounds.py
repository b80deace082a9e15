"""How long rebalances took: the bounds of classic ones against what the brokers logged, and what else is on record."""

from typing import Any

import pytest

from scripts.reasons.durations import durations
from scripts.reasons.sample import Sample
from tests.samples import DATA

RECORDED = sorted(path.parent.name for path in DATA.glob("*/broker-log.jsonl"))

CLOCK_MS = 3
"""Records and lines of the broker's log are stamped so far apart."""


def rebalances(name: str) -> list[dict[str, Any]]:
    return Sample(DATA / name).rebalances()


@pytest.mark.parametrize("name", RECORDED)
def test_every_classic_rebalance_took_as_long_as_its_bounds_allow(name: str) -> None:
    logged = durations(Sample(DATA / name).broker_log)
    compared = 0
    for row in rebalances(name):
        took_ms = logged.get((row["group_id"], row["epoch"]))
        if row["group_type"] != "classic" or took_ms is None:
            continue
        about = (row["group_id"], row["epoch"], took_ms)
        assert (row["started_at"], row["duration_ms"]) == (None, None), about
        # An end that is open has no bounds: records are missing before it.
        assert (row["duration_ms_min"] is None) == row["is_end_open"], about
        assert row["duration_ms_min"] is None or row["duration_ms_min"] <= took_ms + CLOCK_MS, about
        assert row["duration_ms_max"] is None or took_ms <= row["duration_ms_max"] + CLOCK_MS, about
        compared += 1
    assert compared or name == "transactions"


def test_members_that_hold_partitions_back_are_named_with_the_time_others_waited() -> None:
    """The Java client of group bakery-holders takes 15 s to give its partitions up: see the sample's README."""
    sample = Sample(DATA / "java-clients")
    clients = sample.clients()
    held = [row for row in sample.rebalances() if row["group_id"] == "bakery-holders" and row["held_up_by"]]
    assert [(row["epoch"], clients[row["held_up_by"]]) for row in held] == [(3, "hold-1"), (4, "hold-1")]
    assert all(15_000 < row["held_up_ms"] <= row["duration_ms"] for row in held)


def test_what_a_cooperative_rebalance_leaves_without_owner_is_measured_between_its_two_generations() -> None:
    rows = {row["epoch"]: row for row in rebalances("group-lifecycles") if row["group_id"] == "shop-coop"}
    first, second = rows[2], rows[3]
    assert first["unowned_ms_max"] == second["completed_at"] - first["completed_at"]
    assert first["partitions_reassigned"] == 4
    assert second["unowned_ms_max"] is None


def test_partitions_that_nobody_had_before_are_newly_assigned_and_not_moved() -> None:
    added = [
        (row["epoch"], row["partitions_reassigned"], row["partitions_added"])
        for row in rebalances("group-lifecycles")
        if row["group_id"] == "shop-watch" and row["cause"] == "TOPIC_METADATA_CHANGE"
    ]
    assert added == [(3, 1, 3), (4, 0, 3)]
