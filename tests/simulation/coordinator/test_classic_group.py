"""A classic group in its coordinator's memory: states, members, votes, generations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.model import GroupState, Member, Protocol, Subscription
from coordinator_replay.records.blobs import write_subscription
from coordinator_replay.simulation.coordinator.errors import IllegalStateError, RequestError
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LEGAL_PREDECESSORS, LiveClassicGroup
from scripts.docs.transitions import CLASSIC

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
    fields = {"topics": topics.split(), "userData": None, "ownedPartitions": [], "generationId": -1, "rackId": None}
    blob = write_subscription(fields) if topics else ""
    return Member(
        member_id,
        Subscription(
            instance_id=instance_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocols=tuple(Protocol(name, blob) for name in protocols),
        ),
    )


def group_in(state: GroupState) -> LiveClassicGroup:
    group = LiveClassicGroup("orders")
    for step in PATHS[state]:
        group.transition_to(step, 1)
    return group


def group_of(*members: Member) -> LiveClassicGroup:
    group = LiveClassicGroup("orders")
    for one in members:
        group.add(one, protocol_type="consumer")
    return group


@pytest.mark.parametrize("after", CLASSIC_STATES)
@pytest.mark.parametrize("before", CLASSIC_STATES)
def test_exactly_the_transitions_of_the_table_are_possible(before: GroupState, after: GroupState) -> None:
    group = group_in(before)
    if (before, after) in CLASSIC:
        group.transition_to(after, 42)
        assert (group.state, group.state_timestamp_ms) == (after, 42)
    else:
        stamp = group.state_timestamp_ms
        with pytest.raises(IllegalStateError, match=f"can't go from {before} to {after}"):
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
    with pytest.raises(IllegalStateError):
        LiveClassicGroup("orders").transition_to(GroupState.RECONCILING, 1)


def test_the_first_member_leads_and_gives_the_protocol_type() -> None:
    group = group_of(member("a", "range"), member("b", "range"))
    assert (group.leader, group.protocol_type) == ("a", "consumer")


@pytest.mark.parametrize(
    ("one", "protocol_type", "why"),
    [
        (member("b", "range"), "connect", "connect"),
        (member("b", "sticky"), "consumer", "sticky"),
        (member("b"), "consumer", "offers"),
        (member("a", "range"), "consumer", "already"),
        (member("b", "range", instance_id="one"), "consumer", "taken"),
    ],
)
def test_a_member_that_does_not_fit_is_refused_and_nothing_changes(one: Member, protocol_type: str, why: str) -> None:
    group = group_of(member("a", "range", "roundrobin", instance_id="one"))
    group.transition_to(GroupState.PREPARING_REBALANCE, 1)
    votes = dict(group.votes)
    with pytest.raises(IllegalStateError, match=why):
        group.add(one, protocol_type=protocol_type)
    assert (list(group.members), group.votes, group.leader) == (["a"], votes, "a")


def test_the_first_of_a_members_protocols_that_all_support_gets_its_vote() -> None:
    group = group_of(member("1", "B", "A"), member("2", "A", "B", "C"), member("3", "D", "B", "A"))
    assert group.candidate_protocols() == {"A", "B"}
    assert group.select_protocol() == "B"


def test_members_without_a_common_protocol_are_an_error() -> None:
    group = group_of(member("a", "range"))
    group.update_member("a", Subscription())
    with pytest.raises(RequestError, match="candidate protocols"):
        group.select_protocol()


@given(st.lists(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=4, unique=True), min_size=1, max_size=6))
def test_votes_are_what_the_members_support_however_they_come_and_go(offers: list[list[str]]) -> None:
    group = LiveClassicGroup("orders")
    for index, offer in enumerate(offers):
        one = member(str(index), *offer)
        if group.supports("consumer", offer):
            group.add(one, protocol_type="consumer")
        if group.state is GroupState.EMPTY:
            group.transition_to(GroupState.PREPARING_REBALANCE, 1)
        if index % 3 == 2 and group.members:
            group.remove(next(iter(group.members)))
    counted: dict[str, int] = {}
    for one in group.members.values():
        assert one.subscription is not None
        for protocol in one.subscription.protocols:
            counted[protocol.name] = counted.get(protocol.name, 0) + 1
    assert group.votes == counted
    if group.members:
        group.next_generation(2)
        assert group.protocol in group.candidate_protocols()
        assert group.leader in group.members
    else:
        assert group.leader is None


def test_another_member_leads_when_the_leader_goes_and_nobody_when_all_are_gone() -> None:
    group = group_of(member("a", "range"), member("b", "range"))
    group.remove("a")
    assert group.leader == "b"
    for _ in range(2):
        group.remove("b")
        assert (group.leader, group.votes) == (None, {})


def test_a_static_member_under_a_new_id_keeps_everything_else() -> None:
    group = group_of(member("a", "range", instance_id="one"), member("b", "range"))
    subscription = group.members["a"].subscription
    group.replace_static_member("one", "a", "c")
    assert group.members["c"] == Member("c", subscription)
    assert (set(group.members), group.leader, group.static_members) == ({"b", "c"}, "c", {"one": "c"})


def test_a_member_that_joined_leads_when_the_leader_did_not() -> None:
    group = group_of(member("a", "range"), member("b", "range"))
    assert group.elect_leader({"a"}) and group.leader == "a"
    assert group.elect_leader({"b"}) and group.leader == "b"
    assert not group.elect_leader(set())


def test_the_longest_rebalance_timeout_counts() -> None:
    group = group_of(member("a", "range", rebalance_timeout_ms=10), member("b", "range", rebalance_timeout_ms=70))
    assert group.rebalance_timeout_ms == 70
    assert LiveClassicGroup("orders").rebalance_timeout_ms == 0
    assert group_of(member("a", "range", rebalance_timeout_ms=-1)).rebalance_timeout_ms == 0


def test_a_generation_from_join_to_assignment_and_into_empty() -> None:
    group = group_of(member("a", "range", topics="x y"), member("b", "range", topics="y z"))
    group.transition_to(GroupState.PREPARING_REBALANCE, 1)
    group.next_generation(2)
    assert (group.state, group.generation, group.protocol) == (GroupState.COMPLETING_REBALANCE, 1, "range")
    group.set_assignments({"a": "blob"})
    group.transition_to(GroupState.STABLE, 3)
    assert {key: one.current.assignment_bytes for key, one in group.members.items() if one.current} == {
        "a": "blob",
        "b": "",
    }
    assert group.topics == {"x", "y", "z"}
    assert group.is_subscribed_to("z") and not group.is_subscribed_to("w")
    group.transition_to(GroupState.PREPARING_REBALANCE, 4)
    group.remove("a")
    group.remove("b")
    group.next_generation(5)
    assert (group.state, group.generation, group.protocol, group.leader) == (GroupState.EMPTY, 2, None, None)
    assert group.topics == frozenset()


def test_a_consumer_group_with_a_subscription_that_cant_be_read_may_read_any_topic() -> None:
    group = group_of(member("a", "range", topics="x"), member("b", "range"))
    group.transition_to(GroupState.PREPARING_REBALANCE, 1)
    group.next_generation(2)
    assert group.topics is None
    assert group.is_subscribed_to("x") and group.is_subscribed_to("y")


def test_a_generation_out_of_turn_counts_and_changes_no_state() -> None:
    """As in Kafka, whose timer of an ended join phase may fire; ``44-failed-generation`` has its answers."""
    group = group_of(member("a", "range"))
    with pytest.raises(IllegalStateError):
        group.next_generation(1)
    assert (group.generation, group.state) == (1, GroupState.EMPTY)
