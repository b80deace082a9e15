"""The stream of sorted rows gives records and commits as the audit's stage finds them, however batches are cut."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.errors import InputError
from coordinator_replay.pipeline.groups.signs import DEPARTURE, LastCommits
from coordinator_replay.spark.record_stream import STREAM, RecordStream

KINDS = ["GroupMetadata", "ConsumerGroupMetadata", "ConsumerGroupMemberMetadata"]


def row(group, log, offset, at, kind, value, topic=None, partition=None):
    return {
        "group_id": group,
        "log_partition": log,
        "log_offset": offset,
        "timestamp_ms": at,
        "kind": kind,
        "key_json": None if topic else "{}",
        "value_json": value,
        "missing_before": 0,
        "record_bytes": 1,
        "topic": topic,
        "partition": partition,
        "is_commit": topic is not None,
    }


def commit(group, log, offset, at, topic, partition):
    return row(group, log, offset, at, "OffsetCommit", None, topic, partition)


@st.composite
def sorted_rows(draw):
    rows = []
    for group in draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1)):
        for log in sorted(draw(st.sets(st.integers(0, 1), min_size=1))):
            at = 1_000_000_000
            for offset in sorted(draw(st.sets(st.integers(0, 30), max_size=12))):
                at += draw(st.sampled_from([0, 500, 59_000, 400_000]))
                if draw(st.booleans()):
                    place = draw(st.sampled_from("xy")), draw(st.integers(0, 1))
                    rows.append(commit(group, log, offset, at, *place))
                else:
                    kind, value = draw(st.sampled_from(KINDS)), draw(st.sampled_from(["{}", None]))
                    known = draw(st.booleans()) or draw(st.booleans())
                    rows.append(row(group, log, offset, at if known else -1, kind, value))
    return sorted(rows, key=lambda one: (one["group_id"], one["log_partition"], one["log_offset"]))


def batches(rows, size):
    return [pa.RecordBatch.from_pylist(rows[at : at + size], schema=STREAM) for at in range(0, len(rows), size)]


def of_the_stage(rows):
    """What the audit's stage finds, which looks at records first and at commits after."""
    departures = [
        {"group_id": one["group_id"], "log_partition": one["log_partition"], "log_offset": one["log_offset"]}
        | {"at_ms": one["timestamp_ms"]}
        for one in rows
        if not one["is_commit"]
        and one["timestamp_ms"] >= 0
        and (
            (one["kind"] == "GroupMetadata" and one["value_json"] is not None)
            or (one["kind"] == "ConsumerGroupMemberMetadata" and one["value_json"] is None)
        )
    ]
    commits = [one for one in rows if one["is_commit"]]
    names = ("group_id", "topic", "partition", "log_partition", "log_offset")
    columns = {name: pa.array([one[name] for one in commits], STREAM.field(name).type) for name in names}
    columns["group_id"], columns["topic"] = (
        columns["group_id"].dictionary_encode(),
        columns["topic"].dictionary_encode(),
    )
    at = pa.array([one["timestamp_ms"] * 1000 for one in commits], pa.timestamp("us", tz="UTC"))
    tombstones = pa.array([False] * len(commits))
    table = pa.RecordBatch.from_pydict({**columns, "log_timestamp": at, "is_tombstone": tombstones})
    return LastCommits(pa.Table.from_pylist(departures, schema=DEPARTURE), [table])


@given(sorted_rows(), st.integers(1, 9))
def test_records_and_the_commits_before_them_are_those_of_the_audit(rows, size):
    records = [one for one in rows if not one["is_commit"]]
    stage = of_the_stage(rows)
    stream = RecordStream(batches(rows, size))
    found = []
    for one in stream:
        key = (one.group_id, one.log_partition, one.log_offset)
        found.append(key)
        assert list(stream.before(key) or ()) == list(stage.before(key) or ())
    assert found == [(one["group_id"], one["log_partition"], one["log_offset"]) for one in records]


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_record_that_comes_twice_is_told(size):
    rows = [row("a", 3, offset, 0, "GroupMetadata", "{}") for offset in (1, 2, 2)]
    with pytest.raises(InputError, match="group 'a': the record at offset 2 of log partition 3 comes twice"):
        list(RecordStream(batches(rows, size)))


@pytest.mark.parametrize("size", [1, 2, 10])
def test_records_out_of_order_are_told(size):
    rows = [row("a", 3, offset, 0, "GroupMetadata", "{}") for offset in (1, 5, 2)]
    with pytest.raises(InputError, match="not in log order: offset 2 comes after 5 in log partition 3; sort them by"):
        list(RecordStream(batches(rows, size)))
