"""Whole runs over recorded dumps: Kafka's own decode is the judge, and the ledger must add up."""

import json
import shutil
from pathlib import Path

import pytest

from coordinator_replay.errors import InputError, WarehouseError
from coordinator_replay.pipeline.audit import Options, run_audit
from tests.samples import Sample

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return str(tmp_path_factory.mktemp("warehouse"))


def rows(spark, warehouse, table, cluster):
    return [
        row.asDict()
        for row in spark.read.format("delta").load(f"{warehouse}/{table}").where(f"cluster = '{cluster}'").collect()
    ]


def milliseconds(moment):
    return None if moment is None else round(moment.timestamp() * 1000)


def spark_milliseconds(spark, warehouse, table, cluster, column):
    df = spark.read.format("delta").load(f"{warehouse}/{table}").where(f"cluster = '{cluster}'")
    picked = df.selectExpr("log_partition", "log_offset", f"unix_millis({column}) AS ms").collect()
    return {(row["log_partition"], row["log_offset"]): row["ms"] for row in picked}


def check_against_kafka(spark, warehouse, cluster, expected):
    commits = {
        (row["log_partition"], row["log_offset"]): row for row in rows(spark, warehouse, "offset_commits", cluster)
    }
    groups = {
        (row["log_partition"], row["log_offset"]): row for row in rows(spark, warehouse, "group_records", cluster)
    }
    times = spark_milliseconds(spark, warehouse, "offset_commits", cluster, "commit_timestamp")
    records = [record for record in expected if "kind" in record]
    assert len(commits) + len(groups) == len(records)
    for record in records:
        position = (record["partition"], record["offset"])
        value = record.get("value")
        if record["kind"] != "OffsetCommit":
            row = groups[position]
            assert row["kind"] == record["kind"]
            assert json.loads(row["key_json"]) == record["key"]
            assert (row["value_json"] and json.loads(row["value_json"])) == value
        else:
            row = commits[position]
            found = {"group": row["group_id"], "topic": row["topic"], "partition": row["partition"]}
            assert found == record["key"]
            assert row["is_tombstone"] == (value is None)
            if value is not None:
                assert row["committed_offset"] == value["offset"]
                assert row["metadata"] == value["metadata"]
                assert row["topic_id"] == value.get("topicId")
                assert (-1 if row["leader_epoch"] is None else row["leader_epoch"]) == value.get("leaderEpoch", -1)
                assert times[position] == value["commitTimestamp"]
        assert row["key_version"] == record["keyVersion"]
        assert row["value_version"] == record.get("valueVersion")
        if row["producer_id"] is not None:
            assert row["producer_id"] == record["producerId"]
            assert bool(row["is_transactional"]) == record["transactional"]


def audit(spark, warehouse, cluster, *inputs, **options):
    # What is derived from the records has tests of its own, and takes longer than the records.
    chosen = Options(inputs=list(inputs), warehouse=warehouse, cluster=cluster, records_only=True, **options)
    run = run_audit(spark, chosen).run
    accounted = run.records_decoded + run.records_quarantined + run.control_records
    assert run.records_read == accounted + run.duplicates_dropped + run.already_audited
    return run


def test_segments_become_tables_that_say_what_kafka_says(spark, warehouse):
    sample = Sample("group-lifecycles")
    run = audit(spark, warehouse, "lives", sample.segments)
    check_against_kafka(spark, warehouse, "lives", sample.decoded)
    assert run.control_records == sum("control" in record for record in sample.decoded)
    assert run.records_quarantined == 0


def test_an_export_becomes_tables_with_a_note_that_markers_are_missing(spark, warehouse):
    sample = Sample("transactions")
    run = audit(spark, warehouse, "export", str(sample.folder / "records.jsonl"))
    check_against_kafka(spark, warehouse, "export", sample.decoded)
    assert any("markers" in note for note in run.notes)


def versions(run):
    return {name: version for name, version in run.table_versions.items() if name != "audit_runs"}


def test_a_second_run_over_the_same_input_adds_nothing(spark, tmp_path):
    sample = Sample("kafka-3.9")
    first = audit(spark, str(tmp_path), "c", sample.segments)
    second = audit(spark, str(tmp_path), "c", sample.segments)
    assert second.records_read == 0
    assert any(note.startswith("nothing new") for note in second.notes)
    assert versions(second) == versions(first)
    assert (second.from_offsets, second.to_offsets) == (first.from_offsets, first.to_offsets)
    again = audit(spark, str(tmp_path), "c", sample.segments, full=True)
    assert again.records_read == again.already_audited == first.records_read
    assert versions(again) == versions(first)
    third = audit(spark, str(tmp_path), "c", str(sample.folder / "parquet"))
    assert third.already_audited == third.records_read == first.records_decoded


def test_copies_of_a_partition_count_once_and_the_higher_leader_epoch_wins(spark, tmp_path):
    sample = Sample("transactions")
    for broker in ("broker-1", "broker-2"):
        shutil.copytree(sample.segments, tmp_path / broker)
    changed = tmp_path / "broker-2" / "__consumer_offsets-0" / "00000000000000000000.log"
    raw = bytearray(changed.read_bytes())
    raw[12:16] = (7).to_bytes(4)  # the leader epoch of the first batch, which the checksum leaves out
    changed.write_bytes(raw)
    warehouse = str(tmp_path / "warehouse")
    run = audit(spark, warehouse, "c", str(tmp_path / "broker-1"), str(tmp_path / "broker-2"))
    assert run.duplicates_dropped == len(sample.decoded)
    check_against_kafka(spark, warehouse, "c", sample.decoded)


def test_deleted_segments_are_left_aside_or_bring_back_what_compaction_dropped(spark, tmp_path):
    sample = Sample("compacted")
    plain = audit(spark, str(tmp_path / "a"), "c", sample.segments)
    everything = audit(spark, str(tmp_path / "b"), "c", sample.segments, include_deleted=True)
    assert any(".log.deleted" in note for note in plain.notes)
    assert everything.records_decoded > plain.records_decoded
    assert everything.duplicates_dropped > 0


def test_damage_is_quarantined_with_its_place_and_neighbours_survive(spark, tmp_path):
    sample = Sample("java-clients")
    dump = tmp_path / "dump"
    shutil.copytree(sample.segments, dump)
    file = dump / "__consumer_offsets-1" / "00000000000000000000.log"
    raw = bytearray(file.read_bytes())
    raw[80] ^= 0xFF
    file.write_bytes(raw + b"torn")
    warehouse = str(tmp_path / "warehouse")
    run = audit(spark, warehouse, "c", str(dump))
    assert run.records_quarantined == 1
    assert any("__consumer_offsets-1" in note for note in run.notes)
    (row,) = rows(spark, warehouse, "quarantine", "c")
    assert row["error_class"] == "ChecksumMismatch"
    assert row["source"] == f"{file}@0"
    assert bytes(row["value"]) == bytes(raw[: len(row["value"])])
    again = audit(spark, warehouse, "c", str(dump))
    assert again.records_quarantined == 0


def test_a_delta_copy_of_the_topic_is_read(spark, tmp_path):
    sample = Sample("transactions")
    spark.read.parquet(str(sample.folder / "parquet")).write.format("delta").save(str(tmp_path / "copy"))
    warehouse = str(tmp_path / "warehouse")
    audit(spark, warehouse, "c", str(tmp_path / "copy"))
    check_against_kafka(spark, warehouse, "c", sample.decoded)


def test_missing_before_rises_just_where_offsets_are_missing(spark, warehouse):
    audit(spark, warehouse, "gaps", Sample("compacted").segments)
    held = rows(spark, warehouse, "offset_commits", "gaps") + rows(spark, warehouse, "group_records", "gaps")
    present = {(record["partition"], record["offset"]) for record in Sample("compacted").decoded}
    for row in held:
        partition, offset = row["log_partition"], row["log_offset"]
        assert row["missing_before"] == sum((partition, lower) not in present for lower in range(offset))


def test_tables_explain_themselves_and_stay_readable_by_others(spark, warehouse):
    import duckdb
    from deltalake import DeltaTable

    audit(spark, warehouse, "readers", Sample("transactions").segments)
    for table in ("offset_commits", "group_records", "quarantine", "audit_runs"):
        described = spark.sql(f"DESCRIBE TABLE delta.`{warehouse}/{table}`").where("col_name NOT LIKE '#%'")
        plain = [row for row in described.collect() if row["data_type"] not in ("data_type", "")]
        assert all(row["comment"] for row in plain)
        opened = DeltaTable(f"{warehouse}/{table}")
        assert opened.protocol().min_reader_version == 1
        assert opened.metadata().description
        n = opened.to_pyarrow_dataset().count_rows()
        connection = duckdb.connect()
        connection.register("t", opened.to_pyarrow_dataset())
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (n,)
        assert spark.read.format("delta").load(f"{warehouse}/{table}").count() == n


def test_nothing_is_left_of_a_run_but_its_tables(spark, warehouse):
    assert not list(Path(warehouse).glob("_staging/*"))


def test_a_folder_that_is_no_table_is_not_written_into(spark, tmp_path):
    place = tmp_path / "warehouse" / "offset_commits"
    place.mkdir(parents=True)
    (place / "mine.parquet").write_bytes(b"PAR1 something of mine")
    with pytest.raises(WarehouseError, match="offset_commits"):
        audit(spark, str(tmp_path / "warehouse"), "c", Sample("transactions").segments)


def test_an_export_with_text_for_bytes_is_refused_with_what_to_do(spark, tmp_path):
    line = {
        "topic": "__consumer_offsets",
        "partition": 0,
        "offset": 0,
        "ts": 1,
        "key": "\u0000\u0001\u0000\u0004shop",
        "payload": "\u0000\ufffd",
    }
    (tmp_path / "dump.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match="take the dump with coordinator-replay export"):
        audit(spark, str(tmp_path / "warehouse"), "c", str(tmp_path / "dump.jsonl"))


def test_a_line_that_is_no_envelope_is_quarantined(spark, tmp_path):
    good = (Sample("transactions").folder / "records.jsonl").read_text().splitlines()[:3]
    (tmp_path / "dump.jsonl").write_text("\n".join([good[0], '{"partition": 0', good[1], '{"key": "!!"}', good[2]]))
    run = audit(spark, str(tmp_path / "warehouse"), "c", str(tmp_path / "dump.jsonl"))
    assert (run.records_decoded, run.records_quarantined) == (3, 2)


def test_a_table_without_the_needed_columns_is_refused(spark, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "dump"))
    with pytest.raises(InputError, match="lacks key, value, partition, offset"):
        audit(spark, str(tmp_path / "warehouse"), "c", str(tmp_path / "dump"))
