"""A stage as Spark runs it: each task is sent its own share, and small files share a task."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark import TaskContext

from coordinator_replay.pipeline.stage import FEWEST_BYTES, OPEN_COST_BYTES, TASK_BYTES, SparkStages, together


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


@pytest.mark.spark
def test_each_task_is_sent_its_own_share_the_largest_first(spark, tmp_path):
    shares = [Share(n, str(tmp_path)) for n in range(20)]
    found = SparkStages(spark).run("square", shares, squared, lambda share: share.number)
    assert found == [Square(shares[n], n * n, 19 - n) for n in range(20)]
    assert len(list(tmp_path.iterdir())) == 20


@pytest.mark.spark
def test_no_share_is_no_task(spark):
    assert SparkStages(spark).run("nothing", [], squared) == []


@pytest.mark.parametrize(
    ("sizes", "parallel", "expected"),
    [
        pytest.param([TASK_BYTES * 3], 1, [1], id="a segment is never split"),
        pytest.param([100 << 20] * 3, 2, [1, 1, 1], id="large ones have a task each"),
        pytest.param([100] * 8, 4, [8], id="a handful of small ones"),
        pytest.param([1 << 20] * 8, 4, [2] * 4, id="a part for every core"),
        pytest.param([1000] * 10_000, 2, [1008] * 9 + [928], id="thousands of small ones"),
        pytest.param([1 << 10, 200 << 20, 1 << 10], 1, [1, 1, 1], id="in the order given"),
    ],
)
def test_small_files_share_a_task(sizes, parallel, expected):
    tasks = together(sizes, lambda size: size, parallel)
    assert [len(task) for task in tasks] == expected
    assert [size for task in tasks for size in task] == sizes


def test_what_a_task_is_sent_grows_with_its_own_share():
    tasks = together(list(range(10_000)), lambda _: 1000, 2)
    assert FEWEST_BYTES < TASK_BYTES
    assert all(len(task) <= TASK_BYTES // OPEN_COST_BYTES for task in tasks)
