"""Rules over what members subscribe to: for each a life that raises it, and near misses that do not."""

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from coordinator_replay.analysis.findings.thresholds import DEFAULTS
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.topic_changes import DatedTopicChange, TopicChanges
from coordinator_replay.engine.model import Record
from tests.analysis.findings.evaluated import FindingRow, life_findings
from tests.engine.coordinator import TOPIC, Coordinator
from tests.engine.lives import GROUP, Writer

LONG = DEFAULTS.unowned_ms
HOUR = DEFAULTS.disjoint_ms


class Seat(NamedTuple):
    """A classic member: what it subscribes to, and what it has; None for 0 bytes."""

    topics: Sequence[str]
    owned: Mapping[str, Sequence[int]] | None = None
    instance: str | None = None
    client: str | None = None


def text(name: str) -> bytes:
    return struct.pack(">h", len(name)) + name.encode()


def subscription(topics: Sequence[str]) -> str:
    return base64.b64encode(struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + b"\xff" * 4).decode()


def assignment(owned: Mapping[str, Sequence[int]] | None) -> str:
    if owned is None:
        return ""
    entries = b"".join(
        text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in owned.items()
    )
    return base64.b64encode(struct.pack(">hi", 0, len(owned)) + entries + b"\xff" * 4).decode()


class Classic:
    """A classic group, record by record."""

    def __init__(self, protocol_type: str = "consumer") -> None:
        self.log = Writer()
        self.generation = 0
        self.protocol_type = protocol_type

    def write(self, at_ms: int, *, is_new: bool = True, **members: Seat) -> None:
        """Write the group with these members, in its next generation or once more in the same."""
        self.log.now = at_ms
        self.generation += is_new
        described = [
            {
                "memberId": name,
                "groupInstanceId": seat.instance,
                "clientId": seat.client or name,
                "clientHost": "/10.0.0.1",
                "rebalanceTimeout": 300_000,
                "sessionTimeout": 45_000,
                "subscription": subscription(seat.topics),
                "assignment": assignment(seat.owned),
            }
            for name, seat in members.items()
        ]
        value = {"protocolType": self.protocol_type, "leader": next(iter(members), None), "members": described}
        value |= {"protocol": "range" if members else None, "generation": self.generation}
        self.log.write("GroupMetadata", {**value, "currentStateTimestamp": at_ms})


def found(group: Classic | Coordinator, rule: str, end_ms: int, **known: Any) -> list[FindingRow]:
    return [row for row in life_findings(group.log.records, end_ms=end_ms, **known) if row["rule"] == rule]


def by_nights(records: Iterable[Record], changes: TopicChanges) -> list[dict[str, Any]]:
    """Observations of a group whose state goes through a snapshot after each record, with its end looked at."""
    life = GroupReplay("test", GROUP, None, changes)
    rows: list[Any] = []
    ends: list[Any] = []
    for record in records:
        rows += life.feed(record)
        plain = json.loads(json.dumps(life.snapshot()))
        ends = life.finish()
        life = GroupReplay.restore(plain, None, changes)
    return [row for name, row in [*rows, *ends] if name == "group_evidence" and row["name"]]


def in_one_run(records: Iterable[Record], changes: TopicChanges) -> list[dict[str, Any]]:
    life = GroupReplay("test", GROUP, None, changes)
    rows = [row for record in records for row in life.feed(record)] + life.finish()
    return [row for name, row in rows if name == "group_evidence" and row["name"]]


# --- topic_unowned ----------------------------------------------------------------------------------------------------


def resubscribed() -> Classic:
    """A static member comes back to a Stable group with another topic; the generation stays."""
    group = Classic()
    group.write(0, w1=Seat(["x"], {"x": [0]}, "w1"), w2=Seat(["x"], {"x": [1]}, "w2"))
    group.write(1000, is_new=False, w1=Seat(["x"], {"x": [0]}, "w1"), w3=Seat(["x", "y"], {"x": [1]}, "w2"))
    return group


def test_a_topic_that_a_member_subscribes_to_and_nobody_owns_is_told_once_it_has_lasted():
    (row,) = found(resubscribed(), "topic_unowned", 1000 + LONG)
    assert (row["topic"], row["first_seen"], row["severity"]) == ("y", 1000, "warning")
    assert "owned a partition of y since 1970-01-01T00:00:01.000Z, though w2 subscribed to it" in row["message"]
    assert "possibly KAFKA-12759" in row["message"]
    assert found(resubscribed(), "topic_unowned", 999 + LONG) == []


def test_a_topic_that_gets_an_owner_was_without_one_until_then():
    group = resubscribed()
    seats = {"w1": Seat(["x"], {"x": [0, 1]}, "w1"), "w3": Seat(["x", "y"], {"y": [0]}, "w2")}
    group.write(1000 + LONG, **seats)
    (row,) = found(group, "topic_unowned", 10 * LONG)
    assert (row["first_seen"], row["last_seen"]) == (1000, 1000 + LONG)


def test_a_topic_whose_only_partition_lost_its_owner_is_told():
    group = Classic()
    group.write(0, a=Seat(["x", "y"], {"x": [0], "y": [0]}))
    group.write(5, a=Seat(["x", "y"], {"x": [0]}))
    (row,) = found(group, "topic_unowned", 5 + LONG)
    assert (row["topic"], row["first_seen"]) == ("y", 5)
    assert "KAFKA" not in row["message"]


def test_a_topic_that_does_not_exist_by_the_cluster_metadata_is_not_missed():
    created = {"y": [DatedTopicChange(500_000_000, "created", 3)]}
    removed = {"y": [DatedTopicChange(-5, "created", 3), DatedTopicChange(700, "removed", 0)]}
    exists = {"y": [DatedTopicChange(-5, "created", 3)]}
    for changes, count in ((created, 0), (removed, 0), (exists, 1)):
        assert len(found(resubscribed(), "topic_unowned", 10 * LONG, changes=changes)) == count


@pytest.mark.parametrize("case", ["unreadable", "connect", "no topics"])
def test_topics_that_are_not_known_are_not_missed(case: str):
    group = Classic("connect" if case == "connect" else "consumer")
    group.write(0, a=Seat(["x"], {"x": [0]}), b=Seat(["x", "y"] if case == "unreadable" else [], {}))
    records = group.log.records
    if case == "unreadable":
        members = [dict(member) for member in records[0].value["members"]]
        members[1] |= {"assignment": "AAAA", "assignmentFields": None}
        records[0] = records[0]._replace(value={**records[0].value, "members": members})
    assert found(group, "topic_unowned", 10 * LONG) == []


def test_a_topic_is_not_missed_between_the_two_steps_of_a_cooperative_rebalance_nor_in_an_empty_group():
    group = Classic()
    group.write(0, a=Seat(["y"], {"y": [0]}))
    group.write(5, a=Seat(["y"], {}), b=Seat(["y"], {}))
    group.write(1000, a=Seat(["y"], {}), b=Seat(["y"], {"y": [0]}))
    group.write(2000)
    assert found(group, "topic_unowned", 10 * LONG) == []


def test_a_topic_of_a_consumer_group_whose_ids_have_no_names_is_not_told():
    coordinator = Coordinator()
    member = coordinator.join(None, at_once=True)
    coordinator.heartbeat(member)
    coordinator.acknowledge(member)
    assert found(coordinator, "topic_unowned", 10 * LONG) == []
    assert found(coordinator, "topic_unowned", 10 * LONG, names={TOPIC: "move"}) == []
    (row,) = found(coordinator, "topic_unowned", 10 * LONG, names={TOPIC: "other"})
    assert row["topic"] == "move"


# --- partition_never_owned --------------------------------------------------------------------------------------------

GROWN = {"x": [DatedTopicChange(-100, "created", 2), DatedTopicChange(5000, "partitions_added", 4)]}


def two_members() -> Classic:
    group = Classic()
    group.write(0, w1=Seat(["x"], {"x": [0]}, "w1"), w2=Seat(["x"], {"x": [1]}, "w2"))
    return group


def test_partitions_that_nobody_has_owned_since_the_topic_got_them_are_told():
    (row,) = found(two_members(), "partition_never_owned", 5000 + LONG, changes=GROWN)
    assert (row["topic"], row["partition"], row["first_seen"], row["severity"]) == ("x", None, 5000, "error")
    assert (
        "has owned 2 partitions of x (2, 3) since 1970-01-01T00:00:05.000Z, when the topic got them" in row["message"]
    )
    assert found(two_members(), "partition_never_owned", 4999 + LONG, changes=GROWN) == []
    assert found(two_members(), "partition_never_owned", 5000 + LONG) == []


def test_a_rebalance_that_leaves_new_partitions_out_goes_on_with_the_same_finding():
    group = two_members()
    (before,) = found(group, "partition_never_owned", 5000 + LONG, changes=GROWN)
    group.write(9000, w1=Seat(["x"], {"x": [1]}, "w1"), w2=Seat(["x"], {"x": [0]}, "w2"))
    (after,) = found(group, "partition_never_owned", 5000 + LONG, changes=GROWN)
    assert after["finding_id"] == before["finding_id"]
    assert after["first_seen"] == 5000
    group.write(5000 + LONG, w1=Seat(["x"], {"x": [1, 2]}, "w1"), w2=Seat(["x"], {"x": [0, 3]}, "w2"))
    (ended,) = found(group, "partition_never_owned", 10 * LONG, changes=GROWN)
    assert ended["finding_id"] == before["finding_id"]
    assert ended["last_seen"] == 5000 + LONG


def test_new_partitions_that_the_next_rebalance_assigns_are_left_to_late_topic_change():
    group = two_members()
    group.write(5000 + LONG, w1=Seat(["x"], {"x": [0, 2]}, "w1"), w2=Seat(["x"], {"x": [1, 3]}, "w2"))
    assert found(group, "partition_never_owned", 10 * LONG, changes=GROWN) == []


def test_a_group_that_leaves_a_partition_out_from_its_beginning_is_told_since_then():
    group = Classic()
    group.write(7000, a=Seat(["x"], {"x": [0, 1, 3]}))
    (row,) = found(group, "partition_never_owned", 7000 + LONG, changes=GROWN)
    assert (row["partition"], row["first_seen"]) == (2, 7000)
    assert "when the topic got them" not in row["message"]


def test_partitions_that_had_an_owner_and_those_of_an_earlier_topic_of_the_name_are_not_told():
    group = Classic()
    group.write(0, a=Seat(["x"], {"x": [0, 1]}))
    group.write(50, a=Seat(["x"], {"x": [0]}))
    changes = {"x": [DatedTopicChange(-100, "created", 2)]}
    assert found(group, "partition_never_owned", 10 * LONG, changes=changes) == []
    again = {"x": [DatedTopicChange(-9, "created", 8), *(DatedTopicChange(-5, w, n) for w, n in ENDED)]}
    assert found(group, "partition_never_owned", 10 * LONG, changes=again) == []


ENDED = (("removed", 0), ("created", 2))


def test_partitions_of_a_group_older_than_its_records_are_told_only_if_the_topic_got_them_later():
    group = Classic()
    group.generation = 5
    group.write(9000, a=Seat(["x"], {"x": [0, 1]}))
    group.log.records = [record._replace(offset=7, missing_before=7) for record in group.log.records]
    assert found(group, "partition_never_owned", 10 * LONG, changes=GROWN) == []
    (row,) = found(group, "partition_never_owned", 10 * LONG, changes={"x": [*GROWN["x"], grown_at(9001, to=6)]})
    assert "has owned 2 partitions of x (4, 5) since 1970-01-01T00:00:09.001Z, when the topic" in row["message"]


def test_partitions_that_may_have_had_an_owner_while_records_are_missing_are_not_told():
    before = Classic()
    before.write(6000, a=Seat(["x"], {"x": [0, 1]}))
    after = Classic()
    after.generation = 5
    after.write(9000, a=Seat(["x"], {"x": [0, 1]}))
    (record,) = [record._replace(offset=9, missing_before=8) for record in after.log.records]
    for at_ms, count in ((5000, 0), (8999, 0), (9001, 1)):
        changes = {"x": [DatedTopicChange(-100, "created", 2), grown_at(at_ms, to=4)]}
        life = GroupReplay("test", GROUP, None, changes)
        rows = [*life.feed(before.log.records[0]), *life.lose_track(0, 1, 6500), *life.feed(record), *life.finish()]
        told = [row for name, row in rows if name == "group_evidence" and "partition_never_owned" in row["detail"]]
        assert len(told) == count, at_ms


def grown_at(at_ms: int, *, to: int) -> DatedTopicChange:
    return DatedTopicChange(at_ms, "partitions_added", to)


def test_nights_find_the_same_as_one_run():
    group = two_members()
    group.write(9000, w1=Seat(["x"], {"x": [1]}, "w1"), w2=Seat(["x"], None, "w2"))
    group.write(20_000, is_new=False, w1=Seat(["x", "z"], {"x": [1]}, "w1"), w2=Seat(["q"], None, "w2"))
    group.write(LONG, w1=Seat(["x"], {"x": [1, 2]}, "w1"), w2=Seat(["x"], {"x": [0, 3]}, "w2"))
    group.write(3 * LONG, w1=Seat(["x"], {"x": [1, 2]}, "w1"))
    assert by_nights(group.log.records, GROWN) == in_one_run(group.log.records, GROWN)


# --- empty_assignment -------------------------------------------------------------------------------------------------


def test_a_member_with_an_assignment_of_no_bytes_is_told_and_one_that_is_meant_to_have_nothing_is_not():
    group = Classic()
    group.write(0, a=Seat(["x"], {"x": [0]}), b=Seat(["x"]), c=Seat(["x"], {}))
    (row,) = found(group, "empty_assignment", LONG)
    assert (row["member_id"], row["severity"], row["first_seen"]) == ("b", "warning", 0)
    assert "had an assignment of 0 bytes since 1970-01-01T00:00:00.000Z: the leader's SyncGroup named" in row["message"]
    assert "KAFKA" not in row["message"]
    assert found(group, "empty_assignment", LONG - 1) == []


def test_a_static_member_that_was_replaced_before_may_have_come_back_too_early():
    group = Classic()
    group.write(0, a=Seat(["x"], {"x": [0]}, "a"), b=Seat(["x"], {"x": [1]}, "b"))
    group.write(5, a=Seat(["x"], {"x": [0]}, "a"), c=Seat(["x"], None, "b"))
    (row,) = found(group, "empty_assignment", 5 + LONG)
    assert "possibly KAFKA-9801" in row["message"]
    (unowned,) = found(group, "partition_unowned", 5 + LONG)
    assert unowned["message"].endswith("; c had an assignment of 0 bytes at the last change")


def test_members_without_assignments_since_the_same_step_are_one_finding_until_they_get_one():
    group = Classic()
    idle = {f"idle-{number}": Seat(["x"], client="idle") for number in range(30)}
    group.write(0, a=Seat(["x"], {"x": [0]}), **idle)
    group.write(10, a=Seat(["x"], {"x": [0]}), b=Seat(["x"]), **idle)
    rows = found(group, "empty_assignment", 10 + LONG)
    assert {row["first_seen"]: row["member_id"] for row in rows} == {0: None, 10: "b"}
    assert any("30 members of idle have had" in row["message"] for row in rows)
    group.write(20 + LONG, a=Seat(["x"], {"x": [0]}), b=Seat(["x"], {}))
    rows = found(group, "empty_assignment", 10 * LONG)
    assert {row["last_seen"] for row in rows} == {20 + LONG}


def test_consumer_groups_have_no_assignments_of_bytes():
    coordinator = Coordinator()
    for _ in range(8):
        coordinator.join(None, at_once=True)
    for member_id in (*coordinator.seats, *coordinator.seats):
        coordinator.heartbeat(member_id)
        coordinator.acknowledge(member_id)
    assert found(coordinator, "empty_assignment", 10 * LONG) == []


# --- disjoint_subscriptions -------------------------------------------------------------------------------------------


def test_members_without_a_topic_in_common_are_told_once_it_has_lasted():
    group = Classic()
    group.write(0, a=Seat(["x", "z"], {"x": [0]}), b=Seat(["y"], {"y": [0]}), c=Seat(["z"], {}))
    (row,) = found(group, "disjoint_subscriptions", HOUR)
    assert (row["first_seen"], row["severity"]) == (0, "info")
    assert "2 members of a, c subscribed to x, z; 1 member of b subscribed to y" in row["message"]
    assert found(group, "disjoint_subscriptions", HOUR - 1) == []


@pytest.mark.parametrize(
    "members",
    [
        {"a": Seat(["x", "y"], {}), "b": Seat(["x"], {}), "c": Seat(["y"], {})},
        {"a": Seat(["x"], {}), "b": Seat([], {})},
        {"a": Seat(["x"], {}), "b": Seat(["x"], {})},
        {"a": Seat(["x"], {})},
    ],
)
def test_members_that_share_topics_by_way_of_others_are_one_part(members: dict[str, Seat]):
    group = Classic()
    group.write(0, **members)
    assert found(group, "disjoint_subscriptions", 10 * HOUR) == []


def test_a_deploy_that_changes_the_topic_member_by_member_is_not_told():
    group = Classic()
    group.write(0, a=Seat(["x"], {}), b=Seat(["x"], {}))
    group.write(1000, a=Seat(["y"], {}), b=Seat(["x"], {}))
    group.write(9000, a=Seat(["y"], {}), b=Seat(["y"], {}))
    assert found(group, "disjoint_subscriptions", 10 * HOUR) == []


def test_parts_that_no_longer_are_were_there_until_then_and_topics_not_on_record_may_be_any():
    group = Classic()
    group.write(0, a=Seat(["x"], {}), b=Seat(["y"], {}))
    group.write(HOUR, a=Seat(["x"], {}))
    (row,) = found(group, "disjoint_subscriptions", 10 * HOUR)
    assert (row["first_seen"], row["last_seen"]) == (0, HOUR)
    connect = Classic("connect")
    connect.write(0, a=Seat(["x"], {}), b=Seat(["y"], {}))
    assert found(connect, "disjoint_subscriptions", 10 * HOUR) == []


def member(coordinator: Coordinator, topics: Sequence[str], regex: str) -> str:
    """A member of a consumer group that subscribes to these."""
    member_id = coordinator.join(None, at_once=True)
    for place, record in enumerate(coordinator.log.records):
        if record.kind == "ConsumerGroupMemberMetadata" and record.key["memberId"] == member_id:
            asked = {"subscribedTopicNames": list(topics), "subscribedTopicRegex": regex}
            coordinator.log.records[place] = record._replace(value={**record.value, **asked})
    return member_id


def test_regular_expressions_count_with_the_topics_that_they_stand_for():
    for resolved, count in ((None, 0), (["y"], 1), (["x", "y"], 0)):
        coordinator = Coordinator()
        member(coordinator, ["x"], "")
        member(coordinator, [], "y.*")
        if resolved is not None:
            value = {"topics": resolved, "version": 1, "timestamp": 0}
            coordinator.log.write("ConsumerGroupRegularExpression", value, regularExpression="y.*")
        assert len(found(coordinator, "disjoint_subscriptions", 10 * HOUR)) == count
