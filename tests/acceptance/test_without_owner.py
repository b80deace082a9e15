"""One meaning of "without an owner", and one number of it, in every answer."""

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator_replay.api import Warehouse
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.gaps import gaps_of
from coordinator_replay.report.lives import life_of
from coordinator_replay.report.owner_marks import partitions_of
from coordinator_replay.times import milliseconds
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(
    scope="module", params=rest_at_night(["reports/unowned-in-turn", "restarts"], ["reports/unowned-in-turn"])
)
def warehouse(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("audited"))
    audit_here(folder, DATA / request.param / "segments")
    return folder


def by_metrics(folder: str) -> dict[str, float]:
    text = Warehouse(folder).metrics().text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families["coordinator_replay_group_unowned_partition_seconds"].samples
    return {sample.labels["group"]: sample.value * 1000 for sample in samples if sample.value}


def by_impact(folder: str) -> dict[str, float]:
    return {group.group_id: group.unowned_ms for group in Warehouse(folder).impact() if group.unowned_ms}


def by_page(folder: str) -> dict[str, float]:
    tables = Tables(folder)
    sums: dict[str, float] = {}
    for group in by_metrics(folder):
        life = life_of(tables, group)
        gaps = [gap for owned in partitions_of(life).values() for gap in gaps_of(owned, milliseconds(life.end))]
        sums[group] = sum(gap.until_ms - gap.since_ms for gap in gaps if not gap.is_lower_bound)
    return sums


@pytest.mark.parametrize("answer", [by_impact, by_page])
def test_every_answer_has_the_same_time_without_an_owner(warehouse: str, answer: Callable[[str], dict[str, float]]):
    found = by_metrics(warehouse)
    assert answer(warehouse) == pytest.approx(found) and found


def test_the_time_by_cause_is_the_same(warehouse: str):
    causes = Warehouse(warehouse).sql(query="downtime-by-cause").to_arrow().to_pylist()
    assert sum(row["unowned_ms_total"] or 0 for row in causes) == pytest.approx(sum(by_metrics(warehouse).values()))


def test_the_longest_times_are_among_them(warehouse: str):
    gaps = Warehouse(warehouse).sql(query="longest-partition-downtime").to_arrow().to_pylist()
    assert len(gaps) == 50 or sum(gap["unowned_ms"] for gap in gaps) == pytest.approx(
        sum(by_metrics(warehouse).values())
    )


def test_partitions_that_are_on_their_way_in_turn_are_no_long_gap(warehouse: str):
    assert "partition_unowned" not in {finding.rule for finding in Warehouse(warehouse).findings()}
