import base64

from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import encode_blob
from coordinator_replay.records.protocol import open_assignment, open_blobs, open_subscription

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
