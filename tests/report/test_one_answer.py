"""What is asked in several places has one answer: of what became of a group, and of its usual cause."""

from collections.abc import Iterator

import pytest

from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.errors import UsageError
from coordinator_replay.query.groups import group_at, group_names, groups_at
from coordinator_replay.query.removed import deleted_groups
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.fleet_page import fleet_page
from coordinator_replay.report.group_page import group_page
from coordinator_replay.report.life_marks import causes_of
from coordinator_replay.report.lives import life_of
from coordinator_replay.times import moment_text
from tests.nightly import rest_at_night
from tests.pipeline.audited_once import AuditedOnce
from tests.report.pages import Page
from tests.samples import Sample


@pytest.fixture(scope="module", params=rest_at_night(["expiration", "group-lifecycles"], ["expiration"]))
def warehouse(request: pytest.FixtureRequest, audited_once: AuditedOnce) -> Iterator[Tables]:
    opened = Tables(str(audited_once(Sample(request.param).segments).warehouse))
    yield opened
    opened.connection.close()


def test_what_became_of_a_group_is_the_same_everywhere(warehouse: Tables):
    alive = {one.group_id: one.state for one in groups_at(warehouse)}
    deleted = {one.group_id: one for one in deleted_groups(warehouse)}
    lanes = {lane.group: lane.state for lane in fleet_page(warehouse)[1].lanes}
    names = group_names(warehouse)
    assert deleted.keys() | alive.keys() == set(names) == lanes.keys()
    assert any(life_of(warehouse, one).states == () for one in deleted), "none that only held offsets"
    for name in names:
        page = Page(group_page(warehouse, name)[0])
        if name in alive:
            assert group_at(warehouse, name).state == alive[name] == lanes[name]
            assert alive[name] in page.text
            continue
        at = moment_text(deleted[name].deleted_at)
        assert lanes[name] == "Dead"
        assert f"deleted at {at}" in page.text
        with pytest.raises(UsageError, match=rf"and was deleted at {at}"):
            group_at(warehouse, name)


def test_the_usual_cause_of_a_group_is_the_same_everywhere(warehouse: Tables):
    names, rows = run_saved_query(warehouse, "flapping-groups", {"threshold": "1"})
    shown = [names.index(name) for name in ("group_id", "usual_cause", "usual_cause_count")]
    lanes = {lane.group: lane.usual_cause for lane in fleet_page(warehouse)[1].lanes}
    assert len(rows) > 3
    for name, usual_cause, count in ([row[place] for place in shown] for row in rows):
        life = life_of(warehouse, name)
        counts = by_frequency(rebalance.cause for rebalance in life.rebalances)
        first, often = next(iter(counts.items()))
        usual = [cause for cause, count in counts.items() if count == often]
        assert (lanes[name], causes_of(life)[0]) == (usual_cause, first)
        assert (usual_cause.split(" or "), count) == (usual, often)
        assert f"{first} {often}" in Page(group_page(warehouse, name)[0]).text
    assert any(" or " in cause for cause in lanes.values())


def test_of_causes_that_are_equally_frequent_the_first_by_name_is_the_usual_one():
    assert list(by_frequency(["MEMBER_LEAVE", "MEMBER_JOIN"])) == ["MEMBER_JOIN", "MEMBER_LEAVE"]
