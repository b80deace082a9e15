import pytest

from coordinator_replay.analysis.expiration import deciding
from coordinator_replay.analysis.expiring import ExpiryRule
from coordinator_replay.engine.model import Record
from coordinator_replay.engine.replay import StateReplay

KEY = {"group": "g"}


def classic(members=(), protocol_type="consumer", since=1000, protocol="range"):
    return {
        "protocolType": protocol_type,
        "protocol": protocol if members else None,
        "currentStateTimestamp": since,
        "members": [
            {"memberId": str(i), "subscriptionFields": None if topics is None else {"topics": topics}}
            for i, topics in enumerate(members)
        ],
    }


def life(*records):
    replay = StateReplay("g")
    for offset, (kind, key, value) in enumerate(records):
        replay.apply(Record(kind, key, value, 0, offset, offset))
    return deciding(replay.group)


def member(name, *topics):
    return ("ConsumerGroupMemberMetadata", {"groupId": "g", "memberId": name}, {"subscribedTopicNames": list(topics)})


EPOCH = ("ConsumerGroupMetadata", {"groupId": "g"}, {"epoch": 2})


def test_group_without_records_is_a_simple_one():
    assert life().expiry == (ExpiryRule.SIMPLE_GROUP, None, frozenset())
    assert life().group_state == "Empty"


def test_offsets_alone_make_a_simple_group():
    commit = ("OffsetCommit", {"group": "g", "topic": "a", "partition": 0}, {"offset": 1})
    assert life(commit) == life()


def test_empty_classic_group_counts_from_when_it_emptied():
    assert life(("GroupMetadata", KEY, classic())).expiry == (ExpiryRule.EMPTY_SINCE, 1000, frozenset())


def test_empty_classic_group_of_old_brokers_counts_from_the_commit():
    assert life(("GroupMetadata", KEY, classic(since=-1))).expiry == (ExpiryRule.EMPTY_SINCE, None, frozenset())


def test_classic_consumer_group_spares_what_any_member_subscribes_to():
    group = life(("GroupMetadata", KEY, classic([["a", "b"], ["b", "c"]])))
    assert group.expiry == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"a", "b", "c"})
    assert group.group_state == "Stable"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(classic([["a"], None]), id="a subscription can't be read"),
        pytest.param(classic([["a"]], protocol_type="connect"), id="another protocol type"),
        pytest.param(classic([["a"]], protocol=None), id="no protocol was chosen, so no subscription is read"),
    ],
)
def test_nothing_expires_while_an_active_group_does_not_tell_its_topics(value):
    assert life(("GroupMetadata", KEY, value)).expiry.rule is ExpiryRule.NEVER_WHILE_ACTIVE


def test_empty_group_of_another_protocol_type_expires():
    assert life(("GroupMetadata", KEY, classic(protocol_type="connect"))).expiry.rule is ExpiryRule.EMPTY_SINCE


def test_group_record_without_protocol_type_is_a_simple_group():
    assert life(("GroupMetadata", KEY, classic(protocol_type=""))).expiry == (
        ExpiryRule.SIMPLE_GROUP,
        None,
        frozenset(),
    )


def test_consumer_group_spares_names_and_resolved_expressions_until_it_is_empty():
    regex = ("ConsumerGroupRegularExpression", {"groupId": "g", "regularExpression": "x.*"}, {"topics": ["x1"]})
    records = (member("m", "a"), EPOCH, regex)
    group = life(*records)
    assert group.expiry == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"a", "x1"})
    assert group.group_state is None
    group = life(*records, ("ConsumerGroupMemberMetadata", {"groupId": "g", "memberId": "m"}, None))
    assert group.expiry == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, frozenset())
    assert group.group_state == "Empty"


def test_streams_group_spares_the_sources_of_its_topology_until_it_is_empty():
    part = {"subtopologyId": "0", "sourceTopics": ["in"], "repartitionSourceTopics": [{"name": "again"}]}
    member_key = {"groupId": "g", "memberId": "m"}
    records = (
        ("StreamsGroupMemberMetadata", member_key, {}),
        ("StreamsGroupTopology", {"groupId": "g"}, {"subtopologies": [part]}),
    )
    assert life(*records).expiry == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"in", "again"})
    assert life(*records, ("StreamsGroupMemberMetadata", member_key, None)).expiry.spared == frozenset()


def test_share_group_never_loses_offsets_to_retention():
    assert life(("ShareGroupMetadata", {"groupId": "g"}, {"epoch": 1})).expiry.rule is ExpiryRule.NEVER_WHILE_ACTIVE


def test_deleted_group_is_forgotten():
    group = life(("GroupMetadata", KEY, classic([["a"]])), ("GroupMetadata", KEY, None))
    assert group.expiry.rule is ExpiryRule.SIMPLE_GROUP


def test_conversion_keeps_the_new_groups_members_when_the_old_groups_tombstone_comes_late():
    group = life(("GroupMetadata", KEY, classic([["a"]])), member("m", "b"), EPOCH, ("GroupMetadata", KEY, None))
    assert group.expiry == (ExpiryRule.UNSUBSCRIBED_TOPIC, None, {"b"})
