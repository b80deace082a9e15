"""Every table, read by Spark, deltalake and DuckDB; names that mean harm come back as they were."""

import json
import shutil
import struct
from datetime import timedelta

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from coordinator_replay.cli.main import main
from coordinator_replay.store.maintain import Upkeep, run_maintain
from coordinator_replay.tables.definition import tables
from tests.hostile.test_hostile import HOSTILE_NAMES, commit_key, commit_value, string
from tests.hostile.test_traps import ORDERS
from tests.log.writer import LogEntry, write_batch
from tests.nightly import rest_at_night

pytestmark = pytest.mark.spark

READ = {"audit_runs", "member_timeline", "quarantine"}
"""Tables of each kind: a ledger, intervals, bytes. The nightly run reads all."""

CLUSTER = "o'hara \\' \"x\"; DROP TABLE findings; --"


@pytest.fixture(scope="module")
def hostile(spark, tmp_path_factory):
    """An audit of a dump whose names, cluster's included, mean harm, with bytes that are no record among them."""
    from coordinator_replay.pipeline.audit import Options, run_audit

    root = tmp_path_factory.mktemp("hostile")
    folder = root / "dump" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    entries = [
        LogEntry(key=commit_key(name, name), value=commit_value(name), timestamp_ms=1000) for name in HOSTILE_NAMES
    ]
    entries += [
        LogEntry(key=b"\x00\x02" + string(name), value=member(name), timestamp_ms=2000) for name in HOSTILE_NAMES
    ]
    entries += [LogEntry(key=b"\x00\x02" + ORDERS, value=b"\x00\x63", timestamp_ms=2000)]
    (folder / f"{0:020}.log").write_bytes(write_batch(entries, base_offset=0) + b"\x7e" * 100)
    options = Options(inputs=[str(root / "dump")], warehouse=str(root / "warehouse"), cluster=CLUSTER)
    run = run_audit(spark, options).run
    assert (run.records_decoded, run.records_quarantined) == (2 * len(HOSTILE_NAMES), 1)
    return root / "warehouse"


def member(name: str) -> bytes:
    """A generation of one member, all of whose texts are the name."""
    text = string(name)
    told = text + struct.pack(">h", -1) + text + text + struct.pack(">ii", 1, 1) + struct.pack(">ii", 0, 0)
    return (
        struct.pack(">h", 3)
        + string("consumer")
        + struct.pack(">i", 1)
        + text
        + text
        + struct.pack(">q", 5)
        + struct.pack(">i", 1)
        + told
    )


def rows_for_all(spark, warehouse, name):
    """How many rows of a table three readers see, who agree about it and its columns."""
    path = str(warehouse / name)
    opened = DeltaTable(path)
    assert opened.protocol().min_reader_version == 1
    by_spark = spark.read.format("delta").load(path)
    connection = duckdb.connect()
    connection.register("t", opened.to_pyarrow_dataset())
    by_duckdb = connection.execute("SELECT * FROM t")
    columns = [column[0] for column in by_duckdb.description]
    rows = by_duckdb.fetchall()
    assert by_spark.columns == columns == [field.name for field in opened.schema().fields]
    assert set(columns) == {column.name for column in tables()[name].columns}
    assert by_spark.count() == opened.to_pyarrow_dataset().count_rows() == len(rows)
    return len(rows)


@pytest.mark.parametrize("name", rest_at_night(sorted(tables()), READ))
def test_three_readers_see_the_same_rows(spark, audited, hostile, name):
    for warehouse in (audited, hostile):
        rows_for_all(spark, warehouse, name)


@pytest.mark.parametrize("name", sorted(tables()))
def test_a_filter_on_any_column_finds_the_rows_that_have_the_value(audited, hostile, name):
    """Readers pass over files by the bounds in Delta's log: a wrong or a missing one would lose rows in silence."""
    for warehouse in (audited, hostile):
        opened = DeltaTable(str(warehouse / name))
        dataset, rows = opened.to_pyarrow_dataset(), opened.to_pyarrow_table()
        for column in rows.column_names:
            if pa.types.is_nested(rows.schema.field(column).type):
                continue
            counts = {one["values"]: one["counts"] for one in pc.value_counts(rows[column]).to_pylist()}
            for value in sorted(counts, key=str)[:2] + sorted(counts, key=str)[-2:]:
                field = pc.field(column)
                wanted = field.is_null() if value is None else field == value
                assert dataset.count_rows(filter=wanted) == counts[value], (column, value)


@pytest.mark.long
def test_three_readers_see_them_after_upkeep_that_leaves_no_file_of_earlier_versions(spark, audited, tmp_path):
    kept = tmp_path / "warehouse"
    shutil.copytree(audited, kept)
    run_maintain(Upkeep(warehouse=str(kept), vacuum_after=timedelta(0), force=True))
    for name in tables():
        assert rows_for_all(spark, kept, name) == rows_for_all(spark, audited, name), name
    before, after = ({file.name for file in folder.rglob("*.parquet")} for folder in (audited, kept))
    assert not after <= before


def test_hostile_names_come_back_as_they_were(spark, hostile):
    path = str(hostile / "offset_history")
    wanted = sorted(HOSTILE_NAMES)
    by_spark = spark.read.format("delta").load(path).select("cluster", "group_id", "topic", "metadata").collect()
    assert sorted(row["group_id"] for row in by_spark) == wanted
    assert {row["cluster"] for row in by_spark} == {CLUSTER}
    assert all(row["group_id"] == row["topic"] == row["metadata"] for row in by_spark)
    assert sorted(DeltaTable(path).to_pyarrow_dataset().to_table().column("topic").to_pylist()) == wanted


def test_hostile_names_are_found_and_shown_without_harm(hostile):
    place = ["--warehouse", str(hostile), "--cluster", CLUSTER]
    for command in (["groups"], ["findings"], ["timeline", HOSTILE_NAMES[0]], ["offsets", HOSTILE_NAMES[3]]):
        for form in ("table", "json", "csv"):
            result = CliRunner().invoke(main, [*command, *place, "--output", form])
            assert result.exit_code == 0, result.output
            assert "\x1b" not in result.output or form == "csv"
    found = CliRunner().invoke(main, ["findings", *place, "--output", "json"])
    rules = {json.loads(line)["rule"] for line in found.stdout.splitlines()}
    assert "unreadable_records" in rules


def test_an_audit_fails_on_findings_only_where_it_is_asked_to(hostile):
    """A run without news finds what the tables say already."""
    dump = str(hostile.parent / "dump")
    place = ["audit", dump, "--warehouse", str(hostile), "--cluster", CLUSTER, "--output", "json"]
    assert CliRunner().invoke(main, place).exit_code == 0
    failed = CliRunner().invoke(main, [*place, "--fail-on", "error"])
    assert failed.exit_code == 3
    assert json.loads(failed.stdout.splitlines()[-1])["findings"]["error"] >= 1
