"""A stage: a plain function from a share of work to a small result. Spark runs a task for each share.

A stage gets its shares as a manifest: a DataFrame with one row for each share, the largest share first. A stage by
bucket is a grouped map over the manifest (``applyInPandas``), a stage on files is a map (``mapInArrow``). Each task
returns a row with its I/O metrics and the value that the stage returns (``typed_json``). Workers read and write the
files themselves, so Spark moves only file names and counts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Protocol, TypeVar

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from coordinator_replay.errors import StoreError
from coordinator_replay.io_metrics import NAMES, IoMetrics, StageMetrics, count, counted
from coordinator_replay.log.dump import Dump
from coordinator_replay.pipeline.host.spark_versions import is_local, named_jobs
from coordinator_replay.pipeline.read.sources import read_tables
from coordinator_replay.pipeline.typed_json import result_json, share_json
from coordinator_replay.store_access import TASK_ADVICE, refusal

TASK_BYTES, FEWEST_BYTES, OPEN_COST_BYTES = 64 << 20, 1 << 20, 1 << 16
"""TASK_BYTES is the most that a task reads from several files. FEWEST_BYTES is the least that is worth a task.
OPEN_COST_BYTES is the cost of opening a file, as the bytes that could be read in that time."""

_TASKS = 50
"""Number of tasks over which files are spread: Kafka's default partition count of the topic. The number does not depend
on the cluster's cores, because a cluster with dynamic allocation has no executor yet when tasks are made."""

MANIFEST = "rank BIGINT, share STRING"
"""The columns of a manifest."""

_RESULT = pa.schema(
    [
        ("rank", pa.int64()),
        *((name, pa.int64()) for name in NAMES),
        # The JSON of the result, or the message of a store that refused access.
        ("result", pa.string()),
        ("refused", pa.string()),
    ]
)
_RESULT_COLUMNS = ", ".join(["rank BIGINT", *(f"{name} BIGINT" for name in NAMES), "result STRING", "refused STRING"])

Share = TypeVar("Share")
Result = TypeVar("Result")


Observer = Callable[[StageMetrics], None]
"""A function that is called with the metrics of each finished stage."""


class Stages(Protocol):
    """A runner of the stages of an audit.

    Spark runs them, or a test runs them in its own process.
    """

    @property
    def is_local(self) -> bool:
        """Return whether all tasks run on one machine."""

    def run(
        self,
        name: str,
        shares: Sequence[Share],
        stage: Callable[[Share], Result],
        size: Callable[[Share], int] = ...,
        /,
    ) -> list[Result]:
        """Run a stage as a grouped map, with a task for each share. If the shares are files, use ``run_on_files``.

        Args:
            name: name of the stage, for people.
            shares: the work, such as buckets.
            stage: the function of the stage. Spark may run it twice for a share, and uses one of the results.
            size: a function that returns a rough measure of a share's work. The largest share begins first.

        Returns:
            The results, in the order of the shares.
        """

    def run_on_files(
        self,
        name: str,
        shares: Sequence[Share],
        stage: Callable[[Share], Result],
        size: Callable[[Share], int] = ...,
        /,
    ) -> list[Result]:
        """Run a stage whose shares are files of an input, as a map. See ``run``."""

    def run_on_rows(
        self, name: str, dump: Dump, stage: Callable[[Iterator[pa.RecordBatch]], Result], /
    ) -> list[Result]:
        """Run a stage on the rows of a dump of Parquet, Delta or JSON lines. Return a result for each task."""

    def observed_by(self, observer: Observer, /) -> "Stages":
        """Return the same stages with one more observer."""


def _no_size(_share: Any) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class SparkStages:
    """Runner of stages on a Spark session, classic or over Spark Connect.

    Attributes:
        spark: the session.
        observers: called with the metrics of each finished stage.
    """

    spark: SparkSession
    observers: tuple[Observer, ...] = ()

    @property
    def is_local(self) -> bool:
        """Return whether all tasks run on one machine."""
        return is_local(self.spark)

    def observed_by(self, observer: Observer, /) -> "SparkStages":
        """Return the same stages with one more observer."""
        return replace(self, observers=(*self.observers, observer))

    def run(
        self,
        name: str,
        shares: Sequence[Share],
        stage: Callable[[Share], Result],
        size: Callable[[Share], int] = _no_size,
        /,
    ) -> list[Result]:
        """Run a stage as a Spark action, with a task for each share."""

        def replay_bucket(rows: pd.DataFrame) -> pd.DataFrame:
            results = [result_row(rank, share, stage) for rank, share in zip(rows["rank"], rows["share"], strict=True)]
            return pd.DataFrame(results, columns=_RESULT.names)

        def tasks(manifest: DataFrame) -> DataFrame:
            return manifest.groupBy("rank").applyInPandas(replay_bucket, _RESULT_COLUMNS)

        return self._run_shares(name, shares, stage, size, tasks)

    def run_on_files(
        self,
        name: str,
        shares: Sequence[Share],
        stage: Callable[[Share], Result],
        size: Callable[[Share], int] = _no_size,
        /,
    ) -> list[Result]:
        """Run a stage on files as a Spark action, with a task for each share."""

        def read_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for rank, share in zip(*(batch.column(name).to_pylist() for name in ("rank", "share")), strict=True):
                    yield _result_batch(result_row(rank, share, stage))

        def tasks(manifest: DataFrame) -> DataFrame:
            return manifest.mapInArrow(read_files, _RESULT_COLUMNS)

        return self._run_shares(name, shares, stage, size, tasks)

    def run_on_rows(
        self, name: str, dump: Dump, stage: Callable[[Iterator[pa.RecordBatch]], Result], /
    ) -> list[Result]:
        """Run a stage on the rows of a dump as a Spark action, with a task for each partition of the rows."""
        rows, log_records = read_tables(self.spark, dump)

        def read_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield _result_batch(_measured(0, lambda: stage(map(log_records, _counted(batches))), stage))

        return self._results(name, rows.mapInArrow(read_rows, _RESULT_COLUMNS), stage)

    def _run_shares(
        self,
        name: str,
        shares: Sequence[Share],
        stage: Callable[[Share], Result],
        size: Callable[[Share], int],
        tasks: Callable[[DataFrame], DataFrame],
    ) -> list[Result]:
        if not shares:
            return []
        places = sorted(range(len(shares)), key=lambda place: -size(shares[place]))
        json = share_json(stage)
        rows = [(rank, json.text(shares[place])) for rank, place in enumerate(places)]
        results = self._results(name, tasks(manifest_of(self.spark, rows)), stage)
        return [result for _, result in sorted(zip(places, results, strict=True), key=lambda pair: pair[0])]

    def _results(self, name: str, tasks: DataFrame, stage: Callable[..., Result]) -> list[Result]:
        """Run the tasks of a stage, named ``name`` in the Spark UI, and return their results in the order of ranks."""
        with named_jobs(self.spark, name):
            # Not toLocalIterator, which would run a task only after the one before it.
            rows = sorted(tasks.collect(), key=lambda row: int(row["rank"]))
        return results_of(name, rows, stage, self.observers)


def manifest_of(spark: SparkSession, rows: Sequence[tuple[int, str]]) -> DataFrame:
    """Return a DataFrame with the shares of a stage. Each row is in its own partition of Spark, in the order of ranks.

    Args:
        spark: the session.
        rows: for each share, its rank and the share as JSON. Ranks count from 0.
    """
    # A pandas frame becomes a local relation. A list of Python rows would become an RDD of pickles, and the first such
    # RDD of a session takes two seconds.
    # ``repartitionByRange`` with a given number gives each row its own partition: Spark samples a manifest completely,
    # and adaptive execution does not merge such partitions. A grouped map by rank then needs no further exchange. A
    # manifest with a single row is not repartitioned, because the first exchange of a session takes more than a second.
    manifest = spark.createDataFrame(pd.DataFrame(rows, columns=["rank", "share"]), MANIFEST).coalesce(1)
    return manifest if len(rows) == 1 else manifest.repartitionByRange(len(rows), "rank")


def result_row(rank: int, share: str, stage: Callable[..., Any]) -> tuple[Any, ...]:
    """Run a stage for a share, and return a row with the rank, the I/O metrics and the result, see ``results_of``."""
    value = share_json(stage).value(share)
    return _measured(rank, lambda: stage(value), stage)


def _measured(rank: int, work: Callable[[], object], stage: Callable[..., Any]) -> tuple[Any, ...]:
    before = counted()
    result = refused = ""
    try:
        result = result_json(stage).text(work())
    except Exception as problem:
        # Spark would retry a failed task three times, and a store that refuses access would do so each time.
        refused = refusal(problem) or ""
        if not refused:
            raise
    return (int(rank), *astuple(counted().since(before)), result, refused)


def results_of(
    name: str, rows: Sequence[Sequence[Any]], stage: Callable[..., Result], observers: Iterable[Observer] = ()
) -> list[Result]:
    """Return the results of a stage's tasks, and tell observers what the tasks have read and written.

    Args:
        name: the stage.
        rows: a row for each task with the columns rank, metrics, result and refused.
        stage: the function that made the results.
        observers: called with the metrics if the stage had a task.

    Raises:
        StoreError: a task was refused access to an object store.
    """
    refused = [row[-1] for row in rows if row[-1]]
    if refused:
        raise StoreError(f"{name}: {len(refused)} of {len(rows)} tasks were refused: {refused[0]}; {TASK_ADVICE}")
    io = IoMetrics.total(IoMetrics(*row[1:-2]) for row in rows)
    for observer in observers if rows else ():
        observer(StageMetrics(name, len(rows), io))
    json = result_json(stage)
    return [json.value(row[-2]) for row in rows]


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches that Spark has read, and count their rows.

    Files and bytes are in Spark's own metrics.
    """
    for batch in batches:
        count(IoMetrics(records_read=batch.num_rows))
        yield batch


def _result_batch(row: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(_RESULT.names, row, strict=True))], _RESULT)


def together(shares: Sequence[Share], size: Callable[[Share], int]) -> list[list[Share]]:
    """Return the files for each task, in the order of the files. A task gets one large file or several small files.

    Several files of a task have at most ``TASK_BYTES`` together. If all files are small, they are spread over
    ``_TASKS`` tasks with at least ``FEWEST_BYTES`` each.

    Args:
        shares: one share for each file.
        size: function that returns the size of a share's file in bytes.
    """
    costs = [size(share) + OPEN_COST_BYTES for share in shares]
    limit = min(TASK_BYTES, max(sum(costs) // _TASKS, FEWEST_BYTES))
    groups: list[list[Share]] = []
    filled = 0
    for share, cost in zip(shares, costs, strict=True):
        if not groups or filled + cost > limit:
            groups.append([])
            filled = 0
        groups[-1].append(share)
        filled += cost
    return groups
