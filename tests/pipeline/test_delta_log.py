"""Tables that are made, and files that are added, without a plan of Spark's: Spark, deltalake and DuckDB read them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import deltalake
import duckdb
import pyarrow as pa
import pytest
from delta.tables import DeltaTable

from coordinator_replay.errors import WarehouseError
from coordinator_replay.pipeline.data_files import DataFiles, keep, paths_of
from coordinator_replay.pipeline.delta_log import commit_info, make_table, newest_version, plain_files
from coordinator_replay.pipeline.rewriting import GroupsGo, Rewritten, rewritten
from coordinator_replay.pipeline.warehouse import Warehouse, spark_type
from coordinator_replay.tables.definition import table, tables

pytestmark = pytest.mark.spark


def add_topics(warehouse, names):
    part = warehouse.part("topics", str(warehouse.uri))
    files = DataFiles({"topics": part})
    files.add_rows("topics", [{"cluster": "c", "topic_id": name * 22, "topic": name} for name in names])
    return warehouse.add_files("topics", files.close())


def is_of_delta(warehouse, version):
    """Whether Delta's own code made a commit of table topics."""
    return "engineInfo" in commit_info(warehouse.path("topics"), version)


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
    assert not is_of_delta(warehouse, 2)
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


def timeline_rows(groups, settled, cluster="c"):
    """Rows of group_timeline: a final one and one that is not, for each group."""
    about = {"cluster": cluster, "group_type": "classic", "event": "GROUP_CREATED", "to_state": "Empty"}
    more = {"epoch": 0, "member_count": 0, "is_exact": True, "detail": "{}", "log_partition": 0, "log_offset": 1}
    return [
        {**about, **more, "group_id": group, "seq": seq, "settled_at_offset": at}
        for group in groups
        for seq, at in ((2 * settled, settled), (2 * settled + 1, None))
    ]


def timeline_frame(spark, groups, settled, cluster="c"):
    """The same rows as a frame."""
    return spark.createDataFrame(timeline_rows(groups, settled, cluster), spark_type(table("group_timeline")))


def written_apart(warehouse, rows):
    """Files of rows in the table's folder, those that are not final in files of their own."""
    part = warehouse.own_part("group_timeline")
    files = DataFiles({"final": part, "open": part})
    for name, is_open in (("final", False), ("open", True)):
        files.add_rows(name, [row for row in rows if (row["settled_at_offset"] is None) is is_open])
    return files.close()


def test_rows_that_are_not_final_are_replaced_by_their_files_as_by_a_merge(spark, tmp_path):
    found = []
    for name in ("plainly", "merged"):
        warehouse = Warehouse(spark, str(tmp_path / name))
        warehouse.ensure("group_timeline")
        for cluster in "cd":
            warehouse.add_files("group_timeline", written_apart(warehouse, timeline_rows("gh", 5, cluster)))
        touched = spark.createDataFrame([("g", 7), ("new", 7)], "group_id STRING, from_offset BIGINT")
        files = written_apart(warehouse, timeline_rows(["g", "new"], 9))
        if name == "plainly":
            held = [one for one in warehouse.held("group_timeline") if one.nulls["settled_at_offset"] != 0]
            assert len(held) == 2
            paths, part = [one.path for one in held], warehouse.own_part("group_timeline")
            ids = keep(touched, str(tmp_path / "touched"))
            going = GroupsGo(paths_of(ids), "c", only_open=True)
            stay = rewritten(spark, [Rewritten("group_timeline", part, paths, going)])
            assert warehouse.swap("group_timeline", [*files, *stay["group_timeline"]], paths) == 3
        else:
            warehouse.go_on("group_timeline", warehouse.rows("group_timeline", files), touched, "c")
        rows = spark.read.format("delta").load(warehouse.path("group_timeline"))
        found.append(sorted((row["cluster"], row["group_id"], row["seq"]) for row in rows.collect()))
    assert found[0] == found[1]
    assert [row[1:] for row in found[0] if row[0] == "c"] == [
        *(("g", 10), ("g", 18), ("g", 19)),
        *(("h", 10), ("h", 11)),
        *(("new", 18), ("new", 19)),
    ]


def test_rows_of_a_cluster_are_replaced_by_files_and_those_of_others_stay(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")

    def rows(cluster, *names):
        told = [(cluster, name * 22, name) for name in names]
        return spark.createDataFrame(told, "cluster STRING, topic_id STRING, topic STRING")

    for cluster, names in (("c", "ab"), ("d", "x"), ("c", "z")):
        warehouse.replace_cluster("topics", rows(cluster, *names), cluster)
    held = spark.read.format("delta").load(warehouse.path("topics"))
    assert sorted((row["cluster"], row["topic"]) for row in held.collect()) == [("c", "z"), ("d", "x")]
    assert warehouse.replace_cluster("topics", rows("c"), "c") == 4
    assert warehouse.replace_cluster("topics", rows("c"), "c") == 4
    # A file of several clusters is left to Spark.
    mixed = rows("c", "m").unionByName(rows("d", "n")).coalesce(1)
    warehouse.append("topics", mixed, "run")
    warehouse.replace_cluster("topics", rows("c", "k"), "c")
    held = spark.read.format("delta").load(warehouse.path("topics"))
    assert sorted((row["cluster"], row["topic"]) for row in held.collect()) == [("c", "k"), ("d", "n"), ("d", "x")]


def test_a_file_that_somebody_else_removed_meanwhile_ends_the_run_in_a_sentence(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    add_topics(warehouse, ["a"])
    [held] = warehouse.held("topics")
    DeltaTable.forPath(spark, warehouse.path("topics")).delete("topic = 'a'")
    with pytest.raises(WarehouseError, match="changed by somebody else"):
        warehouse.swap("topics", [], [held.path])


def test_every_tenth_commit_is_deltas_own_and_brings_a_checkpoint(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    path = warehouse.path("topics")
    for version in range(1, 12):
        assert add_topics(warehouse, [chr(96 + version)]) == version
    assert warehouse.swap("topics", [], [warehouse.held("topics")[0].path]) == 12
    made = [version for version in range(1, newest_version(path) + 1) if is_of_delta(warehouse, version)]
    assert made == [10]
    assert (tmp_path / f"topics/_delta_log/{10:020}.checkpoint.parquet").exists()
    held = {row["topic"] for row in spark.read.format("delta").load(path).collect()}
    assert len(held) == 10
    assert {row["topic"] for row in warehouse.read("topics").collect()} == held
    assert set(deltalake.DeltaTable(path).to_pyarrow_table()["topic"].to_pylist()) == held


def test_a_table_that_asks_more_of_its_writers_is_committed_to_by_delta(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    add_topics(warehouse, ["a"])
    path = warehouse.path("topics")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    add_topics(warehouse, ["b"])
    assert [is_of_delta(warehouse, version) for version in (1, 3)] == [False, True]
    changes = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3).load(path)
    assert [(row["topic"], row["_change_type"]) for row in changes.collect()] == [("b", "insert")]


def test_of_several_that_add_at_once_none_is_lost(spark, tmp_path):
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    names = "abcdefgh"
    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(lambda name: add_topics(warehouse, [name]), names))
    assert sorted(versions) == list(range(1, 9))
    assert sorted(row["topic"] for row in warehouse.read("topics").collect()) == list(names)


def test_rows_are_replaced_by_files_as_delta_replaces_them(spark, tmp_path, monkeypatch):
    found = []
    for folder in ("plain", "by_delta"):
        if folder == "by_delta":
            monkeypatch.setattr(Warehouse, "held", lambda *_: None)
        warehouse = Warehouse(spark, str(tmp_path / folder))
        warehouse.ensure("group_timeline")
        for cluster in "cd":
            rows = timeline_frame(spark, "gh", 5, cluster)
            assert warehouse.append("group_timeline", rows, "run")[0] == 4
        more = timeline_frame(spark, "g", 9).where("settled_at_offset IS NULL")
        warehouse.replace_where("group_timeline", more, "c", "settled_at_offset IS NULL AND group_id <> 'h'")
        held = spark.read.format("delta").load(warehouse.path("group_timeline"))
        found.append(sorted((row["cluster"], row["group_id"], row["seq"]) for row in held.collect()))
    assert found[0] == found[1]
    assert [row[1:] for row in found[0] if row[0] == "c"] == [("g", 10), ("g", 19), ("h", 10), ("h", 11)]


@pytest.mark.parametrize("is_plain", [True, False])
def test_states_of_groups_are_replaced_however_many_they_are(spark, tmp_path, monkeypatch, is_plain):
    """Of rows that come from Python, Spark does not know how few they are, and joins them as it does large tables."""
    if not is_plain:
        monkeypatch.setattr(Warehouse, "held", lambda *_: None)
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("group_state")

    def states(cluster, groups, to_offset):
        more = {"group_type": "classic", "log_partition": 0, "snapshot_version": 1, "snapshot": "{}", "run_id": "r"}
        told = [{"cluster": cluster, "group_id": group, "to_offset": to_offset, **more} for group in groups]
        return spark.createDataFrame(told, spark_type(table("group_state")))

    for cluster, groups, to_offset in (("c", "ab", 1), ("d", "ab", 2), ("c", "bx", 3)):
        warehouse.replace_groups("group_state", states(cluster, groups, to_offset))
    held = spark.read.format("delta").load(warehouse.path("group_state"))
    told = sorted((row["cluster"], row["group_id"], row["to_offset"]) for row in held.collect())
    assert told == [("c", "a", 1), ("c", "b", 3), ("c", "x", 3), ("d", "a", 2), ("d", "b", 2)]


def test_a_thread_that_has_done_nothing_with_spark_can_make_every_commit(spark, tmp_path):
    """The second commit of Delta's own reads the checkpoint that the first one wrote, where no cache has it."""
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.ensure("topics")
    for version in range(1, 22):
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        with ThreadPoolExecutor(1) as fresh:
            assert fresh.submit(add_topics, warehouse, [f"{version:02}"]).result() == version
    held = {row["topic"] for row in warehouse.read("topics").collect()}
    assert held == {f"{version:02}" for version in range(1, 22)}
