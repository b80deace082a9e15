"""Runs by Spark over recorded dumps: Kafka's own decode is the judge, and the ledger must add up.

test_records_only.py has what is not about Spark.
"""

import json
from pathlib import Path

import pytest

from coordinator_replay.errors import InputError, WarehouseError
from coordinator_replay.pipeline.audit import Options, run_audit
from tests.pipeline.kafkas_decode import check_against_kafka
from tests.samples import Sample

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return str(tmp_path_factory.mktemp("warehouse"))


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
    check_against_kafka(warehouse, "lives", sample.decoded)
    assert run.control_records == sum("control" in record for record in sample.decoded)
    assert run.records_quarantined == 0


def test_an_export_becomes_tables_with_a_note_that_markers_are_missing(spark, warehouse):
    sample = Sample("transactions")
    run = audit(spark, warehouse, "export", str(sample.folder / "records.jsonl"))
    check_against_kafka(warehouse, "export", sample.decoded)
    assert any("markers" in note for note in run.notes)


def test_a_delta_copy_of_the_topic_is_read(spark, tmp_path):
    sample = Sample("transactions")
    spark.read.parquet(str(sample.folder / "parquet")).write.format("delta").save(str(tmp_path / "copy"))
    warehouse = str(tmp_path / "warehouse")
    audit(spark, warehouse, "c", str(tmp_path / "copy"))
    check_against_kafka(warehouse, "c", sample.decoded)


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
