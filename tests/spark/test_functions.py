"""The SQL functions over exported copies of the topic: Kafka's own decode is the judge."""

import json

import pytest

from tests.samples import EXPORTED, Sample

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", EXPORTED)
def test_decode_record_and_decode_key_agree_with_kafka(session, name):
    sample = Sample(name)
    session.read.parquet(str(sample.folder / "parquet")).createOrReplaceTempView("exported")
    query = "SELECT partition, offset, decode_record(key, value) AS r, decode_key(key) AS k FROM exported"
    rows = session.sql(query).collect()
    expected = {(record["partition"], record["offset"]): record for record in sample.decoded}
    assert len(rows) == sum("kind" in record for record in sample.decoded)
    for row in rows:
        record, key, kafka = row["r"], row["k"], expected[(row["partition"], row["offset"])]
        assert record["kind"] == key["kind"] == kafka["kind"]
        assert (record["key_version"], record["value_version"]) == (kafka["keyVersion"], kafka.get("valueVersion"))
        assert json.loads(record["key_json"]) == json.loads(key["key_json"]) == kafka["key"]
        assert (record["value_json"] and json.loads(record["value_json"])) == kafka.get("value")
        assert record["group_id"] == key["group_id"]
        if kafka["kind"] == "OffsetCommit":
            assert {"group": key["group_id"], "topic": key["topic"], "partition": key["partition"]} == kafka["key"]
            assert record["committed_offset"] == (kafka["value"]["offset"] if "value" in kafka else None)


def test_what_is_wrong_is_told(session):
    row = session.sql(
        "SELECT decode_record(X'00180001', CAST(NULL AS BINARY)) AS r, decode_key(X'0018') AS k, "
        "decode_record(CAST(NULL AS BINARY), X'0001') AS n"
    ).first()
    assert (row["r"]["error_class"], row["k"]["error_class"]) == ("UnknownRecordType", "UnknownRecordType")
    assert row["n"]["error_class"] == "MissingKey"
    assert row["r"]["kind"] is None


def test_consumer_protocol_opens_the_blobs_of_classic_members(session):
    sample = Sample("group-lifecycles")
    session.read.parquet(str(sample.folder / "parquet")).createOrReplaceTempView("exported")
    rows = session.sql(
        """
        WITH members AS (
          SELECT explode(from_json(r.value_json, 'protocolType STRING, members ARRAY<STRUCT<
            memberId: STRING, subscription: STRING, assignment: STRING>>').members) AS m
          FROM (SELECT decode_record(key, value) AS r FROM exported) WHERE r.kind = 'GroupMetadata')
        SELECT consumer_protocol(unbase64(m.subscription)).subscription AS s,
               consumer_protocol(unbase64(m.assignment)).assignment AS a FROM members
        """
    ).collect()
    assert rows
    assert all(row["s"]["topics"] for row in rows)
    assert any(row["a"]["assigned_partitions"] for row in rows)
