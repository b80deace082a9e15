"""The decode stage over every recorded sample in every input form: Kafka's own decode is the judge."""

import json

import pytest
from coordinator_replay.pipeline.decode import read_segments, stage_rows, stage_segments
from coordinator_replay.pipeline.staged_records import as_records, staged_by

from coordinator_replay.log.dump import find_dump
from coordinator_replay.pipeline.read.sources import read_tables
from tests.samples import EXPORTED, NAMES, Sample

pytestmark = pytest.mark.spark


def check(staged, records, *, with_producers):
    """Compare staged rows with Kafka's decode: nothing lost, nothing twice, every field equal."""
    found = staged.selectExpr("*", "unix_millis(commit.commit_timestamp) AS commit_ms").collect()
    rows = {(row["log_partition"], row["log_offset"]): row for row in found}
    assert len(rows) == len(found) == len(records)
    for expected in records:
        row = rows[(expected["partition"], expected["offset"])]
        assert row["quarantine"] is None
        if with_producers:
            assert (row["producer_id"], row["producer_epoch"]) == (expected["producerId"], expected["producerEpoch"])
            assert row["is_transactional"] == expected["transactional"]
            assert row["control_type"] == expected.get("control")
        if "kind" not in expected:
            assert row["commit"] is None
            assert row["record"] is None
        elif row["commit"] is not None:
            check_commit(row, expected)
        else:
            check_record(row["record"], expected)


def check_commit(row, expected):
    commit, value = row["commit"], expected.get("value")
    assert {"group": commit["group_id"], "topic": commit["topic"], "partition": commit["partition"]} == expected["key"]
    assert (commit["key_version"], commit["value_version"]) == (expected["keyVersion"], expected.get("valueVersion"))
    assert commit["is_tombstone"] == (value is None)
    if value is not None:
        assert (commit["committed_offset"], commit["metadata"]) == (value["offset"], value["metadata"])
        assert row["commit_ms"] == value["commitTimestamp"]
        assert commit["topic_id"] == value.get("topicId")
        assert (-1 if commit["leader_epoch"] is None else commit["leader_epoch"]) == value.get("leaderEpoch", -1)


def check_record(record, expected):
    assert record["kind"] == expected["kind"]
    assert (record["key_version"], record["value_version"]) == (expected["keyVersion"], expected.get("valueVersion"))
    assert json.loads(record["key_json"]) == expected["key"]
    assert (record["value_json"] and json.loads(record["value_json"])) == expected.get("value")


@pytest.mark.parametrize("name", NAMES)
def test_segments_decode_to_what_kafka_says(spark, tmp_path, name):
    sample = Sample(name)
    files = staged_by(stage_segments(spark, find_dump([sample.segments]).segments, str(tmp_path)))
    staged = as_records(spark, files)
    check(staged, sample.decoded, with_producers=min(record["magic"] for record in sample.decoded) == 2)


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("form", ["parquet", "records.jsonl"])
def test_exports_decode_to_what_kafka_says(spark, tmp_path, name, form):
    sample = Sample(name)
    log_records = read_tables(spark, find_dump([str(sample.folder / form)]))
    staged = as_records(spark, staged_by(stage_rows(log_records, str(tmp_path))))
    check(staged, [record for record in sample.decoded if "kind" in record], with_producers=False)
    assert staged.where("producer_id IS NOT NULL").isEmpty()


def test_raw_log_records_hold_the_bytes_a_consumer_sees(spark):
    sample = Sample("expiration")
    rows = read_segments(spark, find_dump([sample.segments]).segments).collect()
    found = {
        (row["log_partition"], row["log_offset"]): (
            bytes(row["key"]),
            None if row["value"] is None else bytes(row["value"]),
        )
        for row in rows
        if row["control_type"] is None
    }
    assert found == sample.exported
