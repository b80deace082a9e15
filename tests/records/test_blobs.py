"""Blobs of classic consumers, opened, read and written."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records.blobs import (
    BlobError,
    open_assignment,
    open_blobs,
    open_subscription,
    read_assignment,
    read_subscription,
    read_version,
    subscribed_topics,
    write_assignment,
    write_subscription,
)
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import encode_blob
from tests.records.strategies import structs

SUBSCRIPTION = base64.b64encode(
    encode_blob(blob("ConsumerProtocolSubscription"), 1, {"topics": ["a"], "userData": None, "ownedPartitions": []})
).decode()
ASSIGNMENT = base64.b64encode(
    encode_blob(
        blob("ConsumerProtocolAssignment"),
        0,
        {"assignedPartitions": [{"topic": "a", "partitions": [0, 1]}], "userData": None},
    )
).decode()


def group(protocol_type, subscription=SUBSCRIPTION, assignment=ASSIGNMENT):
    return {"protocolType": protocol_type, "members": [{"subscription": subscription, "assignment": assignment}]}


def test_blobs_of_consumers_are_opened_beside_their_bytes():
    member = open_blobs("GroupMetadata", group("consumer"))["members"][0]
    assert member["subscription"] == SUBSCRIPTION
    assert member["subscriptionFields"]["topics"] == ["a"]
    assert member["assignmentFields"]["assignedPartitions"] == [{"topic": "a", "partitions": [0, 1]}]


def test_blobs_of_other_frameworks_stay_closed():
    member = open_blobs("GroupMetadata", group("connect"))["members"][0]
    assert member["subscriptionFields"] is None
    assert member["assignmentFields"] is None


def test_blobs_that_are_empty_or_damaged_open_to_nothing():
    assert open_assignment("") is None
    assert open_subscription(base64.b64encode(b"\x00\x03\x00\x00\x00\x09").decode()) is None
    assert open_subscription(base64.b64encode(b"\xff\xff").decode()) is None


def test_protocols_of_classic_members_in_consumer_groups_are_opened():
    value = {
        "classicMemberMetadata": {
            "sessionTimeoutMs": 1,
            "supportedProtocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        }
    }
    opened = open_blobs("ConsumerGroupMemberMetadata", value)
    assert opened["classicMemberMetadata"]["supportedProtocols"][0]["metadataFields"]["topics"] == ["a"]


def test_values_without_blobs_come_back_as_they_are():
    assert open_blobs("ConsumerGroupMetadata", {"epoch": 1}) == {"epoch": 1}
    assert open_blobs("ConsumerGroupMemberMetadata", {"classicMemberMetadata": None}) == {"classicMemberMetadata": None}
    assert open_blobs("GroupMetadata", None) is None


@given(
    st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=4),
    st.integers(0, 5),
)
def test_written_assignments_read_back(partitions, version):
    partitions = {topic.encode("utf-8", "ignore").decode(): numbers for topic, numbers in partitions.items()}
    text = write_assignment(partitions, version)
    assert read_version(text) == min(version, 3)
    assert {topic: list(numbers) for topic, numbers in read_assignment(text).partitions} == partitions


@given(structs(blob("ConsumerProtocolSubscription"), 3))
def test_written_subscriptions_read_back(fields):
    text = write_subscription(fields)
    assert open_subscription(text) == {"version": 3, **fields}
    read = read_subscription(text)
    assert (list(read.topics), read.user_data, read.generation, read.rack_id) == (
        fields["topics"],
        fields["userData"],
        fields["generationId"],
        fields["rackId"],
    )
    assert [(topic, list(numbers)) for topic, numbers in read.owned] == [
        (each["topic"], each["partitions"]) for each in fields["ownedPartitions"]
    ]
    assert subscribed_topics(text) == set(fields["topics"])


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    text = base64.b64encode(data).decode()
    for read in (read_version, read_subscription, read_assignment, subscribed_topics):
        try:
            read(text)
        except BlobError:
            continue


def test_later_versions_count_as_the_highest_known():
    text = base64.b64encode(b"\0\x09\0\0\0\1\0\3foo\xff\xff\xff\xff\0\0\0\0\0\0\0\7\0\1a").decode()
    assert read_subscription(text) == (("foo",), None, (), 7, "a")


def test_what_is_no_character_is_replaced_as_java_does():
    text = base64.b64encode(b"\0\0\0\0\0\1\0\3a\xffb\xff\xff\xff\xff").decode()
    assert read_subscription(text).topics == ("a\ufffdb",)


@pytest.mark.parametrize("text", ["", "AA==", "//8AAAAA", "not base64"])
def test_unreadable_subscriptions(text):
    with pytest.raises(BlobError):
        read_subscription(text)
    assert open_subscription(text) is None


PART = b"\0\0\0\1\0\6orders\xff\xff\xff\xff"
"""Fields of a subscription's version 0: topic orders, no user data."""

BY_CLIENTS = {
    "kafka-go, any balancer": b"\0\1" + PART,
    "kafka-go, rack affinity": b"\0\1\0\0\0\1\0\6orders\0\0\0\2r1",
    "kafkajs, its own assigner": b"\0\0\0\0\0\1\0\6orders\0\0\0\0",
    "kafkajs, an assigner by its manual": b"\0\1\0\0\0\1\0\6orders\0\0\0\0",
    "sarama before cooperative rebalances": b"\0\0" + PART,
    "sarama, cooperative-sticky": b"\0\2" + PART + b"\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\0\0\0\5",
    "kafka-python": b"\0\0\0\0\0\1\0\6orders\0\0\0\0",
    "franz-go": b"\0\3" + PART + b"\0\0\0\0\0\0\0\7\xff\xff",
    "a version that nobody knows": b"\0\x09" + PART,
    "a negative version": b"\xff\xff" + PART,
    "bytes behind the last field": b"\0\0" + PART + b"more",
}


@pytest.mark.parametrize("data", BY_CLIENTS.values(), ids=BY_CLIENTS)
def test_a_classic_group_reads_the_part_that_all_versions_have(data):
    text = base64.b64encode(data).decode()
    assert subscribed_topics(text) == {"orders"}
    member = open_blobs("GroupMetadata", group("consumer", text))["members"][0]
    assert member["subscriptionFields"]["topics"] == ["orders"]
    assert member["subscriptionFields"]["version"] == int.from_bytes(data[:2], signed=True)


def test_of_a_short_subscription_only_the_part_that_is_there_is_shown():
    text = base64.b64encode(b"\0\1" + PART).decode()
    member = open_blobs("GroupMetadata", group("consumer", text))["members"][0]
    assert member["subscriptionFields"] == {"version": 1, "topics": ["orders"], "userData": None}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_subscription_cut_anywhere_behind_its_user_data_has_its_topics(version):
    fields = {
        "topics": ["a", "b"],
        "userData": "AAE=",
        "ownedPartitions": [{"topic": "a", "partitions": [0, 1]}],
        "generationId": 4,
        "rackId": "r",
    }
    whole = encode_blob(blob("ConsumerProtocolSubscription"), version, fields)
    part = len(encode_blob(blob("ConsumerProtocolSubscription"), 0, fields))
    for end in range(len(whole)):
        text = base64.b64encode(whole[:end]).decode()
        if end < part:
            with pytest.raises(BlobError):
                subscribed_topics(text)
        else:
            assert subscribed_topics(text) == {"a", "b"}
            with pytest.raises(BlobError):
                read_subscription(text)
        opened = open_blobs("GroupMetadata", group("consumer", text))["members"][0]["subscriptionFields"]
        assert (opened is None) == (end < part)


def test_a_consumer_group_refuses_a_short_subscription_and_so_it_stays_closed_there():
    text = base64.b64encode(b"\0\1" + PART).decode()
    value = {"classicMemberMetadata": {"supportedProtocols": [{"name": "range", "metadata": text}]}}
    opened = open_blobs("ConsumerGroupMemberMetadata", value)
    assert opened["classicMemberMetadata"]["supportedProtocols"][0]["metadataFields"] is None


def test_an_assignment_that_nobody_can_read_changes_nothing_of_the_subscription():
    member = open_blobs("GroupMetadata", group("consumer", SUBSCRIPTION, "AAA="))["members"][0]
    assert member["assignmentFields"] is None
    assert member["subscriptionFields"]["topics"] == ["a"]
