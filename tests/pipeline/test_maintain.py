"""Upkeep: what is compacted, given up and removed, what is not, and what tables of other releases become."""

import os
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.pipeline import evolution
from coordinator_replay.pipeline.audit import Options, run_audit
from coordinator_replay.pipeline.data_files import DataFiles
from coordinator_replay.pipeline.maintain import Upkeep, run_maintain
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.query.rebalances import rebalances_of
from coordinator_replay.query.warehouse import Warehouse as Asked
from coordinator_replay.tables.definition import table, tables
from coordinator_replay.tables.migrations import SCHEMA_VERSION, SCHEMA_VERSION_PROPERTY, Migration
from tests.samples import Sample

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def rebalance(number, ended, settled=1):
    return {
        "cluster": "default",
        "group_id": "payments",
        "rebalance_id": str(number),
        "started_at": ended or NOW,
        "completed_at": ended,
        "settled_at_offset": settled,
    }


def write(spark, folder, rows):
    """Append rebalances, each to a file of its own."""
    warehouse = Warehouse(spark, str(folder))
    warehouse.ensure("rebalances")
    for row in rows:
        warehouse.append("rebalances", spark.createDataFrame([row], table("rebalances").spark_ddl()), "run")
    return warehouse


def ids(warehouse):
    return sorted(row["rebalance_id"] for row in warehouse.read("rebalances").collect())


def properties(folder, name="rebalances"):
    return DeltaTable(f"{folder}/{name}").metadata().configuration


def test_a_table_of_many_files_becomes_one_and_old_files_go_when_their_time_has_come(spark, tmp_path):
    warehouse = write(spark, tmp_path, [rebalance(n, NOW) for n in range(3)])
    before = ids(warehouse)
    kept, _ = run_maintain(spark, Upkeep(warehouse=str(tmp_path)))
    assert (kept.name, kept.before.files, kept.after.files, kept.rows_removed) == ("rebalances", 3, 1, 0)
    assert kept.after.stored_files > 3
    forced = Upkeep(warehouse=str(tmp_path), vacuum_after=timedelta(), force=True)
    kept, _ = run_maintain(spark, forced, now=datetime.now(UTC) + DAY)
    assert kept.after.stored_files == kept.after.files == 1
    assert ids(warehouse) == before


def test_files_that_somebody_may_be_reading_stay_unless_forced(spark, tmp_path):
    with pytest.raises(UsageError, match="7d or longer"):
        run_maintain(spark, Upkeep(warehouse=str(tmp_path), vacuum_after=6 * DAY))


def test_a_folder_without_tables_is_no_warehouse(spark, tmp_path):
    with pytest.raises(WarehouseError, match="no warehouse"):
        run_maintain(spark, Upkeep(warehouse=str(tmp_path / "nothing")))
    assert not (tmp_path / "nothing").exists()


def test_history_that_was_over_is_given_up_and_does_not_come_back(spark, tmp_path):
    rows = [
        rebalance("old", NOW - 100 * DAY),
        rebalance("old-but-not-final", NOW - 100 * DAY, settled=None),
        rebalance("young", NOW - DAY),
        rebalance("open", None, settled=None),
    ]
    warehouse = write(spark, tmp_path, rows)
    kept, _ = run_maintain(spark, Upkeep(warehouse=str(tmp_path), keep=90 * DAY), now=NOW)
    assert kept.rows_removed == 1
    assert ids(warehouse) == ["old-but-not-final", "open", "young"]
    # A later audit derives the group anew, and the old row with it.
    write(spark, tmp_path, [rebalance("old", NOW - 100 * DAY), rebalance("new", NOW)])
    assert ids(warehouse) == ["new", "old-but-not-final", "open", "young"]
    # So does a night, whose workers write files into the table's own folder.
    files = DataFiles({"rebalances": warehouse.own_part("rebalances")})
    for row in (
        rebalance("older", NOW - 95 * DAY),
        rebalance("open-long", None, settled=None),
        rebalance("newer", NOW),
    ):
        told = pa.RecordBatch.from_pylist([row], schema=table("rebalances").arrow_schema().remove_metadata())
        files.add("rebalances", told)
    warehouse.add_files("rebalances", files.close())
    assert ids(warehouse) == ["new", "newer", "old-but-not-final", "open", "open-long", "young"]
    # What was given up stays so, even if more is to be kept from now on.
    run_maintain(spark, Upkeep(warehouse=str(tmp_path), keep=1000 * DAY), now=NOW)
    asked = Asked(str(tmp_path))
    with pytest.raises(UsageError, match="nothing from before 2026-08-22"):
        rebalances_of(asked, None, end=NOW - 95 * DAY)
    assert len(rebalances_of(asked, None, start=NOW - 2 * DAY)) == 5
    assert asked.notes == []
    rebalances_of(asked, None)
    assert len(asked.notes) == 1


def test_what_dead_runs_left_is_removed_after_a_day(spark, tmp_path):
    write(spark, tmp_path, [rebalance(1, NOW)])
    for run, age in (("dead", 2 * DAY), ("alive", DAY / 2)):
        file = tmp_path / "_staging" / run / "staged" / "part-0.parquet"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"123")
        for path in (file, file.parent, file.parent.parent):
            os.utime(path, (time.time() - age.total_seconds(),) * 2)
    *_, staging = run_maintain(spark, Upkeep(warehouse=str(tmp_path)))
    assert [folder.name for folder in (tmp_path / "_staging").iterdir()] == ["alive"]
    assert (staging.before.stored, staging.after.stored) == (6, 3)


def test_a_table_of_an_older_release_is_brought_up(spark, tmp_path, monkeypatch):
    warehouse = write(spark, tmp_path, [rebalance(1, NOW)])
    path = warehouse.path("rebalances")
    # As an older release left it: a column less, one of another type, no version.
    old = warehouse.read("rebalances").drop("metadata_delay_ms").withColumn("epoch", warehouse_text("7"))
    old.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{SCHEMA_VERSION_PROPERTY}')")
    migration = Migration(
        table="rebalances",
        to_version=1,
        about="epochs are numbers; how long a change of metadata took was written elsewhere",
        statements=("UPDATE {table} SET metadata_delay_ms = 5 WHERE metadata_delay_ms IS NULL",),
        values={"epoch": "CAST(epoch AS INT)"},
    )
    monkeypatch.setattr(evolution, "steps", lambda name, version: [migration] if version < 1 else [])
    kept, _ = run_maintain(spark, Upkeep(warehouse=str(tmp_path)))
    assert kept.from_version == 0
    assert properties(tmp_path)[SCHEMA_VERSION_PROPERTY] == str(SCHEMA_VERSION)
    (row,) = warehouse.read("rebalances").collect()
    assert (row["epoch"], row["metadata_delay_ms"], row["rebalance_id"]) == (7, 5, "1")
    fields = {field.name: field for field in warehouse.read("rebalances").schema.fields}
    assert fields["epoch"].metadata["comment"] == table("rebalances").column("epoch").about
    assert DeltaTable(path).protocol().min_reader_version == 1
    # And it is done once.
    kept, _ = run_maintain(spark, Upkeep(warehouse=str(tmp_path)))
    assert kept.from_version == SCHEMA_VERSION


def warehouse_text(text):
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

    return F.lit(text).alias("epoch", metadata={"comment": table("rebalances").column("epoch").about})


def test_a_warehouse_of_a_newer_release_is_left_alone_and_refused(spark, tmp_path):
    warehouse = write(spark, tmp_path, [rebalance(1, NOW), rebalance(2, NOW)])
    newer = SCHEMA_VERSION + 1
    evolution.set_property(spark, warehouse.path("rebalances"), SCHEMA_VERSION_PROPERTY, str(newer))
    version = DeltaTable(warehouse.path("rebalances")).version()
    for refused in (
        lambda: run_maintain(spark, Upkeep(warehouse=str(tmp_path))),
        lambda: warehouse.ensure("rebalances"),
        lambda: rebalances_of(Asked(str(tmp_path)), None),
    ):
        with pytest.raises(WarehouseError, match=f"newer release: it follows version {newer}"):
            refused()
    assert DeltaTable(warehouse.path("rebalances")).version() == version


def content(warehouse, names):
    return {name: sorted(map(repr, warehouse.read(name).drop("run_id").collect())) for name in names}


@pytest.mark.long
def test_an_audit_after_upkeep_changes_nothing(spark, tmp_path):
    """Neither a repeated one nor one that derives everything anew, with half of the history given up."""
    options = {"inputs": [Sample("group-lifecycles").segments], "warehouse": str(tmp_path / "warehouse")}
    run_audit(spark, Options(**options))
    warehouse = Warehouse(spark, options["warehouse"])
    ended = sorted(row[0] for row in warehouse.read("rebalances").select("completed_at").collect() if row[0])
    middle = ended[len(ended) // 2]
    names = set(tables()) - {"audit_runs", "group_state"}
    before = content(warehouse, names)
    done = {
        kept.name: kept
        for kept in run_maintain(
            spark, Upkeep(warehouse=options["warehouse"], keep=DAY), now=middle.replace(tzinfo=UTC) + DAY
        )
    }
    assert {name for name, kept in done.items() if kept.rows_removed} == {
        "rebalances",
        "member_timeline",
        "group_metrics",
    }
    maintained = content(warehouse, names)
    assert {name for name in names if maintained[name] != before[name]} == {
        name for name, kept in done.items() if kept.rows_removed
    }
    for full in (False, True):
        run_audit(spark, Options(**options, full=full))
        assert content(warehouse, names) == maintained


def test_every_row_of_tables_that_forget_says_when_it_was_over():
    from coordinator_replay.pipeline.keeping import FORGETFUL

    for name, column in FORGETFUL.items():
        assert table(name).column(column).type == "timestamp"
