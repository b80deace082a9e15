"""Departures that may be a leave or a session timeout: both readings, and what rules one of them out."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.simulation.what_if.answer import life_of, what_if
from coordinator_replay.simulation.what_if.measures import Measures, table_of, with_ranges
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.script import CLOSED, CRASHED, Life, Visit
from coordinator_replay.simulation.what_if.settings import Alternative
from coordinator_replay.simulation.what_if.variants import drawn_course
from scripts.what_if.sample import recorded_groups

VARIANTS = Path(__file__).parents[2] / "data" / "variants"
LIVES = Path(__file__).parents[2] / "data" / "lives"
SESSION_MS = 6_000


@cache
def recorded_groups_of_variants() -> dict[str, Recorded]:
    return recorded_groups(VARIANTS)


def group() -> Recorded:
    return recorded_groups_of_variants()["shop-v-dynamic"]


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
        commits = {**group().last_commits, visit.member_id: committed_ms}
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


@given(st.integers(0, 1_000))
def test_a_drawn_course_decides_everything_and_stays_within_what_is_open(number: int) -> None:
    for recorded in (life(group()), life(recorded_groups_of_variants()["shop-v-static"])):
        course = drawn_course(recorded, Random(number))
        pairs = zip(recorded.clients, course.clients, strict=True)
        for visit, drawn in ((one, two) for old, new in pairs for one, two in zip(old.visits, new.visits, strict=True)):
            assert drawn.window is None
            assert drawn.other_ending is None
            assert visit.arrived_ms <= drawn.arrived_ms <= visit.arrived_ms + visit.later_ms
            departures = {visit.departed_ms, visit.other_ending and visit.other_ending.departed_ms}
            window = visit.window
            assert drawn.departed_ms in departures or (
                window is not None and window.earliest_ms <= drawn.departed_ms <= window.latest_ms
            )


def test_drawn_courses_have_both_readings_of_each_departure() -> None:
    recorded = life(group())
    courses = [drawn_course(recorded, Random(number)) for number in range(200)]
    for place, client in enumerate(recorded.clients):
        for number, visit in enumerate(client.visits):
            if visit.other_ending is not None:
                endings = {course.clients[place].visits[number].how for course in courses}
                assert endings == {CLOSED, CRASHED}


def test_who_joined_where_static_members_were_removed_came_when_these_had_gone() -> None:
    """A deployment replaced all instance ids: the join phase waited until the sessions of the old ones were over."""
    patient = recorded_groups(LIVES / "103")["life-103-patient"]
    answer = what_if(patient, [], known={"heartbeat.interval.ms": "1000"})
    assert answer.fidelity.matched == answer.fidelity.recorded == answer.fidelity.simulated
    visits = [visit for client in life(patient).clients for visit in client.visits]
    replaced = [one for one in visits if one.departed_ms is not None and one.window is not None]
    assert len(replaced) == 5
    assert {one.how for one in replaced} == {CLOSED}
    came = [client.visits[0].arrived_ms for client in life(patient).clients if client.name.startswith("release-2")]
    departed = sorted(visit.departed_ms for visit in replaced if visit.departed_ms is not None)
    assert all(departed[3] < at_ms < departed[3] + 1_000 for at_ms in came)


def test_a_session_timeout_that_is_on_record_has_one_reading() -> None:
    static = recorded_groups_of_variants()["shop-v-static"]
    assert not unsure(static)


@pytest.mark.parametrize(
    ("counts", "is_predictable"),
    [((2, 20), False), ((5, 9), True), ((5, 10), False), ((0, 5), True), ((1, 6), False)],
)
def test_a_record_that_can_not_carry_a_prediction_gets_none(counts: tuple[int, int], is_predictable: bool) -> None:
    model: Measures = what_if(group(), []).recorded
    least, most = (replace(model, rebalances=count) for count in counts)
    one = with_ranges(least, [most], 0, unseen=0.0)
    assert one.is_predictable is is_predictable
    bounds = one.ranges["rebalances"]
    # A range reaches beyond the least and the most by a part of the distance.
    beyond = round(0.15 * (counts[1] - counts[0]))
    assert bounds == (max(counts[0] - beyond, 0), counts[1] + beyond)
    (_, [cell]), *_ = table_of([one])
    assert cell == (f"{counts[0]} ({bounds[0]} to {bounds[1]})" if is_predictable else f"{bounds[0]} to {bounds[1]}")


def test_a_range_reaches_farther_up_where_members_may_have_come_and_gone_without_a_record() -> None:
    model = replace(what_if(group(), []).recorded, rebalances=20)
    ranges = [with_ranges(model, [model], 0, unseen).ranges["rebalances"] for unseen in (0.0, 0.5)]
    assert ranges == [(20, 23), (20, 24)]


def test_a_cause_has_a_range_also_where_the_likeliest_variant_has_none_of_it() -> None:
    model = what_if(group(), []).recorded
    likely, other = (
        replace(model, causes={"GROUP_CREATED": 1} | causes) for causes in ({"MEMBER_JOIN": 2}, {"SESSION_TIMEOUT": 3})
    )
    one = with_ranges(likely, [other], 0, unseen=0.0)
    assert one.ranges["MEMBER_JOIN"] == (0, 3)
    rows = dict(table_of([one]))
    assert (rows["GROUP_CREATED"], rows["SESSION_TIMEOUT"]) == ([1], ["0 (0 to 3)"])


def test_a_cause_is_said_to_vanish_where_its_whole_range_says_so() -> None:
    """Of two session timeouts the likeliest variant has none, but another one has them."""
    consumer = Alternative(values={"group.protocol": "consumer", "session.timeout.ms": "5000"})
    answer = what_if(recorded_groups_of_variants()["shop-v-static"], [consumer])
    (one,) = answer.alternatives
    for cause, count in answer.simulated.causes.items():
        least, most = one.ranges.get(cause, (one.causes.get(cause, 0),) * 2)
        assert (f" {cause}" in answer.differences[0]) is (not least <= count <= most)


def test_a_value_says_where_not_all_variants_were_simulated() -> None:
    answer = what_if(group(), [Alternative(values={"group.protocol": "consumer"})], most_steps=1_000)
    (one,) = answer.alternatives
    assert one.variants_left_out
    (_, [cell]), *_ = table_of([one])
    assert str(cell).endswith(", not all variants")


def lives_104(name: str) -> Life:
    return life_of(crashes()[f"life-104-{name}"], None, None, {"heartbeat.interval.ms": "1000"})[0]


@cache
def crashes() -> dict[str, Recorded]:
    return recorded_groups(LIVES / "104")


def test_who_took_part_in_a_rebalance_less_than_a_session_before_its_removal_left() -> None:
    """Clients were restarted one after the other every four seconds, with sessions of six."""
    visits = [visit for client in lives_104("dynamic").clients for visit in client.visits[:1]]
    assert len(visits) == 6
    assert {visit.how for visit in visits} == {CLOSED}
    assert sum(visit.other_ending is not None for visit in visits) <= 2


def test_a_client_that_is_back_in_the_generation_that_removes_it_was_killed() -> None:
    killed = {
        client.client_id[-1]
        for client in lives_104("dynamic").clients
        for visit in client.visits
        if visit.how == CRASHED and visit.departed_ms is not None
    }
    assert killed == {"1", "3", "6"}


def test_who_is_back_before_it_is_removed_is_one_client() -> None:
    """Under KIP-848 the member that died and the one that it came back as are there together."""
    clients = lives_104("new").clients
    assert sorted(client.client_id[-1] for client in clients) == ["1", "2", "3", "4", "5", "6"]
    assert {client.client_id[-1] for client in clients for one in client.visits if one.how == CRASHED} >= {
        "1",
        "3",
        "6",
    }


def test_what_clients_did_is_read_alike_from_all_dynamic_groups() -> None:
    """Static members of KIP-848: librdkafka's that died and were back too early stayed away."""
    wanted = {"group.protocol": "consumer", "group.instance.id": "per-client", "session.timeout.ms": "6000"}
    intervals = {"heartbeat.interval.ms": "1000", "group.initial.rebalance.delay.ms": "3000"}
    for source in ("dynamic", "coop", "new"):
        known = intervals | ({"session.timeout.ms": "6000"} if source == "new" else {})
        answer = what_if(
            crashes()[f"life-104-{source}"], [Alternative(values=wanted | intervals)], known=known, most_steps=0
        )
        truth = what_if(crashes()["life-104-newstatic"], [], most_steps=0).recorded
        assert answer.alternatives[0].rebalances == truth.rebalances == 10
