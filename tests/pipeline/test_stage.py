"""A stage as Spark runs it: each task is sent its own share, and small files share a task."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext

from coordinator_replay.errors import StoreError
from coordinator_replay.io_metrics import IoMetrics, StageMetrics
from coordinator_replay.pipeline.stage import (
    FEWEST_BYTES,
    MANIFEST,
    OPEN_COST_BYTES,
    TASK_BYTES,
    SparkStages,
    manifest_of,
    together,
)
from coordinator_replay.store.scan import read_paths
from coordinator_replay.store.writer import FileWriter, staged_part
from tests.nightly import rest_at_night


@dataclass(frozen=True)
class Share:
    """A share that notes which task makes it of its row."""

    number: int
    folder: str

    def __post_init__(self) -> None:
        context = TaskContext.get()
        if context is not None:
            (Path(self.folder) / f"{self.number}-{context.taskAttemptId()}").touch()


class Square(NamedTuple):
    of: Share
    square: int
    partition: int | None


def squared(share: Share) -> Square:
    context = TaskContext.get()
    return Square(share, share.number**2, None if context is None else context.partitionId())


def refused(share: Share) -> Square:
    raise OSError(f"When reading information for key '{share.number}': AWS Error ACCESS_DENIED during HeadObject")


@pytest.mark.spark
def test_tasks_that_a_store_refuses_run_once_and_end_the_stage(spark, tmp_path):
    seen = []
    stages = SparkStages(spark).observed_by(seen.append)
    for run in (stages.run, stages.run_on_files):
        with pytest.raises(StoreError, match="2 of 2 tasks were refused: When reading information for key"):
            run("read", [Share(number, str(tmp_path)) for number in range(2)], refused)
    # A task that fails ends the stage before the other one has run.
    assert sorted(path.name.partition("-")[0] for path in tmp_path.iterdir()) == ["0", "0", "1", "1"]
    assert seen == []


@pytest.fixture
def adaptive(spark):
    """The session with adaptive execution, as clusters have it."""
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.adaptive.enabled", before)


@pytest.mark.spark
def test_each_bucket_is_a_task_on_one_machine(spark, tmp_path):
    check_tasks(spark, tmp_path, 10)


@pytest.mark.spark
@pytest.mark.parametrize("count", rest_at_night([1, 3, 10, 50], [1, 10]))
def test_each_bucket_is_a_task_where_execution_is_adaptive(adaptive, tmp_path, count):
    check_tasks(adaptive, tmp_path, count)


def check_tasks(session, folder, count):
    """Each share has a task of its own, the largest the first one."""
    shares = [Share(n, str(folder)) for n in range(count)]
    seen = []
    stages = SparkStages(session).observed_by(seen.append)
    found = stages.run("square", shares, squared, lambda share: share.number)
    assert found == [Square(shares[n], n * n, count - 1 - n) for n in range(count)]
    tasks = [path.name.partition("-")[2] for path in folder.iterdir()]
    assert len(tasks) == len(set(tasks)) == count
    assert seen == [StageMetrics("square", count, IoMetrics())]


@pytest.mark.spark
def test_a_stage_by_bucket_is_a_grouped_map_with_one_exchange(adaptive):
    rows = [(rank, "{}") for rank in range(10)]
    grouped = manifest_of(adaptive, rows).groupBy("rank").applyInPandas(lambda frame: frame, MANIFEST)
    plan = grouped._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange") == plan.count("REPARTITION_BY_NUM") == 1
    assert plan.count("FlatMapGroupsInPandas") == 1


@pytest.mark.spark
def test_files_are_mapped_each_in_a_task(spark, tmp_path):
    files = [tmp_path / f"{n}.parquet" for n in range(4)]
    for n, file in enumerate(files):
        pq.write_table(pa.table({"a": list(range(n + 1)), "b": ["x"] * (n + 1)}), file)
    seen = []
    stages = SparkStages(spark).observed_by(seen.append)
    assert stages.run_on_files("add up", list(map(str, files)), added_up, lambda path: len(path)) == [0, 1, 3, 6]
    [(name, tasks, io)] = seen
    assert (name, tasks, io.files_read, io.records_read, io.files_written) == ("add up", 4, 4, 10, 4)
    assert 0 < io.bytes_read < sum(file.stat().st_size for file in files)
    assert io.bytes_written == sum(file.stat().st_size for file in tmp_path.glob("out/*.parquet"))
    assert io.records_written == 4


def added_up(path: str) -> int:
    """Add up a column, and write the sum."""
    found = sum(sum(batch.column("a").to_pylist()) for batch in read_paths([path], ["a"]))
    writer = FileWriter()
    writer.add_rows(staged_part("sum", str(Path(path).parent / "out"), pa.schema([("a", pa.int64())])), [{"a": found}])
    writer.close()
    return found


@pytest.mark.spark
def test_no_share_is_no_task(spark):
    assert SparkStages(spark).run("nothing", [], squared) == []


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([TASK_BYTES * 3], [1], id="a segment is never split"),
        pytest.param([100 << 20] * 3, [1, 1, 1], id="large ones have a task each"),
        pytest.param([100] * 8, [8], id="a handful of small ones"),
        pytest.param([1 << 20] * 100, [2] * 50, id="a part for every log partition"),
        pytest.param([1000] * 10_000, [200] * 50, id="thousands of small ones"),
        pytest.param([1 << 10, 200 << 20, 1 << 10], [1, 1, 1], id="in the order given"),
    ],
)
def test_small_files_share_a_task(sizes, expected):
    tasks = together(sizes, lambda size: size)
    assert [len(task) for task in tasks] == expected
    assert [size for task in tasks for size in task] == sizes


def test_what_a_task_is_sent_grows_with_its_own_share():
    tasks = together(list(range(10_000)), lambda _: 1000)
    assert FEWEST_BYTES < TASK_BYTES
    assert all(len(task) <= TASK_BYTES // OPEN_COST_BYTES for task in tasks)
