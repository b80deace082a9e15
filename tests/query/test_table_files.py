"""What DuckDB is told to read: the files of the newest version, and only those that can hold the rows asked for."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Field, TableFeatures, write_deltalake
from deltalake.schema import PrimitiveType

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query import saved
from coordinator_replay.query.groups import groups_at
from coordinator_replay.query.saved import run_saved_query, saved_queries
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.table_files import select_files
from coordinator_replay.query.tables import Tables
from coordinator_replay.store.duckdb_files import quoted
from coordinator_replay.store.layout import UPKEEP_PROPERTY
from coordinator_replay.store.local_paths import local_path
from tests.nightly import rest_at_night
from tests.query.small_warehouse import offset, write_rows, write_small_warehouse

COUNT = "SELECT count(*) FROM offset_history WHERE cluster = $cluster AND group_id = $group"


def count(folder: Path, group: str) -> int:
    return int(Tables(str(folder)).rows(COUNT, group=group)[0][0])


def test_files_without_the_group_are_not_even_opened(tmp_path: Path):
    for group in ("a", "b", "c"):
        write_rows(tmp_path, "offset_history", [offset("t", 0, 1, "02:00", group_id=group)])
    table = DeltaTable(str(tmp_path / "offset_history"))
    actions = table.get_add_actions(flatten=True)
    groups = actions.column("min.group_id").to_pylist()
    for path, group in zip(actions.column("path").to_pylist(), groups, strict=True):
        if group != "b":
            (tmp_path / "offset_history" / path).unlink()
    assert count(tmp_path, "b") == 1


LONG = "a-name-longer-than-the-statistics-of-a-file-keep-of-it-"
NAMES = ["a", "A", "a'b", "ü", "注文", "\U0001f600", "a b", "%", "a\nb", LONG, LONG + "\U0010ffff", "\x01", "NULL"]


@pytest.mark.parametrize("name", rest_at_night(NAMES, ["A", "a'b", "ü", LONG + "\U0010ffff"]), ids=ascii)
def test_a_group_of_any_name_is_found_among_others(tmp_path: Path, name: str):
    for other in (name, name + "x", name + "x", "\x01" + name):
        write_rows(tmp_path, "offset_history", [offset("t", 0, 1, "02:00", group_id=other)])
    assert [count(tmp_path, other) for other in (name, name + "x", "\x01" + name, name[:-1])] == [1, 2, 1, 0]


def test_rows_of_an_older_version_are_gone(tmp_path: Path):
    write_rows(tmp_path, "offset_history", [offset("t", 0, 1, "02:00"), offset("t", 1, 2, "02:00", group_id="b")])
    mine = CommitProperties(custom_metadata={UPKEEP_PROPERTY: "rows of tests"})
    DeltaTable(str(tmp_path / "offset_history")).delete("group_id = 'b'", commit_properties=mine)
    assert count(tmp_path, "b") == 0
    assert count(tmp_path, "payments") == 1


def test_a_column_that_older_files_lack_reads_as_null(tmp_path: Path):
    write_rows(tmp_path, "offset_history", [offset("t", 0, 1, "02:00")])
    table = DeltaTable(str(tmp_path / "offset_history"))
    newer = Field("newer", PrimitiveType("string"))
    table.alter.add_columns([newer])
    write_rows(tmp_path, "offset_history", [offset("u", 0, 1, "02:00")])
    answer = Tables(str(tmp_path)).rows("SELECT topic, newer FROM offset_history ORDER BY topic")
    assert answer == [("t", None), ("u", None)]


def test_a_column_that_the_table_lacks_is_told_as_an_older_warehouse(tmp_path: Path):
    write_rows(tmp_path, "offset_history", [])
    with pytest.raises(WarehouseError, match="not those of this release, they lack the column newer; "):
        Tables(str(tmp_path)).rows("SELECT newer FROM offset_history")


@pytest.fixture
def older(tmp_path: Path) -> Tables:
    """A warehouse whose table ``removed_offsets`` an older release made, without the column ``ended_facts``."""
    write_small_warehouse(tmp_path)
    path = str(tmp_path / "removed_offsets")
    rows = DeltaTable(path).to_pyarrow_table().drop_columns(["ended_facts"])
    mine = CommitProperties(custom_metadata={UPKEEP_PROPERTY: "rows of tests"})
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", commit_properties=mine)
    return Tables(str(tmp_path))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT ended_facts FROM removed_offsets",
        "SELECT r.ENDED_FACTS FROM removed_offsets r",
        "SELECT * EXCLUDE (ended_facts) FROM removed_offsets",
        "SELECT fact.kind FROM removed_offsets, unnest(removed_offsets.ended_facts) AS facts(fact)",
    ],
)
def test_sql_tells_a_column_that_the_table_lacks_as_an_older_warehouse(older: Tables, statement: str):
    with pytest.raises(WarehouseError, match="not those of this release, they lack the column ended_facts; "):
        run_sql(older, statement)


def test_a_saved_query_tells_a_column_that_the_table_lacks(older: Tables, monkeypatch: pytest.MonkeyPatch):
    name, query = next(iter(saved_queries().items()))
    needing = replace(query, sql="SELECT ended_facts FROM removed_offsets", parameters=())
    monkeypatch.setattr(saved, "saved_queries", lambda: {name: needing})
    with pytest.raises(WarehouseError, match="they lack the column ended_facts; "):
        run_saved_query(older, name)


def test_a_column_of_no_release_is_a_mistake_of_the_statement(older: Tables):
    for statement in ("SELECT newer FROM removed_offsets", "SELECT ended_facts FROM offset_commits"):
        with pytest.raises(UsageError, match="not found in FROM clause"):
            run_sql(older, statement)


def test_empty_tables_have_their_columns_and_types(tmp_path: Path):
    for name in ("member_timeline", "audit_runs"):
        write_rows(tmp_path, name, [])
    warehouse = Tables(str(tmp_path))
    typed = "SELECT assigned[1].partitions[1] + 1, valid_from AT TIME ZONE 'UTC' FROM member_timeline"
    assert warehouse.rows(typed) == []
    assert warehouse.rows("SELECT to_offsets[3] + 1 FROM audit_runs") == []


@pytest.mark.parametrize(
    "name", rest_at_night(["with [brackets]", "what?", "plain name", "quote's"], ["with [brackets]", "quote's"])
)
def test_a_warehouse_can_have_any_name(folder: Path, tmp_path: Path, name: str):
    copy = tmp_path / name
    shutil.copytree(folder, copy)
    assert groups_at(Tables(str(copy))) == groups_at(Tables(str(folder)))


def test_a_file_uri_is_a_path_on_this_machine(folder: Path):
    assert local_path("s3://bucket/warehouse") is None
    assert groups_at(Tables(folder.as_uri())) == groups_at(Tables(str(folder)))


def test_partition_columns_are_those_of_each_file(tmp_path: Path):
    for cluster, bucket in (("default", 3), ("it's", 3), ("default", 7)):
        write_rows(tmp_path, "offset_history", [offset("t", 0, 1, "02:00", cluster=cluster, bucket=bucket)])
    rows = Tables(str(tmp_path)).rows("SELECT cluster, bucket, is_open FROM offset_history ORDER BY ALL")
    assert rows == [("default", 3, False), ("default", 7, False), ("it's", 3, False)]
    seven = "SELECT topic FROM offset_history WHERE bucket = 7 AND cluster = $cluster"
    assert Tables(str(tmp_path)).rows(seven) == [("t",)]


def test_a_table_with_features_that_its_files_do_not_show_is_refused(tmp_path: Path):
    write_rows(tmp_path, "offset_history", [offset("t", 0, 1, "02:00")])
    table = DeltaTable(str(tmp_path / "offset_history"))
    table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(WarehouseError, match="features of Delta"):
        count(tmp_path, "payments")


def test_no_file_is_named_when_none_can_hold_the_row(tmp_path: Path):
    write_rows(tmp_path, "offset_history", [offset("t", 0, 1, "02:00")])
    opened = Tables(str(tmp_path))
    table, snapshot = opened.table("offset_history"), opened.snapshot("offset_history")
    assert "read_parquet" not in select_files(list, table, snapshot, {"group_id": "zzz"})
    assert "read_parquet" not in select_files(list, table, snapshot, {"cluster": "other"})
    assert "read_parquet" in select_files(list, table, snapshot, {"group_id": "payments"})


def test_quotes_in_names_stay_inside_their_literal():
    assert quoted("a'b") == "'a''b'"
