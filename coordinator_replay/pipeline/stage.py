"""A stage: a plain function from a share of work to a small result, run by Spark, a task a share.

The shares of a stage are its manifest, a DataFrame of one row a share, and its results are another one: both in typed
columns (``typed_rows``). Each task is sent its own row, and what all tasks need alike goes along with the function,
once. Workers read and write the files themselves, so all that Spark moves is file names and counts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.log.dump import Dump
from coordinator_replay.pipeline.read.sources import read_tables
from coordinator_replay.pipeline.typed_rows import result_column, share_column

TASK_BYTES, FEWEST_BYTES, OPEN_COST_BYTES = 64 << 20, 1 << 20, 1 << 16
"""How much a task reads of several files at most, how little is not worth a task of its own, and what opening a file
costs, in bytes that could be read meanwhile."""

Share = TypeVar("Share")
Result = TypeVar("Result")


class Stages(Protocol):
    """What runs the stages of an audit: Spark, or a test in its own process."""

    @property
    def parallel(self) -> int:
        """How many tasks run at once."""

    def run(
        self,
        name: str,
        shares: Sequence[Share],
        stage: Callable[[Share], Result],
        size: Callable[[Share], int] = ...,
        /,
    ) -> list[Result]:
        """Run a stage.

        Args:
            name: what it is called where a person looks.
            shares: the work.
            stage: the function; it may run twice for a share, and only one of its results counts.
            size: about how much work a share is: the largest begins first, so that no core waits for it at the end.

        Returns:
            the results, in the order of the shares.
        """

    def run_on_rows(
        self, name: str, dump: Dump, stage: Callable[[Iterator[pa.RecordBatch]], Result], /
    ) -> list[Result]:
        """Run a stage on the rows of a dump that is a table; it makes one result of the batches of a task."""


@dataclass(frozen=True, slots=True)
class SparkStages:
    """Runs stages on a Spark session."""

    spark: SparkSession

    @property
    def parallel(self) -> int:
        """How many tasks run at once."""
        return int(self.spark.sparkContext.defaultParallelism)

    def run(
        self,
        name: str,
        shares: Sequence[Share],
        stage: Callable[[Share], Result],
        size: Callable[[Share], int] = lambda _share: 0,
        /,
    ) -> list[Result]:
        """Run a stage, a task a share: an action."""
        if not shares:
            return []
        places = sorted(range(len(shares)), key=lambda place: -size(shares[place]))
        sent = share_column(stage).array(shares[place] for place in places)
        manifest = pa.table([pa.array(places), sent], ["place", "share"])

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                shares = share_column(stage).values(batch.column("share"))
                for place, share in zip(batch.column("place").to_pylist(), shares, strict=True):
                    yield _result(place, stage(share), stage)

        # A batch is a partition, see RELIED_ON.
        rows = self.spark.createDataFrame(pa.Table.from_batches(manifest.to_batches(max_chunksize=1)))
        return self._results(name, rows.mapInArrow(run, _result_schema(stage)), stage)

    def run_on_rows(
        self, name: str, dump: Dump, stage: Callable[[Iterator[pa.RecordBatch]], Result], /
    ) -> list[Result]:
        """Run a stage on the rows of a dump that Spark reads, a task a partition of them: an action."""
        rows, log_records = read_tables(self.spark, dump)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield _result(0, stage(map(log_records, batches)), stage)

        return self._results(name, rows.mapInArrow(run, _result_schema(stage)), stage)

    def _results(self, name: str, rows: DataFrame, stage: Callable[..., Result]) -> list[Result]:
        """Run the tasks, named for Spark's pages, and read what they return."""
        context = self.spark.sparkContext
        context.setJobDescription(name)
        try:
            # Not one by one: toLocalIterator would run a task only when the one before it is done.
            made = rows.toArrow().sort_by("place")
        finally:
            context.setJobDescription("")
        return result_column(stage).values(made.column("result"))


def _result(place: int, result: object, stage: Callable[..., Any]) -> pa.RecordBatch:
    """A result as a task hands it over."""
    return pa.record_batch([pa.array([place]), result_column(stage).array([result])], ["place", "result"])


def _result_schema(stage: Callable[..., Any]) -> StructType:
    schema = pa.schema([("place", pa.int64()), ("result", result_column(stage).type)])
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def together(shares: Sequence[Share], size: Callable[[Share], int], parallel: int) -> list[list[Share]]:
    """Shares of files in the order given, small ones together, as Spark puts files into partitions.

    A file is never split, and a task has at most ``TASK_BYTES`` of several; small inputs are spread over the cores.

    Args:
        shares: one a file.
        size: bytes of the file.
        parallel: how many tasks run at once.
    """
    costs = [size(share) + OPEN_COST_BYTES for share in shares]
    limit = min(TASK_BYTES, max(sum(costs) // max(parallel, 1), FEWEST_BYTES))
    groups: list[list[Share]] = []
    filled = 0
    for share, cost in zip(shares, costs, strict=True):
        if not groups or filled + cost > limit:
            groups.append([])
            filled = 0
        groups[-1].append(share)
        filled += cost
    return groups
