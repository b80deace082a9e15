"""The classic group driven by hand, as the broker's own object can be, and loaded from records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine import ClassicGroup, EventKind, GroupState, Member, Record, StateReplay
from coordinator_replay.engine.classic_group import (
    LEGAL_PREDECESSORS,
    TRANSITIONS,
    WRITTEN_TRANSITIONS,
    IllegalTransitionError,
    MemberRefusedError,
)
from coordinator_replay.engine.model import Protocol, Subscription
from tests.engine.lives import GROUP, Writer

CLASSIC_STATES = sorted(LEGAL_PREDECESSORS)
PATHS = {
    GroupState.EMPTY: [],
    GroupState.PREPARING_REBALANCE: [GroupState.PREPARING_REBALANCE],
    GroupState.COMPLETING_REBALANCE: [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE],
    GroupState.STABLE: [
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ],
    GroupState.DEAD: [GroupState.DEAD],
}


def member(
    member_id: str, *protocols: str, instance_id: str | None = None, rebalance_timeout_ms: int = 1000, topics: str = ""
) -> Member:
    fields = {"topics": topics.split(), "version": 1} if topics else None
    return Member(
        member_id,
        Subscription(
            instance_id=instance_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocols=tuple(Protocol(name, "", fields) for name in protocols),
        ),
    )


def group_in(state: GroupState) -> ClassicGroup:
    group = ClassicGroup("orders")
    for step in PATHS[state]:
        group.transition_to(step, 1)
    return group


def group_of(*members: Member) -> ClassicGroup:
    group = ClassicGroup("orders")
    for one in members:
        group.add(one, protocol_type="consumer")
    return group


@pytest.mark.parametrize("after", CLASSIC_STATES)
@pytest.mark.parametrize("before", CLASSIC_STATES)
def test_exactly_the_transitions_of_the_table_are_possible(before: GroupState, after: GroupState) -> None:
    group = group_in(before)
    if (before, after) in TRANSITIONS:
        group.transition_to(after, 42)
        assert (group.state, group.state_timestamp_ms) == (after, 42)
    else:
        stamp = group.state_timestamp_ms
        with pytest.raises(IllegalTransitionError, match=f"can't go from {before} to {after}"):
            group.transition_to(after, 42)
        assert (group.state, group.state_timestamp_ms) == (before, stamp)


@pytest.mark.parametrize(
    ("state", "can"),
    [
        (GroupState.EMPTY, True),
        (GroupState.STABLE, True),
        (GroupState.COMPLETING_REBALANCE, True),
        (GroupState.PREPARING_REBALANCE, False),
        (GroupState.DEAD, False),
    ],
)
def test_a_rebalance_can_begin_in_three_states(state: GroupState, can: bool) -> None:
    assert group_in(state).can_rebalance() is can


def test_states_of_other_group_types_are_refused() -> None:
    with pytest.raises(IllegalTransitionError):
        ClassicGroup("orders").transition_to(GroupState.RECONCILING, 1)


def test_the_first_member_leads_and_gives_the_protocol_type() -> None:
    group = group_of(member("a", "range"), member("b", "range"))
    assert (group.leader, group.protocol_type) == ("a", "consumer")


@pytest.mark.parametrize(
    ("one", "protocol_type", "group_id", "why"),
    [
        (member("b", "range"), "connect", None, "connect"),
        (member("b", "sticky"), "consumer", None, "sticky"),
        (member("b"), "consumer", None, "offers"),
        (member("a", "range"), "consumer", None, "already"),
        (member("b", "range", instance_id="one"), "consumer", None, "taken"),
        (member("b", "range"), "consumer", "payments", "payments"),
    ],
)
def test_a_member_that_does_not_fit_is_refused_and_nothing_changes(
    one: Member, protocol_type: str, group_id: str | None, why: str
) -> None:
    group = group_of(member("a", "range", "roundrobin", instance_id="one"))
    votes = dict(group.votes)
    with pytest.raises(MemberRefusedError, match=why):
        group.add(one, protocol_type=protocol_type, group_id=group_id)
    assert (list(group.members), group.votes, group.leader) == (["a"], votes, "a")


def test_the_first_of_a_members_protocols_that_all_support_gets_its_vote() -> None:
    group = group_of(member("1", "B", "A"), member("2", "A", "B", "C"), member("3", "D", "B", "A"))
    assert group.candidate_protocols() == {"A", "B"}
    assert [group.vote(one, group.candidate_protocols()) for one in group.members.values()] == ["B", "A", "B"]
    assert group.select_protocol() == "B"


def test_choosing_a_protocol_for_nobody_is_an_error() -> None:
    with pytest.raises(MemberRefusedError):
        ClassicGroup("orders").select_protocol()


@given(st.lists(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=4, unique=True), min_size=1, max_size=6))
def test_votes_are_what_the_members_support_however_they_come_and_go(offers: list[list[str]]) -> None:
    group = ClassicGroup("orders")
    for index, offer in enumerate(offers):
        one = member(str(index), *offer)
        if group.supports("consumer", offer):
            group.add(one, protocol_type="consumer")
        if index % 3 == 2 and group.members:
            group.remove(next(iter(group.members)))
    counted: dict[str, int] = {}
    for one in group.members.values():
        assert one.subscription is not None
        for protocol in one.subscription.protocols:
            counted[protocol.name] = counted.get(protocol.name, 0) + 1
    assert group.votes == counted
    if group.members:
        assert group.select_protocol() in group.candidate_protocols()
        assert group.leader in group.members
    else:
        assert group.leader is None


def test_another_member_leads_when_the_leader_goes_and_nobody_when_all_are_gone() -> None:
    group = group_of(member("a", "range"), member("b", "range"))
    assert group.remove("a") is not None
    assert group.leader == "b"
    group.remove("b")
    assert (group.leader, group.votes) == (None, {})
    assert group.remove("b") is None


def test_a_static_member_under_a_new_id_keeps_place_and_leadership() -> None:
    group = group_of(member("a", "range", instance_id="one"), member("b", "range"))
    new = group.replace_static_member("one", "a", "c")
    assert new.subscription == group.members["c"].subscription
    assert (list(group.members), group.leader, group.static_members) == (["c", "b"], "c", {"one": "c"})
    with pytest.raises(MemberRefusedError, match="does not hold"):
        group.replace_static_member("one", "a", "d")


def test_a_member_that_joined_leads_when_the_leader_did_not() -> None:
    group = group_of(member("a", "range"), member("b", "range"))
    assert group.elect_leader({"a"}) and group.leader == "a"
    assert group.elect_leader({"b"}) and group.leader == "b"
    assert not group.elect_leader(set())


def test_the_longest_rebalance_timeout_counts() -> None:
    group = group_of(member("a", "range", rebalance_timeout_ms=10), member("b", "range", rebalance_timeout_ms=70))
    assert group.rebalance_timeout_ms == 70
    assert ClassicGroup("orders").rebalance_timeout_ms == 0


def test_a_generation_from_join_to_assignment_and_into_empty() -> None:
    group = group_of(member("a", "range", topics="x y"), member("b", "range", topics="y z"))
    group.transition_to(GroupState.PREPARING_REBALANCE, 1)
    group.next_generation(2)
    assert (group.state, group.generation, group.protocol) == (GroupState.COMPLETING_REBALANCE, 1, "range")
    group.assign({"a": {"x": (0, 1)}}, 3)
    assert group.state is GroupState.STABLE
    assert {key: one.current.assigned for key, one in group.members.items() if one.current} == {
        "a": {"x": (0, 1)},
        "b": {},
    }
    assert group.subscribed_topics() == {"x", "y", "z"}
    assert group.is_subscribed_to("z") and not group.is_subscribed_to("w")
    group.transition_to(GroupState.PREPARING_REBALANCE, 4)
    group.remove("a")
    group.remove("b")
    group.next_generation(5)
    assert (group.state, group.generation, group.protocol, group.leader) == (GroupState.EMPTY, 2, None, None)
    assert group.subscribed_topics() == frozenset()


def test_a_subscription_nobody_can_read_spares_no_topic() -> None:
    group = group_of(member("a", "range", topics="x"), member("b", "range"))
    group.transition_to(GroupState.PREPARING_REBALANCE, 1)
    group.next_generation(2)
    assert group.subscribed_topics() is None
    assert not group.is_subscribed_to("x")


def test_a_generation_out_of_turn_changes_nothing() -> None:
    group = group_of(member("a", "range"))
    with pytest.raises(IllegalTransitionError):
        group.next_generation(1)
    assert (group.generation, group.protocol) == (0, None)


# --- from records ---------------------------------------------------------------------------------------------------


def value(generation: int, *member_ids: str, leader: str | None = None, **fields: object) -> dict[str, object]:
    members = [
        {
            "memberId": member_id,
            "groupInstanceId": None,
            "clientId": "client",
            "clientHost": "/10.0.0.9",
            "rebalanceTimeout": -1,
            "sessionTimeout": 45000,
            "subscription": "",
            "assignment": "AAAAAAABAAF4AAAAAQAAAAD/////",
        }
        for member_id in member_ids
    ]
    return {
        "protocolType": "consumer",
        "generation": generation,
        "protocol": "range" if members else None,
        "leader": leader or (member_ids[0] if member_ids else None),
        "members": members,
        **fields,
    }


def told(*values: dict[str, object] | None) -> list[tuple[str, object]]:
    writer = Writer()
    for one in values:
        writer.tick()
        writer.write("GroupMetadata", one)
    replay = StateReplay(GROUP)
    events = [event for record in writer.records for event in replay.apply(record)] + replay.settle()
    return [(event.kind, event.changes.get("rule", event.member_id)) for event in events]


def test_a_rebalance_timeout_that_is_not_written_is_the_session_timeout() -> None:
    replay = StateReplay(GROUP)
    replay.apply(Record("GroupMetadata", {"group": GROUP}, value(1, "a"), 0, 0, 0))
    assert isinstance(replay.group, ClassicGroup)
    assert replay.group.rebalance_timeout_ms == 45000
    assert replay.group.votes == {"range": 1}


@pytest.mark.parametrize(
    ("damaged", "rule"),
    [
        (value(1, "a", "a"), "member_id_repeats"),
        (value(1, "a", leader="z"), "leader_is_not_a_member"),
    ],
)
def test_damage_in_one_record_is_kept_and_told(damaged: dict[str, object], rule: str) -> None:
    assert (EventKind.INVARIANT_BROKEN, rule) in told(damaged)


def test_two_members_with_one_partition_in_one_generation_break_a_rule() -> None:
    with_blobs = value(1, "a", "b")
    assert (EventKind.INVARIANT_BROKEN, "one_owner_per_partition") in told(with_blobs)


def test_a_generation_that_falls_without_a_gap_breaks_a_rule() -> None:
    assert (EventKind.INVARIANT_BROKEN, "epochs_never_fall") in told(value(5, "a"), value(2, "a"))
    assert (EventKind.INVARIANT_BROKEN, "epochs_never_fall") not in told(value(5, "a"), None, value(2, "a"))


def test_a_generation_written_twice_with_other_members_breaks_a_rule() -> None:
    assert (EventKind.INVARIANT_BROKEN, "generation_is_written_once") in told(value(5, "a"), value(5, "b"))


def test_generations_that_were_never_synced_count_as_attempts() -> None:
    replay = StateReplay(GROUP)
    replay.apply(Record("GroupMetadata", {"group": GROUP}, value(1, "a"), 0, 0, 0))
    events = replay.apply(Record("GroupMetadata", {"group": GROUP}, value(4, "a"), 0, 1, 9))
    assert [event.changes["attempts"] for event in events] == [3]


def test_a_written_group_is_empty_or_stable() -> None:
    seen = set()
    for first in (value(1), value(1, "a")):
        for second in (value(2), value(2, "a")):
            replay = StateReplay(GROUP)
            replay.apply(Record("GroupMetadata", {"group": GROUP}, first, 0, 0, 0))
            before = replay.state
            replay.apply(Record("GroupMetadata", {"group": GROUP}, second, 0, 1, 1))
            seen.add((before, replay.state))
    assert {pair for pair in seen if pair[0] != pair[1]} == set(WRITTEN_TRANSITIONS)
