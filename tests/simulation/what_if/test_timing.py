"""The clock of a simulation, and the timing of clients that no record shows."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.what_if.answer import life_of
from coordinator_replay.simulation.what_if.run import simulate
from coordinator_replay.simulation.what_if.schedule import REST_MS, Agenda
from coordinator_replay.simulation.what_if.script import CRASHED, ClientLife
from coordinator_replay.simulation.what_if.settings import Settings, changed
from coordinator_replay.simulation.what_if.timing import LIKELIEST, Timing, drawn_timing
from scripts.what_if.sample import recorded_groups

VARIANTS = Path(__file__).parents[2] / "data" / "variants"


@given(st.integers(1, 1_000), st.integers(1, 1_000), st.integers(1, 60_000))
def test_heartbeats_drift_within_their_interval(number: int, drift: int, interval_ms: int) -> None:
    assert 0 <= Timing(drift=drift).offset_ms(number, interval_ms) <= interval_ms
    assert LIKELIEST.offset_ms(number, interval_ms) == 0


def test_sets_of_moments_differ_for_every_member() -> None:
    for number in (1, 2, 3):
        assert len({Timing(drift=drift).offset_ms(number, 3_000) for drift in range(1, 10)}) == 9


@pytest.mark.parametrize(
    ("strategy", "library", "is_late"),
    [
        ("cooperative-sticky", "librdkafka", True),
        ("cooperative-sticky", "java", False),
        ("range", "librdkafka", False),
    ],
)
def test_only_librdkafka_joins_late_and_only_where_it_does_not_revoke_first(
    strategy: str, library: str, is_late: bool
) -> None:
    clients = [ClientLife("c#1", "c", "127.0.0.1", None, (), library)]
    settings = Settings(protocol="classic", strategy=strategy)
    timings = [drawn_timing(Random(number), settings, clients) for number in range(20)]
    assert any(one.wake_ms for one in timings) is is_late


def test_what_is_put_off_comes_in_order_and_events_by_the_time_of_the_life() -> None:
    agenda, said = Agenda(1_000), list[str]()
    agenda.at(1_500, lambda: said.append("second"))
    agenda.at(1_200, lambda: said.append("first"))
    agenda.at(1_500, lambda: said.append("third"))
    agenda.happen(9_000, lambda: said.append("event"))
    agenda.left_out_ms = 5_000
    assert (agenda.next_put_off_ms, agenda.next_event_ms, agenda.life_ms) == (1_200, 4_000, 6_000)
    for _ in range(3):
        agenda.take_put_off()()
    agenda.take_event()()
    assert said == ["first", "second", "third", "event"]
    assert (agenda.next_put_off_ms, agenda.next_event_ms) == (None, None)


@given(st.integers(0, 10_000_000), st.integers(1, 5_000))
def test_a_rest_that_is_left_out_is_a_multiple_of_the_interval_and_ends_before_the_next_event(
    event_ms: int, interval_ms: int
) -> None:
    agenda = Agenda(0)
    agenda.happen(event_ms, lambda: None)
    rest_ms = agenda.rest_ms(20_000_000, interval_ms)
    assert rest_ms % interval_ms == 0
    assert rest_ms == 0 or REST_MS < rest_ms <= event_ms - REST_MS


def test_a_static_member_that_returns_before_its_session_is_over_does_not_try_in_every_millisecond() -> None:
    """Under KIP-848 a member that died keeps its instance id until its session is over: UNRELEASED_INSTANCE_ID."""
    group = recorded_groups(VARIANTS)["shop-v-newstatic"]
    life, _ = life_of(group, None, None, {})
    clients = tuple(
        replace(client, visits=tuple(replace(visit, how=CRASHED) for visit in client.visits)) for client in life.clients
    )
    settings = changed(life.settings, {"session.timeout.ms": "45000"})
    result = simulate(life, settings, clients)
    assert result.steps < 5_000
    assert [one for one in result.records if is_arrival(one)]


def is_arrival(record: Record) -> bool:
    return record.kind == "ConsumerGroupMemberMetadata" and record.value is not None
