"""Causes that may have begun the join phase of a classic group, although no record shows it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.topic_changes import DatedTopicChange
from tests.analysis.classic_log import ClassicLog, member
from tests.engine.lives import GROUP

Generation = Sequence[Mapping[str, Any]]

ANYTIME = ["LEADER_REJOIN", "MEMBER_JOIN"]


def last_rebalance(first: Generation, second: Generation, at_ms: int = 9_000, **context: Any) -> dict[str, Any]:
    """Return the rebalance from one generation, at 1 s, to another."""
    log = ClassicLog()
    log.sync(1_000, *first)
    log.sync(at_ms, *second)
    life = GroupReplay("test", GROUP, **context)
    rows = [*(row for record in log.records for row in life.feed(record)), *life.finish()]
    return [row for table, row in rows if table == "rebalances"][-1]


def static(member_id: str, assigned: Sequence[int], **more: Any) -> dict[str, Any]:
    return member(member_id, assigned, instance=member_id[0], **more)


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        ([member("a", [0]), member("b", [1])], [member("a", [0, 1])], "MEMBER_LEAVE"),
        ([member("a", [0])], [member("a", [0])], "LEADER_REJOIN"),
        ([member("a", [0])], [member("a", [0], topics=("orders", "bills"))], "SUBSCRIPTION_CHANGE"),
        ([member("a", [0])], [member("a", [0, 1])], "TOPIC_METADATA_CHANGE"),
        ([member("a", [0])], [member("a", [0]), member("b")], "MEMBER_JOIN"),
        ([static("a-1", [0])], [static("a-2", [0])], "MEMBER_RESTART"),
    ],
)
def test_a_leader_or_a_member_that_came_and_left_may_have_begun_any_join_phase(
    first: Generation, second: Generation, cause: str
) -> None:
    row = last_rebalance(first, second)
    assert row["cause"] == cause
    assert {cause, *row["alternatives"]} >= set(ANYTIME)
    assert row["confidence"] != "certain"


@pytest.mark.parametrize(
    ("first", "second", "is_named"),
    [
        ([member("a", [0])], [member("a", [0]), member("b", [1])], True),
        ([static("a-1", [0])], [static("a-1", [0]), member("b", [1])], True),
        ([member("a", [0])], [member("a", [0]), static("b-1", [1])], True),
        ([static("a-1", [0])], [static("a-1", [0]), static("b-1", [1])], False),
        ([member("a", [0])], [member("a", [0])], False),
    ],
)
def test_beside_a_member_that_joined_a_client_may_have_left_before_it_joined(
    first: Generation, second: Generation, is_named: bool
) -> None:
    """It had got its member id and no more (KIP-394); elsewhere MEMBER_JOIN stands for whoever came and left."""
    row = last_rebalance(first, second)
    assert ("MEMBER_LEAVE" in row["alternatives"]) is is_named
    assert "MEMBER_JOIN" in {row["cause"], *row["alternatives"]}


def test_it_makes_no_difference_who_joins_an_empty_group_first() -> None:
    log = ClassicLog()
    for at_ms, members in ((1_000, [member("a", [0])]), (5_000, []), (9_000, [member("b", [0])])):
        log.sync(at_ms, *members)
    life = GroupReplay("test", GROUP)
    fed = [*(row for record in log.records for row in life.feed(record)), *life.finish()]
    rows = [row for table, row in fed if table == "rebalances"]
    told = [(row["cause"], row["confidence"], row["alternatives"]) for row in rows]
    assert (told[0], told[-1]) == (("GROUP_CREATED", "certain", []), ("MEMBER_JOIN", "certain", []))


@pytest.mark.parametrize(
    ("session_ms", "rebalance_ms", "timeouts"),
    [
        (60_000, 300_000, []),
        (6_000, 300_000, ["SESSION_TIMEOUT"]),
        (60_000, 5_000, ["REBALANCE_TIMEOUT"]),
        (6_000, 5_000, ["SESSION_TIMEOUT", "REBALANCE_TIMEOUT"]),
    ],
)
def test_a_timeout_may_have_removed_a_static_member_that_is_back(
    session_ms: int, rebalance_ms: int, timeouts: list[str]
) -> None:
    """Whatever else happened in the phase: alone, beside another that is back, beside one that is removed."""
    limits = {"session_ms": session_ms, "rebalance_ms": rebalance_ms}
    old, new = static("s-1", [0], **limits), static("s-2", [0], **limits)
    others = member("a", [1], **limits), member("b", [2], **limits), member("b-2", [2], client="b", **limits)
    alone = last_rebalance([old, others[0]], [new, others[0]])
    assert (alone["cause"], alone["alternatives"]) == ("MEMBER_RESTART", [*ANYTIME, *timeouts])
    for after in (others[:1], [others[0], others[2]]):
        row = last_rebalance([old, *others[:2]], [new, *after])
        assert set(timeouts) <= {row["cause"], *row["alternatives"]}


@pytest.mark.parametrize("second", [[0, 1, 2], [0], []])
def test_partitions_that_came_or_went_while_a_member_joined_may_have_been_what_the_leader_saw(
    second: Sequence[int],
) -> None:
    row = last_rebalance([member("a", [0, 1])], [member("a", second), member("b")])
    assert row["cause"] == "MEMBER_JOIN"
    # A group may leave partitions out; a topic that nobody is assigned is gone.
    assert ("TOPIC_METADATA_CHANGE" in row["alternatives"]) is (second != [0])


def test_a_leader_that_saw_other_topics_may_have_left_since() -> None:
    row = last_rebalance([member("a", [0, 1])], [member("b", [0, 1, 2])])
    assert row["cause"] == "MEMBER_JOIN"
    assert "TOPIC_METADATA_CHANGE" in row["alternatives"]


@pytest.mark.parametrize(
    "second",
    [
        [member("a", [0], owned=[0]), member("b")],
        [member("a", [0], owned=[0], topics=("orders", "bills")), member("b", [1])],
        [member("a", [0, 1, 2], owned=[0])],
        [member("a", [0], owned=[0]), member("b", [1]), member("c")],
    ],
)
def test_a_follow_up_that_was_due_may_have_been_the_first(second: Generation) -> None:
    """Whatever else shows: nothing, another subscription, a removal with more partitions, a member that joined."""
    row = last_rebalance([member("a", [0], owned=[0, 1]), member("b")], second)
    assert "COOPERATIVE_FOLLOW_UP" in {row["cause"], *row["alternatives"]}
    none_due = last_rebalance([member("a", [0, 1], owned=[0, 1]), member("b")], second)
    assert "COOPERATIVE_FOLLOW_UP" not in {none_due["cause"], *none_due["alternatives"]}


def test_a_member_joins_again_for_partitions_that_another_one_has_got_already() -> None:
    """Both had claimed the same partitions, so the generation before gave each of them one."""
    before = [member("a", [0], owned=[0, 1]), member("b", [1], owned=[0, 1])]
    row = last_rebalance(before, [*before, member("c")])
    assert row["cause"] == "MEMBER_JOIN"
    assert "COOPERATIVE_FOLLOW_UP" in row["alternatives"]


def test_a_static_member_that_is_back_did_not_begin_what_another_ones_removal_may_have() -> None:
    before = [static("s-1", [0]), static("t-1", [1]), member("a", [2])]
    row = last_rebalance(before, [static("s-2", [0]), member("a", [1, 2])], 61_000)
    assert (row["cause"], row["confidence"]) == ("MEMBER_RESTART", "possible")
    assert {"SESSION_TIMEOUT", "MEMBER_LEAVE"} <= set(row["alternatives"])


def test_partitions_that_only_the_new_member_reads_are_nobodys_reason() -> None:
    row = last_rebalance([member("a", topics=("bills",))], [member("a", topics=("bills",)), member("b", [0, 1])])
    assert row["alternatives"] == ["LEADER_REJOIN", "MEMBER_LEAVE"]


@pytest.mark.parametrize(("changed_ms", "is_named"), [(500, False), (5_000, True), (9_500, False)])
def test_a_topic_that_changed_since_the_generation_before_may_be_the_reason(changed_ms: int, is_named: bool) -> None:
    """The leader may have seen it, although the assignment is the same: its topic was deleted and created again."""
    changes = {"orders": [DatedTopicChange(0, "created", 2), DatedTopicChange(changed_ms, "partitions_added", 3)]}
    before = [member("a", [0]), member("b", [1])]
    row = last_rebalance(before, [member("a", [0, 1])], topic_changes=changes)
    assert row["cause"] == "MEMBER_LEAVE"
    assert ("TOPIC_METADATA_CHANGE" in row["alternatives"]) is is_named


def test_topics_in_another_order_are_no_other_subscription() -> None:
    """Its client joined again, and nothing on record changed; so it is for any order, and beside another's change."""
    before = [member("a", [0], topics=("orders", "bills", "users"))]
    for topics in (("bills", "orders", "users"), ("users", "bills", "orders")):
        row = last_rebalance(before, [member("a", [0], topics=topics)])
        assert (row["cause"], row["trigger_members"]) == ("LEADER_REJOIN", ["a"])
        assert row["evidence"][0].startswith("members, topics, assignor and assignment are those of the generation")
    both = last_rebalance(
        [*before, member("b")], [member("a", [0], topics=("users", "orders", "bills")), member("b", topics=("users",))]
    )
    assert (both["cause"], both["trigger_members"]) == ("SUBSCRIPTION_CHANGE", ["b"])


def foreign(member_id: str, metadata: str, **more: Any) -> dict[str, Any]:
    """Return a member of Kafka Connect, the schema registry or anything else: nobody but its like reads its blobs."""
    opened = ("subscriptionFields", "assignmentFields")
    told = {name: value for name, value in member(member_id, **more).items() if name not in opened}
    return {**told, "subscription": metadata, "assignment": "AAAA"}


def test_metadata_that_nobody_can_read_may_be_another_subscription() -> None:
    """The same members: nothing says that their topics are the same; one that sent other metadata is named."""
    before = [foreign("a", "AA=="), foreign("b", "AA==")]
    same, changed = last_rebalance(before, before), last_rebalance(before, [before[0], foreign("b", "AQ==")])
    joined = last_rebalance(before, [before[0], foreign("b", "AQ=="), foreign("c", "AA==")])
    assert [row["cause"] for row in (same, changed, joined)] == ["LEADER_REJOIN", "LEADER_REJOIN", "MEMBER_JOIN"]
    assert ["SUBSCRIPTION_CHANGE" in row["alternatives"] for row in (same, changed, joined)] == [False, True, True]
    assert same["evidence"] == [
        "members and assignor are those of the generation before (__consumer_offsets-0, offset 2); "
        "an assignment can't be read"
    ]
    assert changed["evidence"][0].startswith(same["evidence"][0])
    assert (
        "member b (client b on 10.0.0.9) sent other metadata than before, which can't be read" in changed["evidence"][0]
    )
    assert [fact["members"] for fact in changed["facts"] if fact["kind"] == "OTHER_METADATA"] == [["b"]]
