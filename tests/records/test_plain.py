import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records.damage import ErrorClass, RecordError
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import decode_record, encode_blob, encode_key, encode_value, read_blob
from tests.nightly import few_examples, many_examples
from tests.records.strategies import KINDS_AND_VERSIONS, records, structs

each_kind = pytest.mark.parametrize(
    ("kind", "version"), KINDS_AND_VERSIONS, ids=lambda value: getattr(value, "name", value)
)


@each_kind
@few_examples
@given(data=st.data())
def test_decoding_gives_back_what_was_encoded(kind, version, data):
    check_decoding(kind, version, data)


@pytest.mark.long
@each_kind
@many_examples
@given(data=st.data())
def test_decoding_gives_back_whatever_was_encoded(kind, version, data):
    check_decoding(kind, version, data)


def check_decoding(kind, version, data):
    key, value = data.draw(records(kind, version))
    encoded = None if value is None else encode_value(kind.name, version, value)
    decoded = decode_record(encode_key(kind.name, key), encoded)
    assert (decoded.kind, decoded.key, decoded.value) == (kind.name, key, value)
    assert decoded.value_version == (None if value is None else version)


@pytest.mark.parametrize("name", ["ConsumerProtocolSubscription", "ConsumerProtocolAssignment"])
@given(data=st.data())
def test_a_blob_of_a_newer_version_reads_as_the_newest_known_one(name, data):
    struct = blob(name)
    fields = data.draw(structs(struct, struct.versions.high))
    encoded = encode_blob(struct, struct.versions.high, fields)
    newer = (99).to_bytes(2) + encoded[2:] + b"more"
    assert read_blob(struct, newer) == ({"version": 99, **fields}, len(b"more"))


def test_the_worked_examples_of_the_reference_read_as_written_there():
    key = bytes.fromhex("00010002673100066f726465727300000003")
    value = bytes.fromhex("0004000000000000002a00000005010000018bcfe56800010010" + "00112233445566778899aabbccddeeff")
    decoded = decode_record(key, value)
    assert decoded.key == {"group": "g1", "topic": "orders", "partition": 3}
    assert decoded.value == {
        "offset": 42,
        "leaderEpoch": 5,
        "metadata": "",
        "commitTimestamp": 1_700_000_000_000,
        "topicId": "ABEiM0RVZneImaq7zN3u_w",
    }


def test_a_member_without_the_classic_tag_differs_from_one_whose_tag_is_null():
    key = bytes.fromhex("0005000267320002" + b"m1".hex())
    plain = bytes.fromhex("0000000003633" + "10a2f31302e302e302e3902076f726465727301000493e000")
    assert "classicMemberMetadata" not in decode_record(key, plain + b"\x00").value
    assert decode_record(key, plain + bytes.fromhex("01000100")).value["classicMemberMetadata"] is None


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"\x00\x00", ErrorClass.MISSING_KEY),
        (b"\x00", b"\x00\x00", ErrorClass.MISSING_KEY),
        (b"\x00\x18\x00\x01g", None, ErrorClass.UNKNOWN_RECORD_TYPE),
        (b"\x7f\xff\x00\x01g", None, ErrorClass.UNKNOWN_RECORD_TYPE),
        (b"\x00\x03\x00\x01g", b"", ErrorClass.EMPTY_VALUE),
        (b"\x00\x03\x00\x01g", b"\x00\x01\x00\x00\x00\x01\x00", ErrorClass.UNSUPPORTED_VERSION),
        (b"\x00\x03\x00\x05g", None, ErrorClass.BUFFER_UNDERFLOW),
        (b"\x00\x03\xff\xff", None, ErrorClass.UNEXPECTED_NULL),
        (b"\x00\x03\x00\x01\xff", None, ErrorClass.INVALID_UNICODE),
        (b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x01\x00!", ErrorClass.TRAILING_BYTES),
        (b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff", ErrorClass.VARINT_TOO_LONG),
        (b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x01\x01\x00\x09" + bytes(9), ErrorClass.BAD_TAGGED_FIELD),
    ],
)
def test_damage_is_told_by_its_class(key, value, error):
    with pytest.raises(RecordError) as caught:
        decode_record(key, value)
    assert caught.value.error_class == error


def test_what_can_not_be_encoded_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="'epoch'"):
        encode_value("ConsumerGroupMetadata", 0, {})
    with pytest.raises(ValueError, match="no value version 7"):
        encode_value("ConsumerGroupMetadata", 7, {"epoch": 1})
    with pytest.raises(ValueError, match="no record kind"):
        encode_key("GroupMetadatum", json.loads("{}"))
