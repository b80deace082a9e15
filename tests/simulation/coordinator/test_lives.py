"""Lives of groups: whatever happens to their consumers, they come to rest, no partition has two owners, the log tells.

Groups of the classic protocol with each of the clients' assignors, of the new protocol, and of both mixed, where
members come and go and migrate, so that groups are converted both ways; dynamic and static members everywhere. What
Kafka itself does otherwise where it converts groups is in ``mixed_groups``.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.model import GroupState, GroupType, merged
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.records.blobs import read_assignment
from coordinator_replay.simulation.coordinator import Config, Coordinator, Request, Response
from tests.engine.described import describe
from tests.nightly import few_examples, many_examples
from tests.simulation.coordinator.lives import MAKERS, TOPICS, Step, do
from tests.simulation.coordinator.simulated_consumers import Fleet, ModernConsumer

MEMBERS = st.tuples(st.sampled_from(["leave", "act", "restart", "migrate", "commit"]), st.integers(0, 5))
STARTS = st.tuples(
    st.just("start"),
    st.sampled_from([("foo",), ("foo", "bar"), ("bar", "one")]),
    st.sampled_from([None, None, "i1", "i2"]),
    st.booleans(),
)
CALM_STEPS = st.lists(st.one_of(STARTS, MEMBERS, st.just(("round",))), min_size=1, max_size=25)
STEPS = st.lists(
    st.one_of(
        STARTS,
        MEMBERS,
        st.tuples(st.just("crash"), st.integers(0, 5)),
        st.tuples(st.just("time"), st.sampled_from([0, 500, 3000, 11_000, 40_000])),
        st.just(("reload",)),
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("kind", MAKERS)
@given(steps=STEPS, delay_ms=st.sampled_from([0, 3000]))
def test_a_group_comes_to_rest_and_every_partition_has_one_owner(kind: str, steps: list[Step], delay_ms: int) -> None:
    coordinator = Coordinator(Config({"group.initial.rebalance.delay.ms": delay_ms}), TOPICS, now_ms=1)
    fleet = Fleet(coordinator)
    for number, step in enumerate(steps):
        do(fleet, number, step, MAKERS[kind])
    fleet.settle()
    topics = {topic for consumer in fleet.consumers for topic in consumer.topics}
    wanted = {(topic.name, number) for topic in TOPICS if topic.name in topics for number in range(topic.partitions)}
    owned = [partition for consumer in fleet.consumers for partition in consumer.owned]
    assert len(owned) == len(set(owned))
    assert set(owned) <= wanted if fleet.conversions.is_unassigned else set(owned) == wanted
    described = describe(coordinator.replay("g"))
    if not fleet.consumers:
        assert described is None or described.state == GroupState.EMPTY
        return
    assert described is not None
    assert described.state == GroupState.STABLE
    assert {member.member_id for member in described.members} == {consumer.member_id for consumer in fleet.consumers}
    has_modern = any(isinstance(consumer, ModernConsumer) for consumer in fleet.consumers)
    assert described.group_type == (GroupType.CONSUMER if has_modern else GroupType.CLASSIC)
    assert {consumer.generation for consumer in fleet.consumers} == {described.epoch}


@pytest.mark.parametrize("kind", MAKERS)
@given(steps=CALM_STEPS)
def test_no_partition_ever_has_two_owners(kind: str, steps: list[Step]) -> None:
    coordinator = Coordinator(Config({"group.initial.rebalance.delay.ms": 0}), TOPICS, now_ms=1)
    fleet = Fleet(coordinator)
    for number, step in enumerate(steps):
        do(fleet, number, step, MAKERS[kind])
        owned = list(fleet.conversions.owned(fleet.consumers))
        assert len(owned) == len(set(owned)), step


@pytest.mark.parametrize("kind", MAKERS)
@few_examples
@given(steps=STEPS, cut=st.integers(0, 200))
def test_the_log_replayed_from_any_prefix_on_is_the_groups_state(kind: str, steps: list[Step], cut: int) -> None:
    check_replay_from(kind, steps, cut)


@pytest.mark.long
@pytest.mark.parametrize("kind", MAKERS)
@many_examples
@given(steps=STEPS, cut=st.integers(0, 200))
def test_many_logs_replayed_from_any_prefix_on_are_the_groups_state(kind: str, steps: list[Step], cut: int) -> None:
    check_replay_from(kind, steps, cut)


def check_replay_from(kind: str, steps: list[Step], cut: int) -> None:
    coordinator = Coordinator(Config({"group.initial.rebalance.delay.ms": 0}), TOPICS, now_ms=1)
    fleet = Fleet(coordinator)
    for number, step in enumerate(steps):
        do(fleet, number, step, MAKERS[kind])
    prefix = cut % (len(fleet.records) + 1)
    first = StateReplay("g")
    for record in fleet.records[:prefix]:
        first.apply(record)
    second = StateReplay.restore(json.loads(json.dumps(first.snapshot())))
    for record in fleet.records[prefix:]:
        second.apply(record)
    second.finish()
    assert describe(second) == describe(coordinator.replay("g"))
    assert second.offsets.stored == coordinator.replay("g").offsets.stored


@pytest.mark.parametrize("kind", MAKERS)
@given(steps=STEPS)
def test_what_a_group_is_described_as_is_what_its_records_say(kind: str, steps: list[Step]) -> None:
    coordinator = Coordinator(Config({"group.initial.rebalance.delay.ms": 0}), TOPICS, now_ms=1)
    fleet = Fleet(coordinator)
    for number, step in enumerate(steps):
        do(fleet, number, step, MAKERS[kind])
        described = describe(coordinator.replay("g"))
        if described is None:
            continue
        is_classic = described.group_type == GroupType.CLASSIC
        answered = _describe(coordinator, is_classic=is_classic)
        assert answered["errorCode"] == 0
        # A rebalance of a classic group under way is not on record.
        if is_classic and answered["groupState"] != GroupState.STABLE:
            continue
        assert answered["groupState"] == described.state
        assert {
            member["memberId"]: (member["clientId"], member["clientHost"], _partitions(member, is_classic=is_classic))
            for member in answered["members"]
        } == {
            member.member_id: (member.client_id, member.client_host, merged(member.assigned or {}, member.pending))
            for member in described.members
        }


def _describe(coordinator: Coordinator, *, is_classic: bool) -> dict[str, Any]:
    api, body = ("DescribeGroups", {"groups": ["g"]}) if is_classic else ("ConsumerGroupDescribe", {"groupIds": ["g"]})
    (response,) = coordinator.handle(Request(api, body), coordinator.now_ms)
    assert isinstance(response, Response)
    answered: dict[str, Any] = response.body["groups"][0]
    return answered


def _partitions(member: dict[str, Any], *, is_classic: bool) -> dict[str, tuple[int, ...]]:
    if not is_classic:
        return {one["topicId"]: tuple(sorted(one["partitions"])) for one in member["assignment"]["topicPartitions"]}
    read = read_assignment(member["memberAssignment"]).partitions if member["memberAssignment"] else ()
    return {topic: tuple(sorted(numbers)) for topic, numbers in read if numbers}
