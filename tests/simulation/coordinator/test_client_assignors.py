"""The clients' assignors give what kafka-clients gives: recorded answers, and the real classes where they are here."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.simulation.coordinator.assignor.client import ASSIGNORS, ClientSubscription
from coordinator_replay.simulation.coordinator.script import ScriptRun
from tests.samples import DATA
from tests.simulation.coordinator import oracle
from tests.simulation.coordinator.client_subscriptions import answer, random_question

RECORDED = [json.loads(line) for line in (DATA / "coordinator" / "client-assignors.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_recorded_assignments(assignor: str) -> None:
    entries = [entry for entry in RECORDED if entry["question"]["assign"] == assignor]
    assert len(entries) == 60
    for entry in entries:
        assert answer(entry["question"]) == entry["assignment"], json.dumps(entry)


def test_a_script_can_ask_an_assignor() -> None:
    entry = next(entry for entry in RECORDED if entry["assignment"])
    told = json.loads(ScriptRun().run(json.dumps(entry["question"])))
    assert told == {"i": 0, "now": 0, "did": "assign", "out": [{"at": 0, "assignment": entry["assignment"]}]}


@pytest.mark.kafka
def test_kafka_agrees_a_thousand_times_on_each_assignor() -> None:
    randomness = random.Random(2)
    questions = [random_question(randomness, assignor) for assignor in ASSIGNORS for _ in range(1000)]
    for question, told in zip(questions, oracle.run(questions), strict=True):
        assert answer(question) == _assignment(told), json.dumps(question)


def _assignment(told: dict[str, Any]) -> Any:
    return next(event.get("assignment") for event in told["out"] if "assignment" in event or "oracleError" in event)


NAMES = st.sampled_from(["foo", "bar", "baz"])
MEMBERS = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    st.builds(
        ClientSubscription,
        topics=st.lists(NAMES, unique=True, min_size=1, max_size=3).map(tuple),
        rack_id=st.sampled_from([None, "a", "b"]),
    ),
    max_size=5,
)
TOPICS = st.dictionaries(
    NAMES, st.lists(st.frozensets(st.sampled_from("ab"), max_size=2), max_size=9).map(tuple), max_size=3
)


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(topics=TOPICS, members=MEMBERS)
def test_every_partition_has_one_owner_that_subscribes(assignor: str, topics: Any, members: Any) -> None:
    assignment = ASSIGNORS[assignor](topics, members)
    given_out = sorted(partition for partitions in assignment.values() for partition in partitions)
    wanted = {topic for member in members.values() for topic in member.topics}
    assert given_out == sorted((topic, n) for topic in topics if topic in wanted for n in range(len(topics[topic])))
    assert all(topic in members[member].topics for member, owned in assignment.items() for topic, _ in owned)


@given(topics=TOPICS, members=MEMBERS)
def test_sticky_moves_nothing_when_nothing_changed(topics: Any, members: Any) -> None:
    sticky = ASSIGNORS["sticky"]
    members = {member_id: member._replace(rack_id=None) for member_id, member in members.items()}
    first = sticky(topics, members)
    again = {
        member_id: member._replace(owned=tuple(first[member_id]), generation=1) for member_id, member in members.items()
    }
    second = sticky(topics, again)
    assert {m: set(owned) for m, owned in second.items()} == {m: set(owned) for m, owned in first.items()}


@given(topics=TOPICS, members=MEMBERS)
def test_cooperative_sticky_gives_away_nothing_that_is_owned(topics: Any, members: Any) -> None:
    cooperative = ASSIGNORS["cooperative-sticky"]
    ids = list(members)
    first = cooperative(topics, {member_id: members[member_id] for member_id in ids[: len(ids) // 2 + 1]})
    again = {
        member_id: member._replace(owned=tuple(first.get(member_id, ())), generation=1)
        for member_id, member in members.items()
    }
    owner = {partition: member_id for member_id, owned in first.items() for partition in owned}
    second = cooperative(topics, again)
    assert all(
        owner.get(partition, member_id) == member_id for member_id, owned in second.items() for partition in owned
    )
