"""Causes against the truth of random lives on the simulated coordinator.

A few hundred rebalances of each mix by default, 100,000 where long tests run.
"""

from collections.abc import Iterable

import pytest

from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.coordinator import RebalanceStarted
from scripts.reasons import simulated_page
from scripts.reasons.simulated import Verdict, judge, judge_lives, rebalances
from scripts.reasons.simulated_page import by_rule, judge_many, report
from scripts.reasons.tally import Tally
from scripts.reasons.true_facts import Witness
from scripts.world import life as world
from scripts.world.client_bytes import LIBRARIES, OWNED_SINCE
from scripts.world.life import Life
from scripts.world.mixes import FLEET, HELD_OUT, LONG_RUN, LOOKED_AT, MIXES, TRIGGERS, UNIFORM
from tests.nightly import rest_at_night

MOST_ALTERNATIVES = 2


def test_a_seed_gives_the_same_life_again() -> None:
    first, second = Life(3, UNIFORM).run(6), Life(3, UNIFORM).run(6)
    assert first.written == second.written
    assert first.truth == second.truth


@pytest.mark.parametrize("is_odd", [False, True])
def test_a_life_ends_after_so_many_steps(is_odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "MOST_STEPS", 500)
    life = Life(3, UNIFORM._replace(odd_share=is_odd)).run(1)
    life.pass_time(10**12)
    now_ms = life.now_ms
    life.pass_time(10**12)
    assert life.now_ms == now_ms < world.START_MS + 10**12


def test_every_trigger_has_a_weight_and_something_to_do() -> None:
    for mix in MIXES.values():
        assert set(mix.weights) == set(TRIGGERS)
    assert all(callable(getattr(Life, name)) for name in TRIGGERS)
    assert not set(LOOKED_AT) & set(HELD_OUT[:10])


def test_only_a_client_that_says_what_it_owns_rebalances_cooperatively() -> None:
    """Kafka 2.4 brought both (KIP-429), and other libraries took over both."""
    cooperative = [
        library for library in LIBRARIES if any("cooperative-sticky" in names for names in library.assignors)
    ]
    assert len(cooperative) >= 4
    assert all(library.is_whole and library.version >= OWNED_SINCE for library in cooperative)


def test_a_weight_can_be_tried_three_times_as_large() -> None:
    assert FLEET.scaled("crash", 3).weights["crash"] == 3 * FLEET.weights["crash"]
    assert FLEET.scaled("crash", 3).weights["roll"] == FLEET.weights["roll"]


@pytest.mark.parametrize("name", rest_at_night(MIXES, ["uniform"]))
def test_no_certain_cause_is_wrong(name: str) -> None:
    _check_mix(judge_lives(HELD_OUT[100:], MIXES[name], 300))


@pytest.mark.parametrize(
    ("name", "seed"),
    [("uniform", 18), ("uniform", 21), ("uniform", 32), ("uniform", 37), ("uniform", 41), ("fleet", 1), ("fleet", 12)],
)
def test_lives_that_proved_rules_wrong_have_no_certain_cause_that_is_wrong(name: str, seed: int) -> None:
    """Conversions long before, clients that came back after minutes, several things in one join phase."""
    _check(list(judge(LOOKED_AT[seed], MIXES[name])))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("uniform", 1052),
        ("uniform", 1055),
        ("uniform", 1074),
        ("fleet", 1060),
        ("uniform", 1613),
        ("uniform", 1635),
        ("fleet", 1311),
    ],
)
def test_lives_in_which_something_unseen_began_a_rebalance_or_ended_a_membership(name: str, seed: int) -> None:
    """A leader, another's sync timeout, a member never on record, a late expression, timers after a coordinator's load.

    Each had a certain cause or a fact that was wrong.
    """
    _check(list(judge(LOOKED_AT[seed], MIXES[name])))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *(("uniform", 1001), ("uniform", 1130), ("fleet", 1103)),
        *(("uniform", 100_002), ("uniform", 100_065), ("uniform", 100_785), ("uniform", 100_790)),
    ],
)
def test_lives_that_were_held_out_and_proved_rules_wrong(name: str, seed: int) -> None:
    """Two epochs in one conversion, a consumer group that Kafka forgot, commits that nobody looked for.

    In the others the judge was wrong: a static member under several ids, and a converted group's second epoch.
    """
    _check(list(judge(HELD_OUT[seed], MIXES[name])))


@pytest.mark.parametrize("seed", [100_026, 100_137, 100_139, 100_153, 100_211, 100_370, 100_550])
def test_lives_whose_truth_was_not_named_name_it(seed: int) -> None:
    """A group without members after a conversion; static members that a timeout removed before they came back."""
    assert all(verdict.is_among for verdict in judge(HELD_OUT[seed], UNIFORM))


@pytest.mark.parametrize(
    "seed",
    [
        311,
        319,
        679,
        1_130,
        1_370,
        1_001_203,
        1_001_618,
        1_002_832,
        1_003_756,
        2_003_154,
        2_004_314,
        5_002_356,
        5_002_756,
    ],
)
def test_lives_of_a_long_run_whose_truth_was_not_named_name_it(seed: int) -> None:
    """A group that begins again, topics that a leader saw, a follow-up, a leader that left, a reader that left.

    In 1,003,756 two members had claimed the same partitions. In 1,002,832 a static member came back before its old id
    sent SyncGroup. In 2,003,154 an answer with a member id did not arrive. In 2,004,314 a coordinator that had loaded a
    consumer group gave a classic member the group's session timeout. In 5,002,356 a static member timed out after a
    conversion. In 5,002,756 a member kept partitions for longer than its timeout, because the coordinator had changed.
    """
    assert all(verdict.is_among for verdict in judge(LONG_RUN[seed], UNIFORM))


@pytest.mark.parametrize("seed", [2_002_224, 2_004_740, 5_000_389])
def test_lives_of_a_long_run_that_had_a_wrong_certain_cause_or_fact_have_none(seed: int) -> None:
    """A client that was migrated to another host; an empty group that was deleted in the millisecond of a join.

    In 5,000,389 the judge was wrong: a generation of a deleted group before has a record.
    """
    _check(list(judge(LONG_RUN[seed], UNIFORM)))


def test_a_client_that_left_before_it_joined_is_named_beside_a_member_that_did() -> None:
    """Its LeaveGroup began the phase; no record shows it. Only as an alternative does MEMBER_JOIN stand for it."""
    [verdict] = [verdict for verdict in judge(LONG_RUN[500_576], FLEET) if verdict.beside]
    assert (verdict.truth, verdict.row["cause"], verdict.is_right) == ("MEMBER_LEAVE", "MEMBER_JOIN", False)
    assert verdict.is_among
    for cause, alternatives, is_among in (("MEMBER_JOIN", [], False), ("LEADER_REJOIN", ["MEMBER_JOIN"], True)):
        row = {**verdict.row, "cause": cause, "alternatives": alternatives}
        assert verdict._replace(row=row).is_among is is_among
        assert not verdict._replace(row=row).is_right


@pytest.mark.parametrize("name", rest_at_night(MIXES, ["fleet"]))
def test_no_certain_cause_is_wrong_on_brokers_with_faults(name: str) -> None:
    _check(judge_lives(HELD_OUT[200_000:], MIXES[name]._replace(fault_share=1), 100))


def test_a_life_without_a_fault_of_its_broker_stays_as_it_is() -> None:
    """Faults are drawn apart: of ten seeds, those without one have the same life in a world without faults."""
    some = UNIFORM._replace(fault_share=0.5)
    faults = {seed: Life(seed, some).fault for seed in LOOKED_AT[:10]}
    assert set(faults.values()) > {None}
    seed = next(seed for seed, found in faults.items() if found is None)
    assert Life(seed, some).run(3).written == Life(seed, UNIFORM._replace(fault_share=0)).run(3).written


@pytest.mark.parametrize("is_modern", [False, True])
def test_a_group_that_was_forgotten_is_not_called_converted(is_modern: bool) -> None:
    """A classic member with an id of its own is refused by an empty consumer group; the group is forgotten by that."""
    life = Life(7, FLEET._replace(modern_share=1, odd_share=0))
    life.join()
    life.pass_time(20_000)
    life.consumers[0].close(life)
    life.pass_time(5_000)
    stale = {"memberId": "stale", "protocolType": "consumer", "protocols": [], "sessionTimeoutMs": 10_000}
    life.send(None, "JoinGroup", stale, lambda _: None, 5)
    life.is_modern = is_modern
    life.join()
    life.pass_time(60_000)
    assert "ConsumerGroupMetadata" not in {r.kind for r in life.written if isinstance(r, Record) and r.value is None}
    row = rebalances(life)[-1]
    assert "CONVERTED" not in {fact["kind"] for fact in row["facts"]}
    assert row["confidence"] != "certain"
    assert "GROUP_CREATED" in row["alternatives"]
    assert not list(Witness(life).false_facts(row))


def test_a_join_phase_that_the_leader_began_is_no_certain_join() -> None:
    """The leader joins again, and another consumer joins before the others have noticed."""
    life = Life(7, FLEET._replace(modern_share=0, odd_share=0))
    for _ in range(3):
        life.join()
        life.pass_time(20_000)
    life.enforce()
    life.pass_time(5)
    life.join()
    life.pass_time(60_000)
    started = [event for event in life.truth if isinstance(event, RebalanceStarted)]
    row = next(row for row in rebalances(life) if row["epoch"] == started[-1].generation + 1)
    assert "joining group" in started[-1].reason or "Updating metadata" in started[-1].reason
    assert (row["cause"], row["confidence"]) == ("MEMBER_JOIN", "likely")
    assert "LEADER_REJOIN" in row["alternatives"]


def test_a_false_fact_is_seen() -> None:
    """The judge of facts tells true from false: a removal that never was."""
    life = Life(3, UNIFORM).run(6)
    row = next(row for row in rebalances(life) if row["members_joined"])
    facts = [fact for fact in row["facts"] if fact["kind"].startswith("JOINED")]
    assert not list(Witness(life).false_facts({**row, "facts": facts}))
    moved = [{**fact, "kind": "REMOVED"} for fact in facts]
    assert len(list(Witness(life).false_facts({**row, "facts": moved}))) == len(moved)


@pytest.mark.long
@pytest.mark.parametrize("name", MIXES)
def test_no_certain_cause_is_wrong_in_many_lives(name: str) -> None:
    _check_mix(judge_lives(LONG_RUN, MIXES[name], 100_000))


def _check(verdicts: Iterable[Verdict]) -> Tally:
    """Check all that is never wrong; return the counts."""
    tally = Tally(verdicts)
    assert tally.total
    assert tally.faults == []
    return tally


def _check_mix(verdicts: Iterable[Verdict]) -> None:
    tally = _check(verdicts)
    assert tally.alternatives <= MOST_ALTERNATIVES * tally.total


def test_each_kind_of_wrong_answer_is_seen() -> None:
    """The judge tells right from wrong: with another cause, without alternatives, with a false fact."""
    [verdict] = [one for one in judge(HELD_OUT[100], UNIFORM) if one.row["confidence"] == "certain"][:1]
    assert verdict.faults == []
    other = {**verdict.row, "cause": "TOPOLOGY_CHANGE"}
    wrong = verdict._replace(row={**other, "alternatives": [str(verdict.truth)]})
    unnamed = verdict._replace(row={**other, "alternatives": [], "confidence": "possible"})
    false = verdict._replace(false=tuple(verdict.row["facts"][:1]))
    assert [one.faults for one in (wrong, unnamed, false)] == [
        ["certain and wrong"], ["truth not named"], ["false fact"],
    ]  # fmt: skip
    tally = Tally([verdict, wrong, unnamed, false])
    assert tally.wrong.total() == 2
    assert (tally.right.total(), tally.named.total(), tally.false) == (2, 3, 1)
    assert len(tally.faults) == 3


def test_another_weight_of_a_true_cause_changes_the_share_of_right_rows() -> None:
    """Five right rows of two true causes, and one wrong row, whose true cause may be three times as frequent."""
    [verdict] = [one for one in judge(HELD_OUT[100], UNIFORM) if one.row["confidence"] == "certain"][:1]
    right = verdict._replace(row={**verdict.row, "confidence": "likely"})
    other = right._replace(truth=Cause.BROKER_UPGRADE)
    wrong = right._replace(truth=Cause.TOPOLOGY_CHANGE, accepted=frozenset({Cause.TOPOLOGY_CHANGE}))
    tally = Tally([right, right, right, other, other, wrong])
    assert tally.least(cause=verdict.row["cause"]) == (0.625, "TOPOLOGY_CHANGE", 3)
    assert any("| 5 of 6 (83.3 %) | 62.5 % (TOPOLOGY_CHANGE 3 times as frequent) |" in line for line in by_rule(tally))
    assert any("| 1 of 1 (100.0 %) | 100.0 % |" in line for line in by_rule(Tally([right])))


def test_a_long_run_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_page, "TOLD_EACH", 5)
    totals = [tally.total for tally in judge_many(LOOKED_AT[2:], FLEET, 12)]
    assert totals[:2] == [5, 10]
    assert totals[-1] >= 12


def test_a_report_names_seeds_and_what_is_wrong() -> None:
    verdicts = list(judge(HELD_OUT[100], UNIFORM))
    tally = Tally([*verdicts, verdicts[0]._replace(row={**verdicts[0].row, "cause": "TOPOLOGY_CHANGE"})])
    text = "\n".join(report("uniform", tally))
    assert f"seeds {HELD_OUT[100]} to {HELD_OUT[100]}" in text
    assert f"- {HELD_OUT[100]}: " in text
    assert f"truth {verdicts[0].truth}" in text
