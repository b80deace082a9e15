"""Deployments of static members, as join phases show them."""

import json
from collections.abc import Container, Sequence
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from coordinator_replay.engine.model import Subscription
from coordinator_replay.simulation.what_if.answer import life_of
from coordinator_replay.simulation.what_if.script import Life, Visit
from coordinator_replay.simulation.what_if.variants import Place, RecordedPhase, roll_out, rolled_out, unseen
from scripts.what_if.sample import recorded_groups

LIVES = Path(__file__).parents[2] / "data" / "lives"
SESSION_MS, HEARTBEAT_MS = 10_000, 1_000


def place(arrived_ms: int) -> Place:
    return [Visit(arrived_ms, "", ((arrived_ms, Subscription()),))], 0


def phase(done_ms: int, removed: int, arrived: int = 0, left_out: int = 0, *, is_led: bool = False) -> RecordedPhase:
    one = RecordedPhase(done_ms=done_ms, left_out=left_out, session_ms=SESSION_MS)
    for number in range(removed):
        one.remove(place(0), is_leader=is_led and not number)
    one.arrived += [place(done_ms - 1) for _ in range(arrived)]
    return one


def test_members_of_one_complete_phase_went_together() -> None:
    one = phase(50_000, removed=3, arrived=3)
    assert roll_out([one], HEARTBEAT_MS) == 0
    assert all(visits[0].window is None for visits, _ in one.removed)


def test_a_generation_that_is_left_out_began_a_session_earlier() -> None:
    one = phase(50_000, removed=3, arrived=3, left_out=1, is_led=True)
    assert roll_out([one], HEARTBEAT_MS) == 3
    windows = [visits[0].window for visits, _ in one.removed]
    assert [window and window[:2] for window in windows] == [(30_000, 30_000), (32_000, 35_000), (32_000, 40_000)]
    arrivals = [visits[0].arrival for visits, _ in one.arrived]
    assert [window and window.latest_ms for window in arrivals] == [31_000, 36_000, 41_000]


def test_who_is_removed_one_session_after_a_long_phase_went_while_it_lasted_but_for_the_leader() -> None:
    for is_led, count in ((False, 3), (True, 2)):
        first, second = phase(50_000, removed=1), phase(50_000 + SESSION_MS + 500, removed=2, is_led=is_led)
        assert roll_out([first, second], HEARTBEAT_MS) == count
        went = [visits[0].window for visits, _ in second.removed]
        assert all(window is None or 40_000 < window.latest_ms < 50_000 for window in went)
        assert (went[-1] is None) is is_led


def test_who_is_removed_later_than_that_was_alive_after_the_phase() -> None:
    phases = [phase(50_000, removed=1), phase(50_000 + SESSION_MS + HEARTBEAT_MS + 1, removed=2)]
    assert roll_out(phases, HEARTBEAT_MS) == 0


def test_while_a_join_phase_waits_for_static_members_who_comes_and_goes_leaves_no_record() -> None:
    phases = [phase(50_000, removed=1, left_out=1), phase(60_000, removed=0), phase(100_000, removed=2)]
    assert unseen(phases, 0, 200_000) == (2 + 1) * SESSION_MS / 200_000
    assert unseen(phases, 60_000, 100_000) == 0
    assert unseen(phases, 99_999, 100_001) == 1


def test_what_may_have_left_no_record_is_said() -> None:
    groups = recorded_groups(LIVES / "103")
    patient, static = (life_of(groups[f"life-103-{name}"], None, None, {}) for name in ("patient", "newstatic"))
    assert any(one.startswith("In 48% of the time join phases waited") for one in patient[0].assumptions)
    # A consumer of librdkafka that was killed: had it been started again, the broker would have refused it.
    assert any("did not come back: 1. A consumer of librdkafka" in one for one in static[0].assumptions)


@pytest.mark.parametrize(("number", "group"), [("118", "patient"), ("115", "patient"), ("120", "static")])
def test_members_of_a_deployment_are_simulated_to_go_about_when_they_really_did(number: str, group: str) -> None:
    """Dynamic members of the same life said when they went; at once, as before, is off by several seconds more."""
    folder = LIVES / number
    intervals = json.loads((folder / "life.json").read_text(encoding="utf-8"))["intervals"]
    recorded = recorded_groups(folder)
    life = life_of(recorded[f"life-{number}-{group}"], None, None, intervals)[0]
    real = life_of(recorded[f"life-{number}-dynamic"], None, None, intervals)[0]
    assert any("one after the other" in sentence for sentence in life.assumptions)
    replaced = {
        client.client_id
        for client in life.clients
        if (window := client.visits[-1].window) is not None and window.rollout_ms is not None
    }
    assert len(replaced) >= 4
    really, simulated, at_once = (_departures(one, replaced) for one in (real, rolled_out(life), life))
    assert _off(simulated, really) < 5_000
    assert _off(simulated, really) < _off(at_once, really) / 2


def _departures(life: Life, client_ids: Container[str]) -> list[int]:
    visits = [client.visits[-1] for client in life.clients if client.client_id in client_ids]
    return sorted(visit.departed_ms for visit in visits if visit.departed_ms is not None)


def _off(simulated: Sequence[int], really: Sequence[int]) -> float:
    return fmean(abs(one - other) for one, other in zip(simulated, really, strict=True))


def test_all_members_of_a_deployment_keep_one_pace() -> None:
    folder = LIVES / "115"
    life = life_of(recorded_groups(folder)["life-115-patient"], None, None, {"heartbeat.interval.ms": "2000"})[0]
    took = set()
    for number in range(5):
        shares = set()
        drawn = rolled_out(life, Random(number))
        for client, other in zip(life.clients, drawn.clients, strict=True):
            for visit, of_draw in zip(client.visits, other.visits, strict=True):
                window = visit.window
                if window is not None and window.rollout_ms is not None and window.earliest_ms < window.latest_ms:
                    assert of_draw.departed_ms is not None
                    took_ms = of_draw.departed_ms - window.earliest_ms
                    shares.add(round(took_ms / (window.latest_ms - window.earliest_ms), 2))
        assert len(shares) == 1
        took |= shares
    assert len(took) > 3
