"""The worst cost of a group's rebalances, in the first lines of its page."""

from dataclasses import replace

import pytest

from coordinator_replay.query.rebalances import rebalances_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.bounds import worst


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ([3000, 500], "3.0 s"),
        ([3000, None], "at least 3.0 s"),
        ([0, None], "–"),
        ([0, 0], "0 ms"),
        ([None], "–"),
        ([], "–"),
    ],
)
def test_the_longest_time_without_an_owner_is_a_bound_where_one_is_not_on_record(
    warehouse: Tables, times: list[int | None], shown: str
):
    *_, moved = rebalances_of(warehouse)
    rebalances = [replace(moved, commit_pause_ms=None, unowned_ms_max=time_ms) for time_ms in times]
    assert worst(rebalances)[:2] == (shown, "longest without owner")
