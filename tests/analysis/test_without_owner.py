"""A partition is without an owner while nobody owns it and members subscribe to its topic."""

import base64
import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from coordinator_replay.analysis.group_life import GroupReplay
from tests.engine.coordinator import TOPIC, Coordinator
from tests.engine.lives import GROUP, Writer

Times = list[tuple[int, int | None]] | None


def blob(topics: Iterable[str], partitions: Iterable[tuple[str, Sequence[int]]] | None = None) -> str:
    """A consumer's subscription, or with partitions its assignment, of version 0."""
    if partitions is None:
        names = list(topics)
        packed = b"".join(struct.pack(">h", len(name)) + name.encode() for name in names)
        return base64.b64encode(struct.pack(">hi", 0, len(names)) + packed + struct.pack(">i", -1)).decode()
    entries = [(name, numbers) for name, numbers in partitions if numbers]
    packed = b"".join(
        struct.pack(">h", len(name)) + name.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for name, numbers in entries
    )
    return base64.b64encode(struct.pack(">hi", 0, len(entries)) + packed + struct.pack(">i", -1)).decode()


class Classic:
    """A classic group whose generations are written one after the other."""

    def __init__(self) -> None:
        self.log = Writer()
        self.generation = 0

    def write(self, at_ms: int, **members: tuple[Sequence[str], dict[str, Sequence[int]]]) -> None:
        """Write a generation: by member, what it subscribes to and what it has."""
        self.log.now, self.generation = at_ms, self.generation + 1
        described = [
            {
                "memberId": name,
                "groupInstanceId": None,
                "clientId": name,
                "clientHost": "/10.0.0.1",
                "rebalanceTimeout": 300_000,
                "sessionTimeout": 45_000,
                "subscription": blob(topics),
                "assignment": blob((), assigned.items()),
            }
            for name, (topics, assigned) in members.items()
        ]
        value = {"protocolType": "consumer", "leader": next(iter(members), None), "members": described}
        value |= {"protocol": "range" if members else None, "generation": self.generation}
        self.log.write("GroupMetadata", {**value, "currentStateTimestamp": at_ms})


def missed(records: Sequence[Any], names: dict[str, str] | None = None, nights: int = 1) -> dict[str, list[Times]]:
    """When members missed partitions, by partition and in the order of the ownerships before."""
    life = GroupReplay("test", GROUP, names)
    rows = []
    for record in records:
        rows += life.feed(record)
        if nights > 1:
            life = GroupReplay.restore(json.loads(json.dumps(life.snapshot())), names)
    found: dict[str, list[Times]] = {}
    for name, row in [*rows, *life.finish()]:
        if name == "partition_ownership" and row["to_offset"] is not None:
            times = None if row["unowned"] is None else [(gap["since"], gap["until"]) for gap in row["unowned"]]
            found.setdefault(f"{row['topic']}-{row['partition']}", []).append(times)
    return found


def test_a_group_that_is_shut_down_misses_nothing_and_what_it_missed_before_counts():
    group = Classic()
    group.write(0, a=(["x"], {"x": [0]}), b=(["x"], {"x": [1]}))
    group.write(1000, b=(["x"], {"x": [1]}))
    group.write(1700)
    assert missed(group.log.records) == {"x-0": [[(1000, 1700)]], "x-1": [[]]}
    assert missed(group.log.records, nights=2) == missed(group.log.records)


def test_a_group_that_was_away_misses_its_partitions_only_while_it_has_members():
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.now = 100
    coordinator.leave("member-1")
    coordinator.log.now = 5_000
    coordinator.join(None, at_once=False)
    coordinator.log.now = 5_300
    coordinator.heartbeat("member-2")
    found = missed(coordinator.log.records, {TOPIC: "move"})
    assert found["move-0"] == [[(5_000, 5_300)]]
    assert missed(coordinator.log.records, {TOPIC: "move"}, nights=2) == found


def test_a_topic_that_no_member_subscribes_to_is_not_missed_until_one_does_again():
    group = Classic()
    both, one = ["x", "y"], ["x"]
    group.write(0, a=(both, {"x": [0], "y": [0, 1]}))
    group.write(1000, a=(both, {"x": [0], "y": [1]}))
    group.write(1400, a=(one, {"x": [0]}))
    group.write(9000, a=(both, {"x": [0]}))
    group.write(9300, a=(both, {"x": [0], "y": [0]}))
    found = missed(group.log.records)
    assert found == {"y-0": [[(1000, 1400), (9000, 9300)]], "y-1": [[(9000, None)]]}
    assert missed(group.log.records, nights=2) == found


def test_an_unreadable_subscription_may_be_to_any_topic():
    group = Classic()
    group.write(0, a=(["x"], {"x": [0]}), b=(["y"], {"y": [0]}))
    group.write(1000, a=(["x"], {}), b=(["y"], {"y": [0]}))
    group.write(2000, b=(["y"], {"y": [0]}))
    assert missed(group.log.records) == {"x-0": [[(1000, 2000)]]}
    last = group.log.records[-1]
    assert last.value is not None
    unreadable = [{**member, "subscriptionFields": None} for member in last.value["members"]]
    group.log.records[-1] = last._replace(value={**last.value, "members": unreadable})
    assert missed(group.log.records) == {"x-0": [[(1000, None)]]}


def subscribed_by(coordinator: Coordinator, expression: str) -> None:
    """Let members subscribe by an expression from the next one on."""
    original = coordinator._write_member

    def write(member_id: str) -> None:
        original(member_id)
        value = dict(coordinator.log.records.pop().value or {})
        value |= {"subscribedTopicNames": [], "subscribedTopicRegex": expression}
        coordinator.log.write("ConsumerGroupMemberMetadata", value, memberId=member_id)

    coordinator._write_member = write  # type: ignore[method-assign]


def resolve(coordinator: Coordinator, expression: str, *topics: str) -> None:
    value = {"topics": list(topics), "version": 1, "timestamp": coordinator.log.now}
    coordinator.log.write("ConsumerGroupRegularExpression", value, regularExpression=expression)


def test_an_expression_stands_for_the_topics_that_it_was_resolved_to():
    coordinator = Coordinator()
    subscribed_by(coordinator, "m.*")
    coordinator.join(None, at_once=True)
    resolve(coordinator, "m.*", "move")
    coordinator.log.now = 100
    coordinator.seats["member-1"].assigned = {0, 1, 2}
    coordinator._write_current("member-1")
    coordinator.log.now = 500
    resolve(coordinator, "m.*", "more")
    found = missed(coordinator.log.records, {TOPIC: "move"})
    assert found["move-5"] == [[(100, 500)]]
    assert missed(coordinator.log.records, {TOPIC: "move"}, nights=2) == found


def test_a_topic_without_a_name_is_missed_up_to_its_next_owner_and_else_nothing_is_known():
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.now = 100
    coordinator.seats["member-1"].assigned = {0, 1, 2}
    coordinator._write_current("member-1")
    coordinator.log.now = 300
    coordinator.seats["member-1"].assigned = {0, 1, 2, 3}
    coordinator._write_current("member-1")
    found = missed(coordinator.log.records)
    assert (found["None-3"], found["None-4"]) == ([[(100, 300)]], [None])
