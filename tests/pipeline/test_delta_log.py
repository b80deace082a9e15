"""Tables that are made, and files that are added, without a plan of Spark's: Spark, deltalake and DuckDB read them."""

import threading

import deltalake
import duckdb
import pyarrow as pa
import pytest
from delta.tables import DeltaTable

from coordinator_replay.errors import WarehouseError
from coordinator_replay.pipeline.data_files import DataFiles
from coordinator_replay.pipeline.delta_log import commit_info, make_table, newest_version, plain_files
from coordinator_replay.pipeline.warehouse import Warehouse, spark_type
from coordinator_replay.tables.definition import table, tables

pytestmark = pytest.mark.spark


def add_topics(warehouse, names):
    part = warehouse.part("topics", str(warehouse.uri))
    files = DataFiles({"topics": part})
    files.add_rows("topics", [{"cluster": "c", "topic_id": name * 22, "topic": name} for name in names])
    return warehouse.add_files("topics", files.close())


@pytest.mark.parametrize("name", tables())
def test_a_table_has_the_columns_comments_and_clustering_of_its_definition(spark, tmp_path, name):
    Warehouse(spark, str(tmp_path)).ensure(name)
    made, definition = DeltaTable.forPath(spark, str(tmp_path / name)), table(name)
    fields = {field.name: field for field in made.toDF().schema}
    assert list(fields) == [column.name for column in definition.columns]
    detail = made.detail().select("description", "clusteringColumns", "properties").first()
    assert detail["description"] == definition.about
    assert tuple(detail["clusteringColumns"]) == definition.clustering
    for column in definition.columns:
        assert fields[column.name].dataType.simpleString() == column.type
        assert fields[column.name].metadata["comment"] == column.about


def test_files_that_workers_wrote_are_rows_for_every_reader(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    assert warehouse.is_new("topics")
    assert add_topics(warehouse, ["a", "b"]) == 1
    assert not warehouse.is_new("topics")
    path = warehouse.path("topics")
    assert {row["topic"] for row in warehouse.read("topics").where("topic_id >= 'b'").collect()} == {"b"}
    assert set(deltalake.DeltaTable(path).to_pyarrow_table()["topic"].to_pylist()) == {"a", "b"}
    held = duckdb.from_arrow(deltalake.DeltaTable(path).to_pyarrow_dataset())
    assert held.filter("topic = 'a'").aggregate("count(*)").fetchall() == [(1,)]


def test_files_are_the_table_only_where_nothing_else_says_what_is_in_them(spark, tmp_path):
    odd = Warehouse(spark, str(tmp_path / "a[b]c* {d} %41"))
    odd.ensure("topics")
    assert plain_files(odd.path("topics")) is None
    add_topics(odd, ["a"])
    assert [row["topic"] for row in odd.read("topics").collect()] == ["a"]
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    path = warehouse.path("topics")
    assert plain_files(path) == []
    add_topics(warehouse, ["a", "b"])
    assert len(plain_files(path)) == 1
    assert [row["topic"] for row in warehouse.read("topics").where("topic > 'a'").collect()] == ["b"]
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    DeltaTable.forPath(spark, path).delete("topic = 'a'")
    assert plain_files(path) is None
    assert [row["topic"] for row in warehouse.read("topics").collect()] == ["b"]
    assert plain_files(str(tmp_path / "nowhere")) is None


def test_spark_goes_on_with_a_table_that_was_filled_by_files(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    add_topics(warehouse, ["a"])
    more = warehouse.read("topics").selectExpr("cluster", "'zz' AS topic_id", "'z' AS topic")
    assert warehouse.append("topics", more, "run") == (1, 2)
    assert commit_info(warehouse.path("topics"), 2)["userMetadata"] == "run"
    assert warehouse.replace_cluster("topics", more.limit(0), "c") == 3
    assert warehouse.read("topics").isEmpty()


def test_of_two_that_make_a_table_at_once_one_does(tmp_path, spark):
    definition = table("topics")
    schema = spark_type(definition)
    path = str(tmp_path / "topics")
    makers = [threading.Thread(target=make_table, args=(path, definition, schema)) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert newest_version(path) == 0
    assert [file.name for file in (tmp_path / "topics/_delta_log").iterdir()] == [f"{0:020}.json"]
    assert pa.schema(deltalake.DeltaTable(path).schema()).names == [column.name for column in definition.columns]


def test_there_is_no_version_where_there_is_no_table(tmp_path):
    assert newest_version(str(tmp_path / "nothing")) is None


def test_a_folder_with_other_files_is_not_made_a_table(spark, tmp_path):
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics/notes.txt").write_text("mine")
    with pytest.raises(WarehouseError, match="can't be used as table topics: the folder holds other files"):
        Warehouse(spark, str(tmp_path)).ensure("topics")


def test_a_table_that_a_killed_run_was_making_is_made(spark, tmp_path):
    """It dies before the first commit has its name."""
    log = tmp_path / "topics/_delta_log"
    log.mkdir(parents=True)
    (log / ".0.tmp").write_text('{"commitInfo"')
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    assert warehouse.version("topics") == 0
    assert warehouse.read("topics").isEmpty()
