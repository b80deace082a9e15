"""Lives of groups: whatever happens to their consumers, they come to rest, no partition has two owners, the log tells.

Groups of the classic protocol with each of the clients' assignors, of the new protocol, and of both mixed, where
members come and go and migrate, so that groups are converted both ways; dynamic and static members everywhere. What
Kafka itself does otherwise where it converts groups is in ``mixed_groups``.
"""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.model import GroupState, GroupType, Marker, Record, merged
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.records.blobs import read_assignment
from coordinator_replay.simulation.coordinator import Request, Response
from scripts.world.consumers import ModernConsumer
from tests.engine.described import describe
from tests.nightly import few_examples, many_examples
from tests.simulation.coordinator.watched_life import KINDS, Step, WatchedLife

CALM = (
    *("leave", "restart", "static_restart", "subscribe", "enforce", "unsubscribe", "roll", "assignor_roll"),
    *("upgrade", "downgrade", "transaction", "delete_offsets"),
)
"""What no consumer has to be told by a timeout or by somebody else."""
OTHERS = (
    *("crash", "crash_restart", "static_late", "hang", "hang_long", "sync_lost", "admin_remove", "admin_remove_static"),
    *("reload", "delete_group"),
)
SEEDS = st.integers(0, 2**16)


def steps_of(*names: str) -> st.SearchStrategy[list[Step]]:
    """Some events one after the other, every third of them the start of a consumer."""
    event = st.one_of(st.just("join"), st.sampled_from(names), st.sampled_from(names))
    return st.lists(st.tuples(event, st.sampled_from([0, 20, 500, 3000, 11_000, 40_000])), min_size=1, max_size=25)


CALM_STEPS, STEPS = steps_of(*CALM), steps_of(*CALM, *OTHERS)


def lived(kind: str, seed: int, steps: Iterable[Step]) -> WatchedLife:
    life = WatchedLife(kind, seed)
    for _ in life.do(steps):
        pass
    return life


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS, steps=STEPS)
def test_a_group_comes_to_rest_and_every_partition_has_one_owner(kind: str, seed: int, steps: list[Step]) -> None:
    life = lived(kind, seed, steps)
    life.settle()
    topics = {topic for consumer in life.on for topic in consumer.topics}
    wanted = {(topic, number) for topic in topics for number in range(life.partitions()[topic])}
    owned = [partition for consumer in life.on for partition in consumer.owned]
    assert len(owned) == len(set(owned))
    assert set(owned) <= wanted if life.conversions.is_unassigned else set(owned) == wanted
    described = describe(life.coordinator.replay(life.group))
    if not life.on:
        assert described is None or described.state == GroupState.EMPTY
        return
    assert described is not None
    assert described.state == GroupState.STABLE
    assert {member.member_id for member in described.members} == {consumer.member_id for consumer in life.on}
    has_modern = any(isinstance(consumer, ModernConsumer) for consumer in life.on)
    assert described.group_type == (GroupType.CONSUMER if has_modern else GroupType.CLASSIC)
    assert {consumer.generation for consumer in life.on} == {described.epoch}


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS, steps=CALM_STEPS)
def test_no_partition_ever_has_two_owners(kind: str, seed: int, steps: list[Step]) -> None:
    life = WatchedLife(kind, seed)
    for step in life.do(steps):
        assert not life.doubled, step


def test_two_owners_are_seen() -> None:
    """A consumer that was removed keeps its partitions until its next heartbeat."""
    assert lived("range", 2, [("join", 20_000), ("join", 20_000), ("admin_remove", 40_000)]).doubled


@pytest.mark.parametrize("kind", KINDS)
@few_examples
@given(seed=SEEDS, steps=STEPS, cut=st.integers(0, 200))
def test_the_log_replayed_from_any_prefix_on_is_the_groups_state(
    kind: str, seed: int, steps: list[Step], cut: int
) -> None:
    check_replay_from(lived(kind, seed, steps), cut)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@many_examples
@given(seed=SEEDS, steps=STEPS, cut=st.integers(0, 200))
def test_many_logs_replayed_from_any_prefix_on_are_the_groups_state(
    kind: str, seed: int, steps: list[Step], cut: int
) -> None:
    check_replay_from(lived(kind, seed, steps), cut)


def check_replay_from(life: WatchedLife, cut: int) -> None:
    prefix = cut % (len(life.written) + 1)
    first = StateReplay(life.group)
    _replay(first, life.written[:prefix])
    second = StateReplay.restore(json.loads(json.dumps(first.snapshot())))
    _replay(second, life.written[prefix:])
    second.finish()
    assert describe(second) == describe(life.coordinator.replay(life.group))
    assert second.offsets.stored == life.coordinator.replay(life.group).offsets.stored


def _replay(replay: StateReplay, written: Iterable[Record | Marker]) -> None:
    for one in written:
        if isinstance(one, Marker):
            replay.apply_marker(one)
        else:
            replay.apply(one)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS, steps=STEPS)
def test_what_a_group_is_described_as_is_what_its_records_say(kind: str, seed: int, steps: list[Step]) -> None:
    life = WatchedLife(kind, seed)
    for _ in life.do(steps):
        described = describe(life.coordinator.replay(life.group))
        if described is None:
            continue
        is_classic = described.group_type == GroupType.CLASSIC
        answered = _describe(life, is_classic=is_classic)
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


def _describe(life: WatchedLife, *, is_classic: bool) -> dict[str, Any]:
    coordinator = life.coordinator
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
