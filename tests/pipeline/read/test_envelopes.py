"""Lines of exports as log records: what they say, or the damage that they are."""

import base64

import pyarrow as pa
import pytest

from coordinator_replay.pipeline.read.envelopes import LINES, log_records

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
