"""Lines of exports as log records: what they say, or the damage that they are."""

import base64
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from coordinator_replay.errors import InputError
from coordinator_replay.pipeline.read.envelopes import LINES, check_kafka_columns, kafka_rows, log_records

KEY = base64.b64encode(b"k").decode()
GOOD = b'{"topic":"__consumer_offsets","partition":1,"offset":2,"ts":3,"key":"%s","payload":null}' % KEY.encode()


def rows(*lines: bytes) -> list[dict[str, object]]:
    both = [pa.array(lines, pa.binary()), pa.array(["file"] * len(lines), pa.string())]
    return log_records(pa.RecordBatch.from_arrays(both, schema=LINES)).to_pylist()


def test_a_line_is_a_record_with_its_place_time_and_bytes():
    [row] = rows(GOOD)
    said = (row["log_partition"], row["log_offset"], row["key"], row["value"], row["error_class"], row["source"])
    assert said == (1, 2, b"k", None, None, "file")
    assert row["log_timestamp"].timestamp() == 0.003


def test_other_names_of_fields_count_where_the_first_has_no_value():
    [row] = rows(b'{"partition":1,"offset":2,"timestamp":4,"key":null,"payload":null,"value":"%s"}' % KEY.encode())
    assert (row["key"], row["value"], row["log_timestamp"].timestamp()) == (None, b"k", 0.004)


def test_blank_lines_and_those_of_other_topics_are_left_out():
    assert rows(b" \r", GOOD.replace(b"__consumer_offsets", b"orders")) == []


@pytest.mark.parametrize(
    "line",
    [
        b'{"partition":1,"offset":2',
        b"[1]",
        b"\xff",
        b'{"partition":true,"offset":2}',
        b'{"partition":"1","offset":2}',
        b'{"partition":-1,"offset":2}',
        b'{"partition":1,"offset":9223372036854775807}',
        b'{"partition":1,"offset":2,"ts":"now"}',
    ],
)
def test_a_line_that_cant_be_read_is_damage_with_its_own_bytes_and_no_place(line):
    [row] = rows(line)
    assert (row["error_class"], row["value"], row["log_offset"]) == ("MalformedLine", line, None)


def test_bytes_that_are_not_base64_leave_the_place():
    [row] = rows(b'{"partition":1,"offset":2,"key":"!!"}')
    assert (row["error_class"], row["log_partition"], row["log_offset"]) == ("MalformedLine", 1, 2)


def kafka_row(**changed: pa.Array) -> dict[str, object]:
    columns = {
        "topic": pa.array(["__consumer_offsets", "orders"]),
        "partition": pa.array([1, 1], pa.int32()),
        "offset": pa.array([2, 3], pa.int64()),
        "timestamp": pa.array([4000, 4000], pa.timestamp("us", tz="Asia/Kolkata")),
        "key": pa.array([b"k", b"k"], pa.large_binary()),
        "value": pa.array([None, None], pa.binary()),
    }
    [row] = kafka_rows(pa.record_batch({**columns, **changed})).to_pylist()
    return row


def test_a_row_of_the_topic_is_a_record_with_its_place_time_and_bytes():
    row = kafka_row()
    assert (row["log_partition"], row["log_offset"], row["key"], row["value"]) == (1, 2, b"k", None)
    assert (row["log_timestamp"], row["error_class"]) == (datetime(1970, 1, 1, 0, 0, 0, 4000, tzinfo=UTC), None)


@pytest.mark.parametrize("partition", [None, -1, 2**31, 2**40])
@pytest.mark.parametrize("offset", [None, -1, 2**63 - 1])
def test_a_row_without_a_place_that_a_log_has_is_damage(partition, offset):
    row = kafka_row(partition=pa.array([partition, 0], pa.int64()), offset=pa.array([offset, 0], pa.int64()))
    assert (row["error_class"], row["log_partition"], row["log_offset"]) == ("MalformedRow", None, None)
    assert row["key"] == b"k"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (pa.array(["7", "x"]), 7),
        (pa.array([7.0, float("nan")]), 7),
        (pa.array([7, 7], pa.uint64()), 7),
        (pa.array([2**64 - 1, 7], pa.uint64()), None),
        (pa.array(["1e9", "7"]), None),
    ],
)
def test_places_may_be_of_other_types(written, read):
    assert kafka_row(offset=written)["log_offset"] == read


def test_columns_may_be_dictionaries():
    names = pa.array(["__consumer_offsets", "orders"]).dictionary_encode()
    row = kafka_row(topic=names, key=pa.array([b"k", b"k"]).dictionary_encode())
    assert (row["log_offset"], row["key"]) == (2, b"k")


def test_a_time_that_is_no_timestamp_is_none():
    assert kafka_row(timestamp=pa.array([4, 4], pa.int64()))["log_timestamp"] is None


def test_a_table_in_other_columns_is_refused_in_a_sentence():
    kafka = {"key": "binary", "value": "large_binary", "partition": "int32", "offset": "int64"}
    check_kafka_columns(kafka, "here")
    with pytest.raises(InputError, match=r"^here: the table lacks value, offset: .* found key, partition$"):
        check_kafka_columns({"key": "binary", "partition": "int32"}, "here")
    with pytest.raises(InputError, match=r"^here: column key is of type string; it must be "):
        check_kafka_columns({**kafka, "key": "string"}, "here")
