"""What answers say of a time from which records are missing: small logs, whole and cleaned, with the right answers."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.report.fleet_page import fleet_page
from coordinator_replay.report.group_page import group_page
from coordinator_replay.report.metrics import metrics_of
from tests.pipeline.in_process import audit_here

REPORTS = Path(__file__).parents[1] / "data" / "reports"
DUMPS = {
    "pauses": ["pause-into-hole/whole"],
    "pauses of two nights": ["pause-into-hole/night-1", "pause-into-hole/night-2"],
    "rewrite": ["static-rewrite/whole"],
    "rewrite, cleaned": ["static-rewrite/cleaned"],
    "finding": ["finding-began-before/whole"],
    "finding, cleaned": ["finding-began-before/cleaned"],
}
BEFORE_REWRITE, AFTER_REWRITE = "2026-11-21T08:32:20Z", "2026-11-21T08:32:50Z"
"""Between the end of a generation and the restart of a static member, and behind that."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Warehouse]:
    """Warehouses of the logs; nights are audited one after the other."""
    folder = tmp_path_factory.mktemp("holes")
    for name, dumps in DUMPS.items():
        for dump in dumps:
            audit_here(folder / name, REPORTS / dump)
    return {name: Warehouse(str(folder / name)) for name in DUMPS}


def why(warehouse: Warehouse) -> str:
    return CliRunner().invoke(main, ["why", "g", "--warehouse", str(warehouse._tables.uri)]).stdout


def pauses(warehouse: Warehouse) -> dict[int | None, tuple[int | None, bool]]:
    return {one.epoch: (one.commit_pause_ms, one.is_pause_at_least) for one in warehouse.rebalances("g")}


def test_a_pause_that_runs_into_a_hole_is_a_lower_bound(logs):
    assert pauses(logs["pauses"]) == {1: (None, False), **dict.fromkeys((2, 3, 4), (32_000, False))}
    assert pauses(logs["pauses of two nights"]) == {1: (None, False), 2: (4000, True), 4: (None, True)}
    assert "commits paused 32,000 ms" in why(logs["pauses"])
    assert "commits paused at least 4,000 ms" in why(logs["pauses of two nights"])


def test_rows_of_impact_say_themselves_that_a_pause_may_have_been_longer(logs):
    for name, pause, words in (("pauses", 32_000, "up to"), ("pauses of two nights", 4000, "at least")):
        impact = logs[name].impact()
        is_bound = words == "at least"
        assert [(one.commit_pause_ms, one.is_pause_at_least) for one in impact] == [(pause, is_bound)]
        assert f"commits paused for {words} {pause:,} ms (g)." in impact.total.sentences[-1]


def test_pages_and_saved_queries_say_that_a_pause_may_have_been_longer(logs):
    whole, nights = (logs[name]._tables for name in ("pauses", "pauses of two nights"))
    assert {lane.group: lane.pause for lane in fleet_page(whole)[1].lanes}["g"] == "32.0 s"
    assert {lane.group: lane.pause for lane in fleet_page(nights)[1].lanes}["g"] == "at least 4.0 s"
    assert "at least 4.0 s" in group_page(nights, "g")[0]
    flapping = logs["pauses of two nights"].sql(query="flapping-groups")
    assert [(row["longest_commit_pause_ms"], row["is_at_least"]) for row in named(flapping)] == [(4000, True)]


def test_the_first_record_left_of_a_generation_is_an_upper_bound_of_its_end(logs):
    whole, cleaned = (next(iter(logs[name].rebalances("g"))) for name in ("rewrite", "rewrite, cleaned"))
    assert (whole.epoch, whole.is_end_open, whole.duration_ms_min) == (1, False, 3)
    assert (cleaned.epoch, cleaned.is_end_open) == (1, True)
    assert (cleaned.duration_ms_min, cleaned.duration_ms_max, cleaned.duration_ms) == (None, None, None)
    assert whole.completed_at < cleaned.began_by < cleaned.completed_at
    told = why(logs["rewrite, cleaned"])
    assert told.startswith("by 2026-11-21T08:32:40.000Z  g  generation 1")
    assert "sync took 3 ms" in why(logs["rewrite"])
    assert "28,996 ms" not in told


@pytest.mark.parametrize("name", ["rewrite", "rewrite, cleaned"])
def test_no_rebalance_counts_in_a_time_range_in_which_it_need_not_have_been(logs, name):
    log = logs[name]
    assert [*log.impact(start=BEFORE_REWRITE, end=AFTER_REWRITE)] == []
    assert [*log.rebalances("g", start=BEFORE_REWRITE, end=AFTER_REWRITE)] == []
    changes = log.diff(BEFORE_REWRITE, AFTER_REWRITE) if name == "rewrite" else ()
    assert [one for one in changes if one.what == "rebalance"] == []
    assert [one.rebalances for one in log.impact(start=AFTER_REWRITE)] == [1]


def test_a_finding_that_may_have_begun_before_is_not_new(logs):
    [whole], [cleaned] = logs["finding"].findings(), logs["finding, cleaned"].findings()
    assert (whole.rule, whole.is_begin_open, str(whole.first_seen)) == (
        *("oversized_metadata", False),
        "2026-11-21 08:32:11+00:00",
    )
    assert (cleaned.finding_id, cleaned.is_begin_open) == (whole.finding_id, True)
    changes = {name: finding_changes(logs[name], "2026-11-21T08:32:10Z") for name in ("finding", "finding, cleaned")}
    assert changes == {"finding": [("new", True)], "finding, cleaned": [("found", False)]}
    now = datetime(2026, 11, 22, tzinfo=UTC)
    states = {name: metrics_of(logs[name]._tables, now).text for name in changes}
    assert 'severity="info",state="new"} 1.0' in states["finding"]
    assert 'severity="info",state="found"} 1.0' in states["finding, cleaned"]
    assert " or earlier</td>" in fleet_page(logs["finding, cleaned"]._tables)[0]
    assert " or earlier</td>" not in fleet_page(logs["finding"]._tables)[0]


def finding_changes(warehouse: Warehouse, since: str) -> list[tuple[str, bool]]:
    return [(one.change, one.is_exact) for one in warehouse.diff(since) if one.what == "finding"]


def test_lanes_of_the_fleet_show_unknown_where_answers_do(logs):
    unknown = {
        name: {
            lane.group for lane in fleet_page(log._tables)[1].lanes if "Unknown" in {one for _, one, _ in lane.paths}
        }
        for name, log in logs.items()
    }
    # The first record of z is where the page begins.
    assert unknown.pop("finding, cleaned") == {"g", "h"}
    # Whether g had members in the hole is not on record.
    assert unknown.pop("pauses of two nights") == {"g"}
    assert set().union(*unknown.values()) == set()


def named(answer):
    return [dict(zip(answer.columns, row, strict=True)) for row in answer]
