"""One life, recorded under six settings by a real broker: what one predicts is what another recorded."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from coordinator_replay.engine.model import Record
from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.answer import WhatIf, life_of, what_if
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.script import Window
from coordinator_replay.simulation.what_if.settings import Alternative
from scripts.what_if.sample import recorded_groups
from tests.nightly import rest_at_night

VARIANTS = Path(__file__).parents[2] / "data" / "variants"
LIFECYCLES = Path(__file__).parents[2] / "data" / "group-lifecycles"
JAVA_CLIENTS = Path(__file__).parents[2] / "data" / "java-clients"

KNOWN = {"heartbeat.interval.ms": "500"}
INTERVALS = {**KNOWN, "group.initial.rebalance.delay.ms": "300", "metadata.max.age.ms": "2000"}
STATIC = {"group.instance.id": "per-client", "session.timeout.ms": "6000"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer", "session.timeout.ms": "5000", **KNOWN}


@cache
def groups() -> dict[str, Recorded]:
    return recorded_groups(VARIANTS)


NO_RANGES = 0
"""Steps for ranges; most tests are about the likeliest values."""


def tried(
    group: str,
    *values: dict[str, str],
    without_restarts: bool = False,
    members: int | None = None,
    most_steps: int | None = NO_RANGES,
) -> WhatIf:
    alternatives = [
        Alternative(values=one, without_restarts=without_restarts, members=members) for one in values or ({},)
    ]
    return what_if(groups()[group], alternatives, most_steps=most_steps)


@pytest.mark.parametrize("group", ["dynamic", "static", "patient", "new", "newstatic"])
def test_recorded_settings_reproduce_every_recorded_rebalance(group: str) -> None:
    fidelity = tried(f"shop-v-{group}").fidelity
    assert (fidelity.matched, fidelity.simulated) == (fidelity.recorded, fidelity.recorded)
    assert fidelity.same_targets >= fidelity.matched - 1
    assert fidelity.unmatched == ""


def test_what_a_librdkafka_consumer_does_beside_is_said_to_be_missed() -> None:
    fidelity = tried("shop-v-coop").fidelity
    assert (fidelity.recorded, fidelity.matched, fidelity.simulated) == (19, 17, 17)
    assert len(fidelity.misses) == 2
    assert all("LEADER_REJOIN" in miss for miss in fidelity.misses)
    assert fidelity.unmatched == "Recorded only: LEADER_REJOIN 2; no record shows why a leader joins again."


@pytest.mark.parametrize(
    ("values", "recorded_as"), [(STATIC, "static"), (COOPERATIVE, "coop"), (CONSUMER, "new")], ids=str
)
def test_other_settings_are_predicted_from_the_life_of_dynamic_members(
    values: dict[str, str], recorded_as: str
) -> None:
    predicted = tried("shop-v-dynamic", values).alternatives[0]
    recorded = tried(f"shop-v-{recorded_as}").recorded
    assert abs(predicted.rebalances - recorded.rebalances) <= max(1, recorded.rebalances // 10)


@pytest.mark.parametrize("source", rest_at_night(["static", "patient"], ["static"]))
@pytest.mark.parametrize("predicted_as", ["dynamic", "new"])
def test_what_a_life_of_static_members_leaves_open_is_a_range_that_holds_the_truth(
    source: str, predicted_as: str
) -> None:
    intervals = {**KNOWN, "group.initial.rebalance.delay.ms": "300", "metadata.max.age.ms": "2000"}
    settings = CONSUMER if predicted_as == "new" else {"session.timeout.ms": "6000"}
    alternative = Alternative(values={"group.instance.id": "none", **settings, **intervals})
    answer = what_if(groups()[f"shop-v-{source}"], [alternative], known=intervals)
    truth = tried(f"shop-v-{predicted_as}").recorded
    (predicted,) = answer.alternatives
    assert predicted.ranges
    for measure in ("rebalances", "partitions_reassigned"):
        value = getattr(predicted, measure)
        least, most = predicted.ranges.get(measure, (value, value))
        assert least <= getattr(truth, measure) <= most
    assert any("ranges cover the rest" in text for text in answer.assumptions)


def test_rebalances_of_a_life_of_dynamic_members_are_nearly_certain() -> None:
    """Where heartbeats come, who comes first, and how one member departed is open; by one a simulation may be off."""
    for one in tried("shop-v-dynamic", {}, CONSUMER | INTERVALS, most_steps=None).alternatives:
        least, most = one.ranges["rebalances"]
        assert most - least <= 3 + 2


def test_a_static_member_was_there_when_it_committed_last() -> None:
    """What is open of a restart begins with the last commit: the later it is, the less is open."""
    group = groups()["shop-v-patient"]
    (back_ms, before) = next(
        (operation.at_ms, event.before.member_id)
        for operation in group.operations
        for event in operation.events
        if str(event.kind) == "MEMBER_REPLACED" and event.before is not None
    )
    commits = {**group.last_commits, before: back_ms - 300}
    life, _ = life_of(replace(group, last_commits=commits), None, None, {})
    windows = [visit.window for client in life.clients for visit in client.visits if before == visit.member_id]
    assert windows == [Window(back_ms - 299, back_ms - 1, is_restart=True)]


def test_courses_that_would_have_left_another_record_are_none_of_the_life() -> None:
    """Under the settings on record every course leaves that record, but for who comes when, and what ends after it."""
    (again,) = tried("shop-v-static", {}, most_steps=None).alternatives
    assert again.rebalances == 7
    least, most = again.ranges["rebalances"]
    assert 5 - 1 <= least <= 7 <= most <= 8 + 1, "by one a simulation may be off"


def test_what_comes_a_moment_after_the_end_is_no_miss() -> None:
    """The last record of this log is the removal of a member, which is simulated some milliseconds later."""
    group = groups()["shop-v-static"]
    last_ms = group.records[-1].timestamp_ms
    fidelity = what_if(replace(group, log_end_ms=last_ms), []).fidelity
    assert (fidelity.matched, fidelity.recorded) == (7, 7)


def test_without_restarts_no_client_comes_back() -> None:
    answer = tried("shop-v-dynamic", without_restarts=True)
    assert answer.simulated.causes["MEMBER_RESTART"] == 4
    assert "MEMBER_RESTART" not in answer.alternatives[0].causes
    assert answer.alternatives[0].rebalances < answer.simulated.rebalances


def test_more_members_than_there_were_join_once() -> None:
    answer = tried("shop-v-new", members=6)
    assert answer.alternatives[0].rebalances == answer.simulated.rebalances + 2


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (tried("shop-v-coop", CONSUMER, most_steps=20_000) for _ in range(2))
    assert first == second


def test_nothing_is_predicted_from_a_time_range_without_any_event() -> None:
    group = groups()["shop-v-new"]
    last_ms = group.records[-1].timestamp_ms
    answer = what_if(group, [Alternative(values=COOPERATIVE)], start_ms=last_ms + 2_000, end_ms=last_ms + 12_000)
    assert (answer.recorded.rebalances, answer.simulated.rebalances) == (0, 0)
    assert answer.recorded.stable_share == answer.simulated.stable_share == 1
    # 0 of 0 reproduced rebalances prove nothing.
    assert (answer.fidelity.is_enough, answer.alternatives) == (False, ())
    assert answer.differences == (
        "Nothing is predicted: that time has no rebalance on record that a simulation could reproduce.",
    )
    assert str(answer.fidelity).startswith("With the recorded settings the simulation has 0 rebalances; there is no ")


def test_a_group_whose_beginning_is_not_on_record_is_taken_up_with_its_first_record() -> None:
    group = groups()["shop-v-new"]
    late = next(place for place, record in enumerate(group.records) if is_late(record, group))
    records = [record._replace(missing_before=record.missing_before + late) for record in group.records[late:]]
    cut = Recorded(group.group_id, records, group.names, group.counts, group.changes)
    answer = what_if(cut, [Alternative(values=CONSUMER)], most_steps=NO_RANGES)
    assert any("start of the group is not on record" in text for text in answer.assumptions)
    assert answer.recorded.rebalances < 14


def test_a_gap_inside_the_time_range_is_said() -> None:
    group = groups()["shop-v-new"]
    cut = next(place for place, record in enumerate(group.records) if is_late(record, group))
    records = [
        record._replace(missing_before=record.missing_before + 1) if place >= cut else record
        for place, record in enumerate(group.records)
        if place != cut - 1
    ]
    answer = what_if(Recorded(group.group_id, records, group.names, group.counts, group.changes), [])
    assert any("Records are missing before" in text for text in answer.assumptions)


def is_late(record: Record, group: Recorded) -> bool:
    return record.kind == "ConsumerGroupMetadata" and record.timestamp_ms > group.records[0].timestamp_ms + 20_000


def test_nothing_is_predicted_from_a_life_that_can_not_be_reproduced() -> None:
    answer = what_if(recorded_groups(LIFECYCLES)["shop-migrate"], [Alternative(values=CONSUMER)])
    assert not answer.fidelity.is_enough
    assert answer.alternatives == ()
    assert "nothing is predicted" in answer.differences[0]


def test_a_change_of_protocol_is_said_with_its_times_and_each_part_can_be_asked_for_alone() -> None:
    group = recorded_groups(LIFECYCLES)["shop-migrate"]
    answer = what_if(group, [])
    (note,) = [text for text in answer.assumptions if "changed its protocol" in text]
    assert "consumer from 2026-" in note
    assert "classic from 2026-" in note
    converted = [one.at_ms for before, one in pairwise(group.operations) if before.is_classic and not one.is_classic]
    part = what_if(group, [Alternative(values={})], start_ms=converted[0] + 1, end_ms=converted[0] + 5_000)
    assert part.recorded.stable_share is not None, "it was a consumer group then"
    assert not [text for text in part.assumptions if "changed its protocol" in text]


def test_racks_of_members_are_said_to_be_left_out() -> None:
    group = next(filter(has_rack, recorded_groups(JAVA_CLIENTS).values()))
    assert any("client.rack" in text for text in what_if(group, []).assumptions)


def has_rack(group: Recorded) -> bool:
    return any((record.value or {}).get("rackId") for record in group.records)


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_share_and_streams_groups_are_refused_in_a_sentence(kind: str) -> None:
    with pytest.raises(UsageError, match=f"is a {kind} group; only classic and consumer groups can be simulated"):
        what_if(recorded_groups(LIFECYCLES)[f"shop-{kind}"], [Alternative(values=CONSUMER)])


@pytest.mark.parametrize(
    ("name", "value"),
    [("group.protocol", "new"), ("session.timeout.ms", "soon"), ("session.timeout.ms", "0"), ("linger.ms", "5")],
)
def test_settings_that_can_not_be_tried_are_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name.replace(".", r"\.")):
        tried("shop-v-dynamic", {name: value})


@pytest.mark.parametrize("name", ["dynamic", "static", "new"])
def test_a_long_rest_in_between_changes_nothing_and_takes_no_time(name: str) -> None:
    """A month of rest before the topic gets partitions: millions of heartbeats that nobody needs."""
    group = groups()[f"shop-v-{name}"]
    month_ms = 30 * 86_400_000
    rested = [one if one.timestamp_ms < GROWN_MS else later(one, month_ms) for one in group.records]
    longer = Recorded(group.group_id, rested, group.names, group.counts, {})
    usual = what_if(
        Recorded(group.group_id, group.records, group.names, group.counts, {}),
        [Alternative(values=CONSUMER)],
        most_steps=NO_RANGES,
    )
    answer = what_if(longer, [Alternative(values=CONSUMER)], most_steps=NO_RANGES)
    assert answer.end_ms - answer.start_ms > month_ms
    assert answer.fidelity.matched == usual.fidelity.matched
    for after, before in zip(answer.measures, usual.measures, strict=True):
        assert (after.rebalances, after.causes) == (before.rebalances, before.causes)
        assert after.partitions_reassigned == before.partitions_reassigned


GROWN_MS = 1_795_381_695_000
"""Before the topics of the variants get partitions, and after whoever crashed had come back."""


def later(record: Record, by_ms: int) -> Record:
    value = record.value
    if value is not None and "currentStateTimestamp" in value:
        value = {**value, "currentStateTimestamp": value["currentStateTimestamp"] + by_ms}
    return record._replace(timestamp_ms=record.timestamp_ms + by_ms, value=value)


@pytest.mark.parametrize("name", ["patient", "static", "newstatic"])
def test_a_static_member_that_is_away_when_a_time_range_begins_is_still_a_member(name: str) -> None:
    """One second before it comes back: it joins no group then that has done without it."""
    group = groups()[f"shop-v-{name}"]
    life, _ = life_of(group, None, None, KNOWN)
    back_ms = min(visit.arrived_ms for client in life.clients for visit in client.visits[1:])
    answer = what_if(group, [], start_ms=back_ms - 1_000, known=KNOWN)
    assert answer.simulated.rebalances == answer.recorded.rebalances == answer.fidelity.matched


def test_a_member_that_died_before_a_time_range_is_removed_within_it() -> None:
    group = groups()["shop-v-static"]
    life, _ = life_of(group, None, None, KNOWN)
    died_ms = min(
        visit.departed_ms
        for client in life.clients
        for visit in client.visits
        if visit.departed_ms is not None and visit.window is not None and not visit.window.is_restart
    )
    answer = what_if(group, [], start_ms=died_ms + 1_000, end_ms=died_ms + 7_000, known=KNOWN)
    assert (answer.recorded.rebalances, answer.fidelity.matched, answer.simulated.rebalances) == (1, 1, 1)
