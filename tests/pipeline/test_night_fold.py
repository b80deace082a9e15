"""The fold of a night, whose tasks read the tables' files, against what Spark's plans brought to the same fold."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_replay.pipeline.audit import Options, run_audit
from coordinator_replay.pipeline.data_files import part_of
from coordinator_replay.pipeline.night_fold import fold_night, night_of
from coordinator_replay.pipeline.replay import GROUP_TABLES, STATE_TABLE, Given
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.tables.definition import table
from tests.samples import Sample

pytestmark = pytest.mark.spark

FOLDED = (*GROUP_TABLES, STATE_TABLE)


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """A dump as Spark brought it to the fold: there were no states to go on from."""
    folder = str(tmp_path_factory.mktemp("warehouse"))
    run_audit(spark, Options(inputs=[Sample("java-clients").segments], warehouse=folder, cluster="c"))
    return Warehouse(spark, folder)


@pytest.fixture
def fold(warehouse, tmp_path):
    given = Given(
        cluster="c",
        run_id="later",
        topic_names={row["topic_id"]: row["topic"] for row in warehouse.read("topics").collect()},
    )
    parts = {name: part_of(table(name), str(tmp_path / name)) for name in FOLDED}
    return lambda night: fold_night(warehouse, night, given, parts, str(tmp_path))


def told(paths):
    rows = pa.concat_tables(pq.read_table(path) for path in paths).to_pylist()
    return sorted(repr({name: value for name, value in row.items() if name != "run_id"}) for row in rows)


def changed(warehouse, path, **other):
    """The states, with something else in one of their columns."""
    states = [row for file in warehouse.held(STATE_TABLE) for row in pq.read_table(file.path).to_pylist()]
    schema = table(STATE_TABLE).arrow_schema().remove_metadata()
    pq.write_table(pa.Table.from_pylist([row | other for row in states], schema), path)
    return [str(path)]


def test_files_come_to_what_spark_brings(warehouse, fold):
    night = night_of(warehouse, "c", {})
    gone = fold(replace(night, states=[]))
    for name in FOLDED:
        written = [file.path for part in (name, f"{name}.not_final") for file in gone.files.get(part, [])]
        assert told(written) == told([file.path for file in warehouse.held(name)]), name
    assert gone.has_first
    touched = pa.concat_tables(pq.read_table(file.path) for file in gone.touched).to_pylist()
    assert all(row["is_first"] and row["from_offset"] == -1 for row in touched)
    assert len(touched) == len({row["group_id"] for row in touched}) == warehouse.count(STATE_TABLE, "c")


def test_without_news_nothing_is_written(warehouse, fold):
    gone = fold(night_of(warehouse, "c", {}))
    assert gone == ({}, [], False)
    # Not even looked at are records of which positions tell that their replay is done.
    ends = {row["log_partition"]: row["end"] for row in ends_of(warehouse)}
    assert fold(replace(night_of(warehouse, "c", ends), states=[])) == ({}, [], False)


def ends_of(warehouse):
    return (
        warehouse.read("group_records")
        .groupBy("log_partition")
        .agg({"log_offset": "max"})
        .selectExpr("log_partition", "`max(log_offset)` + 1 AS end")
        .collect()
    )


@pytest.mark.parametrize("other", [{"snapshot_version": 1}, {"log_partition": 999}])
def test_groups_that_begin_anew_are_left_to_spark(other, warehouse, fold, tmp_path):
    night = night_of(warehouse, "c", {})
    assert fold(replace(night, states=changed(warehouse, tmp_path / "states.parquet", **other))) is None


def test_only_few_groups_are_folded_from_files(warehouse, monkeypatch):
    from coordinator_replay.pipeline import night_fold

    monkeypatch.setattr(night_fold, "_MOST_GROUPS", 3)
    assert night_of(warehouse, "c", {}) is None
