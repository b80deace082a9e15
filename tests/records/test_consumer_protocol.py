"""Subscriptions and assignments, told apart by how well their bytes fit."""

import pyarrow as pa
import pytest

from coordinator_replay.records.consumer_protocol import PROTOCOL, open_protocol_blobs
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import encode_blob

OWNED = [{"topic": "orders", "partitions": [0, 2]}]


def subscription(version, topics, **fields):
    whole = {"topics": topics, "userData": None, "ownedPartitions": [], "generationId": -1, "rackId": None, **fields}
    return encode_blob(blob("ConsumerProtocolSubscription"), version, whole)


def assignment(version, partitions, user_data=None):
    fields = {"assignedPartitions": partitions, "userData": user_data}
    return encode_blob(blob("ConsumerProtocolAssignment"), version, fields)


def opened(*blobs):
    return open_protocol_blobs(pa.array(blobs, pa.binary())).to_pylist()


def test_a_subscription_is_typed_and_null_where_its_version_has_no_such_field():
    (new,) = opened(subscription(3, ["orders"], ownedPartitions=OWNED, generationId=7, rackId="r1", userData="AQI="))
    assert new["assignment"] is None
    assert new["version"] == 3
    assert new["subscription"] == {
        "topics": ["orders"],
        "user_data": b"\x01\x02",
        "owned_partitions": OWNED,
        "generation_id": 7,
        "rack_id": "r1",
    }
    (old,) = opened(subscription(0, ["orders"]))
    assert old["subscription"] == {
        "topics": ["orders"],
        "user_data": None,
        "owned_partitions": None,
        "generation_id": None,
        "rack_id": None,
    }


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("user_data", [None, "", "AAAAAAA="])
@pytest.mark.parametrize("partitions", [[0], [0, 1], list(range(40))])
def test_an_assignment_is_read_as_one(version, user_data, partitions):
    assigned = [{"topic": "orders", "partitions": partitions}]
    (one,) = opened(assignment(version, assigned, user_data))
    assert one["assignment"]["assigned_partitions"] == assigned
    # Two partitions of one topic are, by chance, the bytes of a subscription of version 3 too.
    assert (one["subscription"] is None) == ((version, partitions) != (3, [0, 1]))


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("topics", [["orders"], ["a", "b", "c"]])
def test_a_subscription_is_not_taken_for_an_assignment(version, topics):
    (one,) = opened(subscription(version, topics))
    assert one["assignment"] is None
    assert one["subscription"]["topics"] == topics


@pytest.mark.parametrize("version", [-1, 1, 2, 3, 9])
def test_a_subscription_that_ends_before_its_versions_fields_has_its_topics(version):
    short = version.to_bytes(2, signed=True) + subscription(0, ["orders", "refunds"], userData="AQI=")[2:]
    assert opened(short) == [
        {
            "version": version,
            "subscription": {
                "topics": ["orders", "refunds"],
                "user_data": b"\x01\x02",
                "owned_partitions": None,
                "generation_id": None,
                "rack_id": None,
            },
            "assignment": None,
        }
    ]


def test_bytes_that_fit_both_are_given_as_both():
    (one,) = opened(assignment(0, []))
    assert one["assignment"]["assigned_partitions"] == []
    assert one["subscription"]["topics"] == []


def test_other_bytes_and_null_stay_null():
    assert opened(None, b"", b"\xff\xff", b"\x00\x03\x00\x00\x00\x09", subscription(0, ["a"]))[:4] == [None] * 4
    assert open_protocol_blobs(pa.array([], pa.binary())).type == PROTOCOL
