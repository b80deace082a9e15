import pytest

from coordinator_replay.analysis.expiration import ExpiryRule, ExpiryState

KEY = {"group": "g"}


def classic(members=(), protocol_type="consumer", since=1000):
    return {
        "protocolType": protocol_type,
        "currentStateTimestamp": since,
        "members": [
            {"memberId": str(i), "subscriptionFields": None if topics is None else {"topics": topics}}
            for i, topics in enumerate(members)
        ],
    }


def life(*records):
    group = ExpiryState()
    for kind, key, value in records:
        group.apply(kind, key, value)
    return group


def member(name, *topics):
    return ("ConsumerGroupMemberMetadata", {"groupId": "g", "memberId": name}, {"subscribedTopicNames": list(topics)})


EPOCH = ("ConsumerGroupMetadata", {"groupId": "g"}, {"epoch": 2})


def test_group_without_records_is_a_simple_one():
    assert ExpiryState().expiry() == (ExpiryRule.SIMPLE_GROUP, None, frozenset())
    assert ExpiryState().state == "Empty"


def test_empty_classic_group_counts_from_when_it_emptied():
    assert life(("GroupMetadata", KEY, classic())).expiry() == (ExpiryRule.EMPTY_SINCE, 1000, frozenset())


def test_empty_classic_group_of_old_brokers_counts_from_the_commit():
    assert life(("GroupMetadata", KEY, classic(since=-1))).expiry() == (ExpiryRule.EMPTY_SINCE, None, frozenset())


def test_classic_consumer_group_spares_what_any_member_subscribes_to():
    group = life(("GroupMetadata", KEY, classic([["a", "b"], ["b", "c"]])))
    assert group.expiry() == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"a", "b", "c"})
    assert group.state == "Stable"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(classic([["a"], None]), id="a subscription can't be read"),
        pytest.param(classic([["a"]], protocol_type="connect"), id="another protocol type"),
    ],
)
def test_nothing_expires_while_an_active_group_does_not_tell_its_topics(value):
    assert life(("GroupMetadata", KEY, value)).expiry().rule is ExpiryRule.NEVER_WHILE_ACTIVE


def test_empty_group_of_another_protocol_type_expires():
    assert life(("GroupMetadata", KEY, classic(protocol_type="connect"))).expiry().rule is ExpiryRule.EMPTY_SINCE


def test_group_record_without_protocol_type_is_a_simple_group():
    assert life(("GroupMetadata", KEY, classic(protocol_type=""))).expiry() == (
        ExpiryRule.SIMPLE_GROUP,
        None,
        frozenset(),
    )


def test_consumer_group_spares_names_and_resolved_expressions_until_it_is_empty():
    regex = ("ConsumerGroupRegularExpression", {"groupId": "g", "regularExpression": "x.*"}, {"topics": ["x1"]})
    group = life(member("m", "a"), EPOCH, regex)
    assert group.expiry() == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"a", "x1"})
    assert group.state is None
    group.apply("ConsumerGroupMemberMetadata", {"groupId": "g", "memberId": "m"}, None)
    assert group.expiry() == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, frozenset())
    assert group.state == "Empty"


def test_streams_group_spares_the_sources_of_its_topology_until_it_is_empty():
    topology = {"subtopologies": [{"sourceTopics": ["in"], "repartitionSourceTopics": [{"name": "again"}]}]}
    group = life(
        ("StreamsGroupMemberMetadata", {"groupId": "g", "memberId": "m"}, {}),
        ("StreamsGroupTopology", {"groupId": "g"}, topology),
    )
    assert group.expiry() == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"in", "again"})
    group.apply("StreamsGroupMemberMetadata", {"groupId": "g", "memberId": "m"}, None)
    assert group.expiry().spared == frozenset()


def test_share_group_never_loses_offsets_to_retention():
    assert life(("ShareGroupMetadata", {"groupId": "g"}, {"epoch": 1})).expiry().rule is ExpiryRule.NEVER_WHILE_ACTIVE


def test_deleted_group_is_forgotten():
    group = life(("GroupMetadata", KEY, classic([["a"]])), ("GroupMetadata", KEY, None))
    assert group.expiry().rule is ExpiryRule.SIMPLE_GROUP


def test_conversion_keeps_the_new_groups_members_when_the_old_groups_tombstone_comes_late():
    group = life(("GroupMetadata", KEY, classic([["a"]])), member("m", "b"), EPOCH, ("GroupMetadata", KEY, None))
    assert group.expiry() == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"b"})
