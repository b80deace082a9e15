"""What counts as a change of a cluster's rows, and what does not."""

import json
from pathlib import Path

import pytest
from delta.tables import DeltaTable

from coordinator_replay.pipeline.data_files import DataFiles
from coordinator_replay.pipeline.warehouse import Warehouse

pytestmark = pytest.mark.spark


@pytest.fixture
def warehouse(spark, tmp_path):
    """With a table that has rows of cluster a in two commits."""
    made = Warehouse(spark, str(tmp_path / "warehouse"))
    made.ensure("topics")
    add(made, "a", "b")
    add(made, "a", "c")
    return made


def add(warehouse, cluster, *topics):
    files = DataFiles({"topics": warehouse.own_part("topics")})
    files.add_rows("topics", [{"cluster": cluster, "topic_id": name * 22, "topic": name} for name in topics])
    return warehouse.add_files("topics", files.close())


def is_as_left(warehouse, version, cluster="a"):
    return warehouse.is_as_left("topics", version, cluster)


def test_a_table_is_as_left_at_the_version_that_it_has(warehouse):
    assert is_as_left(warehouse, 2)
    assert not is_as_left(warehouse, 1)
    assert not is_as_left(warehouse, 3)
    assert not is_as_left(warehouse, None)


def test_rows_of_another_cluster_come_and_go(warehouse):
    add(warehouse, "b", "d")
    gone = [file.path for file in warehouse.held("topics") if file.lowest["cluster"] == "b"]
    assert warehouse.swap("topics", [], gone) == 4
    assert is_as_left(warehouse, 2)
    assert is_as_left(warehouse, 3)
    assert not is_as_left(warehouse, 2, "b")


def test_rows_of_the_cluster_that_go_are_a_change(warehouse):
    [first, _] = [file.path for file in warehouse.held("topics")]
    warehouse.swap("topics", [], [first])
    assert not is_as_left(warehouse, 2)


def test_upkeep_is_no_change_but_does_not_hide_one(spark, warehouse):
    spark.sql(f"OPTIMIZE delta.`{warehouse.path('topics')}`")
    assert len(warehouse.held("topics")) == 1
    assert is_as_left(warehouse, 2)
    # What a killed run has added and upkeep has put elsewhere since.
    add(warehouse, "a", "e")
    spark.sql(f"OPTIMIZE delta.`{warehouse.path('topics')}`")
    assert not is_as_left(warehouse, 2)


def test_a_file_of_two_clusters_may_hold_anything(spark, warehouse):
    add(warehouse, "b", "d")
    spark.sql(f"OPTIMIZE delta.`{warehouse.path('topics')}`")
    assert is_as_left(warehouse, 2)
    DeltaTable.forPath(spark, warehouse.path("topics")).delete("cluster = 'b'")
    assert not is_as_left(warehouse, 2)


def test_other_properties_and_commits_that_are_gone_prove_nothing(spark, warehouse):
    add(warehouse, "b", "d")
    log = Path(warehouse.path("topics")) / "_delta_log"
    assert is_as_left(warehouse, 2)
    spark.sql(f"ALTER TABLE delta.`{warehouse.path('topics')}` SET TBLPROPERTIES ('x' = 'y')")
    assert not is_as_left(warehouse, 2)
    told = [json.loads(line) for line in (log / f"{4:020}.json").read_text().splitlines()]
    assert any("metaData" in action for action in told)
    add(warehouse, "b", "f")
    assert is_as_left(warehouse, 4)
    (log / f"{5:020}.json").rename(log / "aside")
    (log / f"{6:020}.json").write_text("")
    assert not is_as_left(warehouse, 4)
