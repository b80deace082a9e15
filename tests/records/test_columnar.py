"""The two decoders are equal on every key and value of offset commits."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records.columnar import Layout, lengths_of, openings_of, read_columns
from coordinator_replay.records.damage import RecordError
from coordinator_replay.records.kinds import record_kinds
from coordinator_replay.records.plain import UNKNOWN_TAGS, decode_record, encode_key, encode_value
from tests.records.strategies import structs

COMMITS = [kind for kind in record_kinds().values() if kind.is_offset_commit]
TYPES = {"int32": pa.int32(), "int64": pa.int64()}
KEY = encode_key("OffsetCommit", {"group": "g", "topic": "t", "partition": 0})


def read(layout: Layout, rows: list[bytes | None]):
    array = pa.array(rows, pa.binary())
    # Of a slice of a larger column, as batches are.
    column = pa.concat_arrays([pa.array([b"before"]), array]).slice(1)
    return read_columns(layout, column, np.arange(len(rows)))


def fields_of(columns, row):
    """The fields of a row that are there."""
    fields = {}
    for field in columns.layout.fields:
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
    kind = draw(st.sampled_from(COMMITS))
    return kind, draw(st.lists(structs(kind.key, 0), min_size=1, max_size=6))


@st.composite
def values(draw):
    kind = draw(st.sampled_from(COMMITS))
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


def plain(key: bytes, value: bytes | None):
    try:
        return decode_record(key, value)
    except RecordError:
        return None


@given(keys(), st.data())
def test_keys_are_what_they_are_one_by_one(drawn, data):
    kind, fields = drawn
    rows = damage(data, [encode_key(kind.name, each) for each in fields])
    columns = read(Layout(kind.key, {kind.type: 0}), rows)
    texts = columns.json()
    for row, key in enumerate(rows):
        record = plain(key, None)
        assert columns.in_order[row] == (record is not None)
        if record is not None:
            assert fields_of(columns, row) == record.key == json.loads(texts[row].as_py())


@given(values(), st.data())
def test_values_are_what_they_are_one_by_one(drawn, data):
    kind, versioned = drawn
    rows = damage(data, [encode_value(kind.name, version, fields) for version, fields in versioned])
    key = kind.type.to_bytes(2) + KEY[2:]
    columns = read(Layout(kind.value, {version: version for version in kind.value.versions.all}), rows)
    texts = columns.json()
    for row, value in enumerate(rows):
        record = plain(key, value)
        if not columns.in_order[row]:
            # Whatever is not damaged has fields that nobody knows.
            assert record is None or UNKNOWN_TAGS in record.value
            assert fields_of(columns, row) == {}
        else:
            assert fields_of(columns, row) == record.value == json.loads(texts[row].as_py())
            assert columns.opening[row] == record.value_version


def test_rows_without_a_known_version_are_not_in_order():
    (kind,) = [kind for kind in COMMITS if kind.name == "OffsetCommit"]
    columns = read(
        Layout(kind.value, {version: version for version in range(4)}), [None, b"", b"\0", b"\0\4", b"\xff\xff"]
    )
    assert not columns.in_order.any()
    assert columns.json().null_count == 5


def test_an_id_of_zeros_is_none():
    value = {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 2}
    tagged = value | {UNKNOWN_TAGS: [{"tag": 0, "data": "AAAAAAAAAAAAAAAAAAAAAA=="}]}
    rows = [encode_value("OffsetCommit", 4, each) for each in (value, tagged, value | {"topicId": "A" * 21 + "Q"})]
    assert len({len(row) for row in rows}) == 2
    columns = read(Layout(record_kinds()[1].value, {4: 4}), rows)
    assert columns.in_order.all()
    assert columns.ids("topicId").to_pylist() == [None, None, "A" * 21 + "Q"]
    assert columns.numbers("leaderEpoch", pa.int32(), none=-1).null_count == 3


def test_lists_and_nulls_have_no_columns():
    (value,) = [kind.value for kind in record_kinds().values() if kind.name == "GroupMetadata"]
    with pytest.raises(ValueError, match="neither lists nor nulls"):
        Layout(value, {0: 0})


@given(st.lists(st.none() | st.binary(max_size=4), max_size=20), st.integers(0, 3))
def test_rows_open_with_their_first_two_bytes(rows, skipped):
    array = pa.array(rows, pa.binary())[skipped:]
    kept = rows[skipped:]
    openings = [-1 if row is None or len(row) < 2 else int.from_bytes(row[:2]) for row in kept]
    assert openings_of(array).tolist() == openings
    assert lengths_of(array).tolist() == [len(row or b"") for row in kept]
