"""The assignors on the broker, against Kafka's own: every heartbeat of these scripts has targets computed anew."""

import json
import random
from base64 import urlsafe_b64encode
from hashlib import md5
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.model import Assignment
from coordinator_replay.simulation.coordinator.assignor.server import (
    ASSIGNORS,
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
)
from coordinator_replay.simulation.coordinator.topics import Topic
from tests.nightly import rest_at_night
from tests.simulation.coordinator import oracle
from tests.simulation.coordinator.recorded_scripts import first_difference, run

STEPS = 125
TOPICS = ["orders", "payments", "refunds", "invoices", "parcels", "returns"]
KINDS = {"uniform-equal": 17, "uniform-different": 11, "range-equal": 17, "range-different": 11}
"""Assignor and subscriptions, and how many groups' lives it takes until a thousand targets are computed."""


def script(kind: str, groups: int) -> list[str]:
    """The lives of some groups, one after the other, with topics of their own."""
    assignor, _, _ = kind.partition("-")
    config = {"group.consumer.assignment.interval.ms": 0, "group.consumer.assignors": [assignor]}
    lives = [line for number in range(groups) for line in life(kind, f"g{number}")]
    return [json.dumps(line) for line in [{"config": config}, *lives]]


def life(kind: str, group: str) -> list[dict[str, Any]]:
    """Members of a group that join, subscribe to something else, and leave, while topics grow, come and go."""
    source = random.Random(f"{kind} {group}")
    sizes = {name: source.randint(1, 40) for name in TOPICS[:3]}
    ids = {name: number for number, name in enumerate(TOPICS, source.randrange(1_000_000))}
    lines: list[dict[str, Any]] = [{"topics": topics(sizes, ids)}]
    members: dict[str, str | None] = {}
    common = source.sample(TOPICS[:4], 2)
    while len(lines) < STEPS:
        chance = source.random()
        if chance < 0.06:
            name = source.choice(TOPICS)
            sizes[name] = sizes.get(name, 0) + source.randint(1, 12)
            lines.append({"topics": topics(sizes, ids)})
        elif chance < 0.08 and len(sizes) > 1:
            del sizes[name := source.choice(list(sizes))]
            ids[name] += 100
            lines.append({"topics": topics(sizes, ids)})
        elif chance < 0.2 and members:
            member = source.choice(list(members))
            lines.append(heartbeat(group, member, -1, members.pop(member)))
        else:
            if chance < 0.25 or not members:
                common = source.sample(TOPICS[:4], source.randint(1, 3))
            member = f"member-{source.randint(1, 14)}"
            is_static = member not in members and source.random() < 0.2
            instance = members.setdefault(member, f"instance-{member}" if is_static else None)
            names = common if kind.endswith("equal") else source.sample(TOPICS, source.randint(1, 4))
            rack = source.choice(["a", "b", "c", None])
            # A static member that is there can't join again, but it may be spoken to as a dynamic one.
            lines.append(heartbeat(group, member, 0, instance if is_static else None, names, rack))
    return lines


def topics(sizes: dict[str, int], ids: dict[str, int]) -> list[dict[str, Any]]:
    racks = ["a", "b", "c"]
    return [
        {
            "name": name,
            "id": topic_id(ids[name]),
            "partitions": size,
            "racks": [[racks[one % 3], racks[(one + 1) % 3]] for one in range(size)],
        }
        for name, size in sizes.items()
    ]


def topic_id(number: int) -> str:
    """Ids far apart, so that Java's hash tables order them in many ways."""
    return urlsafe_b64encode(md5(str(number).encode(), usedforsecurity=False).digest()).decode().rstrip("=")


def heartbeat(
    group: str, member: str, epoch: int, instance: str | None, names: list[str] | None = None, rack: str | None = None
) -> dict[str, Any]:
    body: dict[str, Any] = {"memberId": member, "memberEpoch": epoch, "instanceId": instance}
    if names is not None:
        body |= {"rebalanceTimeoutMs": 60000, "topicPartitions": [], "subscribedTopicNames": names, "rackId": rack}
    return {"request": "ConsumerGroupHeartbeat", "group": group, "body": body}


def check(kind: str, groups: int, at_least: int) -> None:
    """Compare the lives of some groups, in which so many targets are computed."""
    lines = script(kind, groups)
    kafka = oracle.run([json.loads(line) for line in lines])
    computed = sum(
        record["kind"] == "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA"
        for answer in kafka
        for event in answer["out"]
        for record in event.get("records", ())
    )
    assert computed >= at_least
    difference = first_difference(lines, kafka, run(lines))
    assert difference is None, f"{kind}: {difference}"


@pytest.mark.kafka
@pytest.mark.parametrize("kind", rest_at_night(KINDS, ["uniform-different", "range-equal"]))
def test_a_hundred_targets_of_each_kind_are_kafkas(kind: str) -> None:
    check(kind, 2, at_least=100)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_targets_of_each_kind_are_kafkas(kind: str) -> None:
    check(kind, KINDS[kind], at_least=1000)


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    known = {topic_id(number): Topic(f"topic-{number}", topic_id(number), size) for number, size in enumerate(sizes)}
    homogeneous = draw(st.booleans())
    subscriptions = st.sets(st.sampled_from(sorted(known)), min_size=1)
    common = draw(subscriptions)
    free = [(one, partition) for one in known for partition in range(known[one].partitions)]
    holders = draw(st.lists(st.integers(-1, 6), min_size=len(free), max_size=len(free)))
    members = {}
    for number in range(draw(st.integers(1, 7))):
        ids = tuple(sorted(common if homogeneous else draw(subscriptions)))
        target: dict[str, tuple[int, ...]] = {}
        for (one, partition), holder in zip(free, holders, strict=True):
            if holder == number:
                target[one] = (*target.get(one, ()), partition)
        members[f"member-{number}"] = MemberSpec(None, ids, len(ids), target)
    assigned = {(one, each) for member in members.values() for one in member.target for each in member.target[one]}
    return GroupSpec(members, homogeneous, known, assigned)


@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_with_a_subscriber_has_one_owner_that_subscribes(group: GroupSpec, name: str) -> None:
    owners = owners_of(ASSIGNORS[name](group))
    wanted = {
        (one, partition)
        for member in group.members.values()
        for one in member.topic_ids
        for partition in range(group.topics[one].partitions)
    }
    assert owners.keys() == wanted
    for (one, _), member_ids in owners.items():
        assert len(member_ids) == 1
        assert one in group.members[member_ids[0]].topic_ids


@given(groups())
def test_uniform_is_balanced_and_keeps_what_it_may(group: GroupSpec) -> None:
    if not group.is_homogeneous:
        return
    assignment = ASSIGNORS["uniform"](group)
    loads = [sum(map(len, assignment.get(member_id, {}).values())) for member_id in group.members]
    assert max(loads) - min(loads) <= 1
    again = GroupSpec(
        {one: member._replace(target=assignment.get(one, {})) for one, member in group.members.items()},
        True,
        group.topics,
        owners_of(assignment).keys(),
    )
    assert ASSIGNORS["uniform"](again) == assignment


def test_a_target_of_partitions_that_do_not_exist_is_an_error() -> None:
    topic = Topic("orders", topic_id(1), 1)
    member = MemberSpec(None, (topic.topic_id,), 1, {topic.topic_id: (0, 1)})
    group = GroupSpec({"a": member}, False, {topic.topic_id: topic}, set())
    with pytest.raises(PartitionAssignorError, match="fewer partitions"):
        ASSIGNORS["uniform"](group)


def owners_of(assignment: dict[str, Assignment]) -> dict[tuple[str, int], list[str]]:
    owners: dict[tuple[str, int], list[str]] = {}
    for member_id, topics_of_member in assignment.items():
        for one, partitions in topics_of_member.items():
            for partition in partitions:
                owners.setdefault((one, partition), []).append(member_id)
    return owners
