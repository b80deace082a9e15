"""Lives of classic groups: whatever happens to their consumers, they come to rest, and the log tells how."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.coordinator import Config, Coordinator, Topic
from coordinator_replay.engine import GroupState, Replay
from tests.coordinator.classic_clients import ClassicConsumer, Fleet

TOPICS = [Topic("foo", "A" * 21 + "A", 5), Topic("bar", "A" * 21 + "Q", 2), Topic("one", "A" * 21 + "g", 1)]

STARTS = st.tuples(
    st.just("start"),
    st.sampled_from([("foo",), ("foo", "bar"), ("bar", "one")]),
    st.sampled_from([None, None, "i1", "i2"]),
)
STEPS = st.lists(
    st.one_of(
        STARTS,
        st.tuples(st.sampled_from(["leave", "crash", "act", "restart"]), st.integers(0, 5)),
        st.tuples(st.just("time"), st.sampled_from([0, 500, 3000, 11_000, 40_000])),
        st.tuples(st.just("reload"), st.just(0)),
    ),
    min_size=1,
    max_size=25,
)


def _live(fleet: Fleet, steps: list[tuple[object, ...]], assignors: tuple[str, ...]) -> None:
    for number, (kind, *details) in enumerate(steps):
        consumers = fleet.consumers
        if kind == "start":
            topics, instance_id = details
            if instance_id is None or all(consumer.instance_id != instance_id for consumer in consumers):
                consumers.append(ClassicConsumer(f"c{number}", topics, assignors, instance_id))
                fleet.act(consumers[-1])
        elif kind == "time":
            fleet.advance(details[0])
        elif kind == "reload":
            fleet.reload()
        elif consumers:
            consumer = consumers[details[0] % len(consumers)]
            if kind == "leave":
                fleet.leave(consumer)
            elif kind == "crash":
                consumers.remove(consumer)
            elif kind == "restart":
                fleet.leave(consumer)
                consumers.append(ClassicConsumer(f"c{number}", consumer.topics, assignors, consumer.instance_id))
                fleet.act(consumers[-1])
            else:
                fleet.act(consumer)


@pytest.mark.parametrize("assignors", [("range",), ("roundrobin", "range"), ("sticky",), ("cooperative-sticky",)])
@given(steps=STEPS, delay_ms=st.sampled_from([0, 3000]))
def test_a_group_comes_to_rest_and_every_partition_has_one_owner(
    assignors: tuple[str, ...], steps: list[tuple[object, ...]], delay_ms: int
) -> None:
    coordinator = Coordinator(Config({"group.initial.rebalance.delay.ms": delay_ms}), TOPICS, now_ms=1)
    fleet = Fleet(coordinator)
    _live(fleet, steps, assignors)
    fleet.settle()
    wanted = {topic for consumer in fleet.consumers for topic in consumer.topics}
    owned = [partition for consumer in fleet.consumers for partition in consumer.owned]
    assert sorted(owned) == sorted((t.name, n) for t in TOPICS if t.name in wanted for n in range(t.partitions))

    described = coordinator.describe("g")
    if not fleet.consumers:
        assert described is None or described.state == GroupState.EMPTY
        return
    assert described is not None
    assert described.state == GroupState.STABLE
    assert {member.member_id for member in described.members} == {consumer.member_id for consumer in fleet.consumers}
    assert {consumer.generation for consumer in fleet.consumers} == {described.epoch}


@given(steps=STEPS)
def test_the_log_replayed_is_the_groups_state(steps: list[tuple[object, ...]]) -> None:
    coordinator = Coordinator(Config({"group.initial.rebalance.delay.ms": 0}), TOPICS, now_ms=1)
    fleet = Fleet(coordinator)
    _live(fleet, steps, ("range",))
    replay = Replay("g")
    for record in fleet.records:
        replay.apply(record)
    replay.settle()
    assert replay.describe() == coordinator.describe("g")
