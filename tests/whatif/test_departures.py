"""Departures that may be a leave or a session timeout: both readings, and what rules one of them out."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from coordinator_replay.whatif.alternative import Alternative
from coordinator_replay.whatif.answer import what_if
from coordinator_replay.whatif.courses import courses
from coordinator_replay.whatif.life import life_of
from coordinator_replay.whatif.measures import Measures, table_of
from coordinator_replay.whatif.recorded import Recorded
from coordinator_replay.whatif.script import CLOSED, CRASHED, Ending, Life, Visit
from scripts.whatif.sample import recorded_groups

VARIANTS = Path(__file__).parents[1] / "data" / "variants"
SESSION_MS = 6_000


@cache
def group() -> Recorded:
    return recorded_groups(VARIANTS)["shop-v-dynamic"]


def life(recorded: Recorded) -> Life:
    return life_of(recorded, None, None, {"heartbeat.interval.ms": "500"})[0]


def unsure(recorded: Recorded) -> list[Visit]:
    return [visit for client in life(recorded).clients for visit in client.visits if visit.other_ending]


def test_a_departure_without_a_cause_on_record_may_be_a_session_timeout() -> None:
    """The crash of the recorded life is among them."""
    visits = unsure(group())
    assert len(visits) == 4
    for visit in visits:
        assert visit.departed_ms is not None
        assert visit.other_ending is not None
        assert (visit.how, visit.other_ending.how) == (CLOSED, CRASHED)
        assert SESSION_MS - 1_000 <= visit.departed_ms - visit.other_ending.departed_ms <= SESSION_MS


def test_who_committed_within_its_session_did_not_time_out() -> None:
    visit = unsure(group())[0]
    assert visit.departed_ms is not None
    assert visit.other_ending is not None
    early, late = visit.other_ending.departed_ms - 1, visit.departed_ms - 500
    for committed_ms, count in ((early, 4), (late, 3)):
        commits = {**group().last_commits, visit.member_ids[-1]: committed_ms}
        assert len(unsure(replace(group(), last_commits=commits))) == count


def test_a_client_that_was_back_soon_was_probably_closed() -> None:
    by_client = {
        (client.name, number): visit.other_ending.is_unlikely
        for client in life(group()).clients
        for number, visit in enumerate(client.visits)
        if visit.other_ending is not None
    }
    # Restarts within two seconds; a crash, back six seconds after its removal; and one that never came back.
    assert sorted(by_client.values()) == [False, False, True, True]
    assert by_client["dynamic-3#4", 0] is False


def test_courses_have_all_likely_ones_every_second_one_and_unlikely_ones_alone() -> None:
    recorded = life(group())
    counts = {
        sum(visit.how == CRASHED and visit.other_ending is None for client in course.clients for visit in client.visits)
        for course in courses(recorded)
    }
    assert counts == {0, 1, 2, 3}, "0: only arrivals differ; 3: both likely ones and one unlikely one"


def test_a_session_timeout_that_is_on_record_has_one_reading() -> None:
    ending = Ending(1, CRASHED)
    assert not ending.is_unlikely
    static = recorded_groups(VARIANTS)["shop-v-static"]
    assert not unsure(static)


@pytest.mark.parametrize(
    ("bounds", "is_predictable"), [((2, 20), False), ((5, 10), True), ((5, 11), False), ((0, 6), True), ((1, 7), False)]
)
def test_a_record_that_can_not_carry_a_prediction_gets_none(bounds: tuple[int, int], is_predictable: bool) -> None:
    model: Measures = what_if(group(), []).recorded
    one = replace(model, rebalances=bounds[0], ranges={"rebalances": bounds})
    assert one.is_predictable is is_predictable
    (_, [cell]), *_ = table_of([one])
    assert cell == (f"{bounds[0]} ({bounds[0]} to {bounds[1]})" if is_predictable else f"{bounds[0]} to {bounds[1]}")


def test_a_value_says_where_not_all_variants_were_simulated() -> None:
    answer = what_if(group(), [Alternative(values={"group.protocol": "consumer"})], most_steps=1_000)
    (one,) = answer.alternatives
    assert one.variants_left_out
    (_, [cell]), *_ = table_of([one])
    assert str(cell).endswith(", not all variants")
