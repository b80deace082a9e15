"""Which library a client uses: what brokers recorded of librdkafka's and of Java's clients."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.engine.model import Protocol, Subscription
from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.answer import life_of, what_if
from coordinator_replay.simulation.what_if.libraries import JAVA, LIBRDKAFKA, libraries_sentence, library_of
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.settings import Alternative
from scripts.what_if.sample import recorded_groups

DATA = Path(__file__).parents[2] / "data"
INTERVALS = {
    "heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "300",
    "metadata.max.age.ms": "2000",
}


@cache
def groups(sample: str) -> dict[str, Recorded]:
    return recorded_groups(DATA / sample)


def libraries(group: Recorded) -> set[str | None]:
    life, _ = life_of(group, None, None, {})
    return {client.library for client in life.clients}


@pytest.mark.parametrize("sample", ["variants", "group-lifecycles", "expiration", "transactions"])
def test_every_group_recorded_with_librdkafka_is_told_from_java(sample: str) -> None:
    found: set[str | None] = set()
    for group in groups(sample).values():
        try:
            found |= libraries(group)
        except UsageError:
            continue  # no members, or a share or streams group
    assert found - {None} == {LIBRDKAFKA}
    assert all(libraries(group) == {LIBRDKAFKA} for name, group in groups(sample).items() if name.startswith("shop-v"))


def test_every_group_recorded_with_java_clients_is_told_from_librdkafka() -> None:
    assert {library for group in groups("java-clients").values() for library in libraries(group)} == {JAVA}


@pytest.mark.parametrize(
    ("protocol", "fields", "library"),
    [
        ("range", {"version": 3, "userData": None}, JAVA),
        ("range", {"version": 3, "userData": ""}, LIBRDKAFKA),
        ("range", {"version": 0, "userData": ""}, None),
        ("cooperative-sticky", {"version": 3, "userData": "/////w=="}, JAVA),
        ("cooperative-sticky", {"version": 3, "userData": "AAAAAAAAAAQ="}, None),
        ("cooperative-sticky", {"version": 1, "userData": ""}, LIBRDKAFKA),
        ("cooperative-sticky", {"version": 1, "userData": "#"}, None),
        ("range", None, None),
        ("range", {}, None),
    ],
)
def test_user_data_of_a_subscription_tells(protocol: str, fields: dict[str, Any] | None, library: str | None) -> None:
    assert library_of(["c-1"], [Subscription(protocols=(Protocol(protocol, "", fields),))]) == library


@pytest.mark.parametrize(
    ("member_id", "library"),
    [
        ("kfbtO5C4Q3W7elCkw+E+wQ", LIBRDKAFKA),
        ("X_w1-dxNSDGS66QbVW6WLQ", JAVA),
        ("MiRdaKO2Qkyftd79hhrHDw", None),
        ("coop-0-d4d03cb4-acc8-459f-ac52-9030aba56726", None),
    ],
)
def test_letters_of_a_member_id_tell(member_id: str, library: str | None) -> None:
    assert library_of([member_id], [Subscription()]) == library


def test_marks_of_both_libraries_tell_nothing() -> None:
    assert library_of(["kfbtO5C4Q3W7elCkw+E+wQ", "X_w1-dxNSDGS66QbVW6WLQ"], []) is None


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ([None, None], "The client library (client.library) is not on record"),
        ([JAVA, JAVA], "Java for 2 of 2."),
        ([LIBRDKAFKA, None], "librdkafka for 1 of 2; the others are assumed to use the same."),
        ([LIBRDKAFKA, JAVA, None], "Java for 1 of 3 and librdkafka for 1 of 3; the others are"),
    ],
)
def test_what_is_known_is_said(marks: list[str | None], said: str) -> None:
    assert said in libraries_sentence(marks)


def test_librdkafka_joins_once_a_second_after_giving_partitions_up() -> None:
    """The recorded cooperative life has about a second between a rebalance and its follow-up; Java's has none."""
    group = groups("variants")["shop-v-coop"]
    own = what_if(group, [], known=INTERVALS).simulated
    java = what_if(group, [], known={**INTERVALS, "client.library": JAVA}).simulated
    recorded = what_if(group, []).recorded
    assert own.unowned_ms_total is not None
    assert java.unowned_ms_total is not None
    assert recorded.unowned_ms_total is not None
    assert java.unowned_ms_total < own.unowned_ms_total
    assert abs(own.unowned_ms_total - recorded.unowned_ms_total) < 0.3 * recorded.unowned_ms_total


def test_each_member_of_librdkafka_joins_again_when_it_sees_new_partitions() -> None:
    group = groups("variants")["shop-v-coop"]
    answer = what_if(group, [Alternative(values={"client.library": JAVA})], known=INTERVALS)
    assert answer.simulated.causes["LEADER_REJOIN"] >= 1
    assert "LEADER_REJOIN" not in answer.alternatives[0].causes


def test_the_library_given_is_taken() -> None:
    group = groups("variants")["shop-v-dynamic"]
    assert any("librdkafka for 4 of 4" in text for text in what_if(group, []).assumptions)
    answer = what_if(group, [], known={"client.library": JAVA})
    assert not any("librdkafka" in text for text in answer.assumptions)
