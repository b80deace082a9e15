"""A stage: a plain function from a share of work to a small result, run by Spark, a task a share.

Workers read and write the files themselves, so all that Spark moves is shares and results: file names and counts.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

Share = TypeVar("Share")
Result = TypeVar("Result")

_RESULT = "place INT, result BINARY"
_SCHEMA = pa.schema([("place", pa.int32()), ("result", pa.binary())])


def run_stage(
    spark: SparkSession,
    name: str,
    shares: Sequence[Share],
    stage: Callable[[Share], Result],
    size: Callable[[Share], int] = lambda _share: 0,
) -> list[Result]:
    """Run a stage: an action.

    Args:
        spark: the session.
        name: what Spark's pages call it.
        shares: the work.
        stage: the function; it may run twice for a share, and only one of its results counts.
        size: about how much work a share is: the largest begins first, so that no core waits for it at the end.

    Returns:
        the results, in the order of the shares.
    """
    if not shares:
        return []
    places = sorted(range(len(shares)), key=lambda place: -size(shares[place]))
    work = [(place, shares[place]) for place in places]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                place, share = work[number]
                yield result_batch(place, stage(share))

    tasks = spark.range(0, len(work), 1, len(work))
    return collect_results(spark, name, tasks.mapInArrow(run, _RESULT))


def run_on_rows(
    spark: SparkSession, name: str, rows: DataFrame, stage: Callable[[Iterator[pa.RecordBatch]], Result]
) -> list[Result]:
    """Run a stage over rows that Spark reads, a task a partition of them: an action.

    Args:
        spark: the session.
        name: what Spark's pages call it.
        rows: the rows.
        stage: from the batches of a task to its result.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield result_batch(0, stage(batches))

    return collect_results(spark, name, rows.mapInArrow(run, _RESULT))


def result_batch(place: int, result: object) -> pa.RecordBatch:
    """A result as a task hands it over."""
    return pa.RecordBatch.from_pylist([{"place": place, "result": pickle.dumps(result)}], schema=_SCHEMA)


def collect_results(spark: SparkSession, name: str, rows: DataFrame) -> list[Any]:
    """Run the tasks, named for Spark's pages, and hand over what they came to."""
    context = spark.sparkContext
    context.setJobDescription(name)
    try:
        # Not one by one: toLocalIterator would run a task only when the one before it is done.
        found = rows.collect()
    finally:
        context.setJobDescription("")
    return [pickle.loads(row["result"]) for row in sorted(found, key=lambda row: row["place"])]  # noqa: S301 - our own
