"""Layouts that earlier releases wrote under the same version, and kinds that none knows yet."""

import base64

import pyarrow as pa
import pytest

from coordinator_replay.records.decoder import decode_records
from coordinator_replay.records.definition import Struct
from coordinator_replay.records.kinds import kinds_by_name, record_kinds
from coordinator_replay.records.plain import UNKNOWN_TAGS, decode_record, encode_blob, encode_key, group_of_key
from tests.records.test_against_kafka import log_records

ID = "AAAAAAAAAAAAAAAAAAAAZQ"
SOME = [{"topicId": ID, "partitions": [0, 1]}]

PREVIEW = {
    "ConsumerGroupPartitionMetadata": {
        "epoch": 3,
        "topics": [{"topicId": ID, "topicName": "orders", "numPartitions": 2, "partitionMetadata": []}],
    },
    "ConsumerGroupMemberMetadata": {
        "instanceId": None,
        "rackId": None,
        "clientId": "app",
        "clientHost": "/10.0.0.2",
        "subscribedTopicNames": ["orders"],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": 5000,
        "serverAssignor": "range",
        "assignors": [],
    },
    "ConsumerGroupTargetAssignmentMember": {
        "error": 0,
        "topicPartitions": SOME,
        "metadataVersion": 0,
        "metadataBytes": "",
    },
    "ConsumerGroupCurrentMemberAssignment": {
        "memberEpoch": 11,
        "previousMemberEpoch": 9,
        "targetMemberEpoch": 14,
        "assignedPartitions": SOME,
        "partitionsPendingRevocation": [],
        "partitionsPendingAssignment": SOME,
        "error": 0,
        "metadataVersion": 0,
        "metadataBytes": "",
    },
    "ShareGroupMetadata": {"epoch": 4},
    "ShareGroupStatePartitionMetadata": {
        "initializedTopics": [{"topicId": ID, "topicName": "orders", "partitions": [0]}],
        "deletingTopics": [],
    },
}
"""Values as the preview of 3.7 wrote them, and of share groups as 4.0 did."""


def key_of(kind: str) -> bytes:
    fields = {field.name: "g" for field in kinds_by_name()[kind].key.fields}
    return encode_key(kind, fields)


def written(layout: Struct, fields: dict[str, object]) -> bytes:
    return encode_blob(layout, 0, fields)


@pytest.mark.parametrize("kind", PREVIEW)
def test_the_layout_of_an_earlier_release_is_read(kind: str) -> None:
    layout = kinds_by_name()[kind].earlier[0]
    value = written(layout, PREVIEW[kind])
    assert decode_record(key_of(kind), value).value == PREVIEW[kind]
    decoded = decode_records(log_records([(key_of(kind), value)]))
    assert (decoded.groups.num_rows, decoded.quarantine.num_rows) == (1, 0)


@pytest.mark.parametrize("kind", PREVIEW)
def test_a_value_that_fits_no_layout_to_its_end_is_damage(kind: str) -> None:
    value = written(kinds_by_name()[kind].earlier[0], PREVIEW[kind])
    for damaged in (value + b"\0", value[:-1]):
        assert decode_records(log_records([(key_of(kind), damaged)])).quarantine.num_rows == 1


def test_every_earlier_layout_has_an_example() -> None:
    assert {kind.name for kind in record_kinds().values() if kind.earlier} == set(PREVIEW)


def test_the_two_epochs_of_kip_1331_are_read() -> None:
    # As StreamsGroupMetadataValue of kafka-group-coordinator 4.4.0 has them: tags 2 and 3, int32.
    value = bytes.fromhex("0000 00000007 0000000000000005 02 02 04 00000003 03 04 00000002")
    assert decode_record(key_of("StreamsGroupMetadata"), value).value == {
        "epoch": 7,
        "metadataHash": 5,
        "storedDescriptionTopologyEpoch": 3,
        "failedDescriptionTopologyEpoch": 2,
    }


def test_a_field_that_no_release_has_stays_an_unknown_tag() -> None:
    # A creation time of a consumer group, as KIP-1327 proposes it.
    value = bytes.fromhex("0000 00000007 01 01 08 0000019f00000000")
    fields = decode_record(key_of("ConsumerGroupMetadata"), value).value
    assert fields is not None
    assert [entry["tag"] for entry in fields[UNKNOWN_TAGS]] == [1]


@pytest.mark.parametrize(
    ("key", "group"),
    [
        (b"\0\x18\0\5group\0\3abc", "group"),
        (b"\x03\xe7\0\5group", "group"),
        (b"\0\x18\0\0", ""),
        (b"\0\x18\xff\xff", None),
        (b"\0\x18\0\x09group", None),
        (b"\0\x18\0", None),
        (b"\0\x18\0\2\xc3\x28", None),
    ],
)
def test_a_key_of_an_unknown_kind_begins_with_its_group(key: bytes, group: str | None) -> None:
    assert group_of_key(key) == group
    (row,) = decode_records(log_records([(key, b"\0\0")])).quarantine.to_pylist()
    assert (row["error_class"], row["group_id"], row["kind"], row["key_json"]) == (
        "UnknownRecordType",
        group,
        None,
        None,
    )


def test_a_key_without_a_kind_has_no_group() -> None:
    rows = decode_records(log_records([(b"\0", b"\0\0"), (None, b"\0\0")])).quarantine.to_pylist()
    assert [row["group_id"] for row in rows] == [None, None]


def test_what_kafka_4_0_wrote_of_a_share_group_is_read() -> None:
    key = base64.b64decode("AAkAFmNvbnNvbGUtc2hhcmUtY29uc3VtZXI=")
    value = base64.b64decode("AAACAAAAAAAAAAAAAAAAAAAAZQNUMQAAAAEBAAA=")
    record = decode_record(key, value)
    assert (record.kind, record.key) == ("ShareGroupPartitionMetadata", {"groupId": "console-share-consumer"})
    assert record.value == {"topics": [{"topicId": ID, "topicName": "T1", "numPartitions": 1, "partitionMetadata": []}]}
    assert decode_records(pa.RecordBatch.from_pylist([], schema=log_records([]).schema)).groups.num_rows == 0
