"""The two decoders are equal on every key, and on every value without lists."""

import numpy as np
import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records.columnar import Columns, has_columns, lengths_of, openings_of
from coordinator_replay.records.damage import RecordError
from coordinator_replay.records.definition import Struct
from coordinator_replay.records.kinds import record_kinds
from coordinator_replay.records.plain import UNKNOWN_TAGS, decode_record, decode_value, encode_key, encode_value
from tests.records.strategies import structs

KINDS = list(record_kinds().values())
FLAT = [kind for kind in KINDS if has_columns(kind.value)]
TYPES = {"int32": pa.int32(), "int64": pa.int64()}


def read(struct: Struct, versions: list[int], rows: list[bytes | None]):
    array = pa.array(rows, pa.binary())
    # Of a slice of a larger column, as batches are.
    column = pa.concat_arrays([pa.array([b"before"]), array]).slice(1)
    return Columns(struct, np.array(versions, np.int32), column, np.arange(len(rows)))


def fields_of(struct, columns, row):
    """The fields of a row that are there."""
    fields = {}
    for field in struct.fields:
        match field.type:
            case "string":
                array = columns.texts(field.name)
            case "uuid":
                array = columns.ids(field.name)
            case number:
                array = columns.numbers(field.name, TYPES[number])
        array.validate(full=True)
        if array[row].is_valid:
            fields[field.name] = array[row].as_py()
    return fields


@st.composite
def keys(draw):
    kind = draw(st.sampled_from(KINDS))
    return kind, draw(st.lists(structs(kind.key, 0), min_size=1, max_size=6))


@st.composite
def values(draw):
    kind = draw(st.sampled_from(FLAT))
    versioned = st.sampled_from(kind.value.versions.all).flatmap(
        lambda version: structs(kind.value, version).map(lambda fields: (version, fields))
    )
    return kind, draw(st.lists(versioned, min_size=1, max_size=6))


def damage(data: st.DataObject, rows: list[bytes]) -> list[bytes]:
    """The rows with one of them cut off, longer, or with a byte changed, behind what they open with."""
    place = data.draw(st.integers(0, len(rows) - 1))
    row = bytearray(rows[place])
    match data.draw(st.sampled_from(["none", "cut", "add", "change"])):
        case "cut":
            del row[data.draw(st.integers(2, len(row))) :]
        case "add":
            row += data.draw(st.binary(min_size=1, max_size=3))
        case "change":
            row[data.draw(st.integers(2, len(row) - 1))] = data.draw(st.integers(0, 255))
    return [*rows[:place], bytes(row), *rows[place + 1 :]]


def plain(decode, *arguments):
    """What is read one by one; None where it can't be."""
    try:
        return decode(*arguments)
    except RecordError:
        return None


@given(keys(), st.data())
def test_keys_are_what_they_are_one_by_one(drawn, data):
    kind, fields = drawn
    rows = damage(data, [encode_key(kind.name, each) for each in fields])
    columns = read(kind.key, [0] * len(rows), rows)
    texts = columns.json()
    for row, key in enumerate(rows):
        record = plain(decode_record, key, None)
        assert columns.in_order[row] == (record is not None)
        if record is not None:
            assert fields_of(kind.key, columns, row) == record.key
            assert texts[row].as_py().encode() == orjson.dumps(record.key)


@given(values(), st.data())
def test_values_are_what_they_are_one_by_one(drawn, data):
    kind, versioned = drawn
    rows = damage(data, [encode_value(kind.name, version, fields) for version, fields in versioned])
    columns = read(kind.value, [version for version, _ in versioned], rows)
    texts = columns.json()
    for row, value in enumerate(rows):
        record = plain(decode_value, kind, value)
        if not columns.in_order[row]:
            # Whatever is not damaged has fields that nobody knows.
            assert record is None or UNKNOWN_TAGS in record[1]
            assert fields_of(kind.value, columns, row) == {}
        else:
            assert fields_of(kind.value, columns, row) == record[1]
            assert texts[row].as_py().encode() == orjson.dumps(record[1])


def test_rows_without_a_known_version_are_not_in_order():
    rows = [None, b"", b"\0", b"\0\5", b"\xff\xff"]
    columns = read(record_kinds()[1].value, [-1, -1, -1, 5, -1], rows)
    assert not columns.in_order.any()
    assert columns.json().null_count == 5


def test_an_id_of_zeros_is_none():
    value = {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 2}
    tagged = value | {UNKNOWN_TAGS: [{"tag": 0, "data": "AAAAAAAAAAAAAAAAAAAAAA=="}]}
    rows = [encode_value("OffsetCommit", 4, each) for each in (value, tagged, value | {"topicId": "A" * 21 + "Q"})]
    assert len({len(row) for row in rows}) == 2
    columns = read(record_kinds()[1].value, [4] * 3, rows)
    assert columns.in_order.all()
    assert columns.ids("topicId").to_pylist() == [None, None, "A" * 21 + "Q"]
    assert columns.numbers("expireTimestamp", pa.int64()).null_count == 3
    assert columns.texts("group").null_count == 3


def test_a_number_at_its_default_is_left_out_as_when_it_is_not_there():
    value = {"epoch": 1}
    tagged = value | {UNKNOWN_TAGS: [{"tag": 0, "data": "AAAAAAAAAAA="}]}
    rows = [encode_value("ConsumerGroupMetadata", 0, each) for each in (value, tagged, value | {"metadataHash": 7})]
    columns = read(record_kinds()[3].value, [0] * 3, rows)
    assert columns.json().to_pylist() == ['{"epoch":1}', '{"epoch":1}', '{"epoch":1,"metadataHash":7}']


def test_a_tagged_field_that_stands_twice_or_is_not_as_long_as_it_says_is_not_in_order():
    start, eight = b"\0\0\0\0\0\1", b"\0\x08" + bytes(8)
    rows = [start + b"\1" + eight, start + b"\2" + eight + eight, start + b"\1\0\7" + bytes(7), start + b"\1\5\0"]
    assert read(record_kinds()[3].value, [0] * 4, rows).in_order.tolist() == [True, False, False, False]


def test_lists_and_nulls_have_no_columns():
    assert all(has_columns(kind.key) for kind in KINDS)
    assert {kind.name for kind in KINDS if has_columns(kind.value)} == {
        *("LegacyOffsetCommit", "OffsetCommit", "ConsumerGroupMetadata", "ConsumerGroupTargetAssignmentMetadata"),
        *("ShareGroupMetadata", "ShareGroupTargetAssignmentMetadata", "StreamsGroupTargetAssignmentMetadata"),
    }


@given(st.lists(st.none() | st.binary(max_size=4), max_size=20), st.integers(0, 3))
def test_rows_open_with_their_first_two_bytes(rows, skipped):
    array = pa.array(rows, pa.binary())[skipped:]
    kept = rows[skipped:]
    openings = [-1 if row is None or len(row) < 2 else int.from_bytes(row[:2], signed=True) for row in kept]
    assert openings_of(array).tolist() == openings
    assert lengths_of(array).tolist() == [len(row or b"") for row in kept]
