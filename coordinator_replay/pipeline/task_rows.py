"""Rows of a table for tasks that go through all of them in no order: from its files where these lie on this machine.

Spark reads a file's columns only to make rows of them and columns again, for Python to have; that takes as long as
what Python then does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TypeVar
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.sums import Bools, Numbers, as_bools, numbers_of
from coordinator_replay.pipeline.warehouse import Warehouse

TEXT_BY_NUMBER = ("group_id", "topic")
"""Columns that a file's batches may have as dictionaries."""

BY_NUMBER = pa.dictionary(pa.int32(), pa.string())
"""The type that they have then."""

_BATCH_ROWS = 50_000
_MOST_TASKS = 64
_TASK_ROWS = 500_000

Batches = Iterator[pa.RecordBatch]

Work = TypeVar("Work")


def open_file(path: str, texts: Sequence[str] = TEXT_BY_NUMBER) -> pq.ParquetFile:
    """A table's file, or one that Spark has written, to be read in a task.

    Args:
        path: the file.
        texts: columns of it that come as dictionaries.
    """
    return pq.ParquetFile(path, read_dictionary=list(texts), coerce_int96_timestamp_unit="us")


def rows_where(
    paths: Sequence[str], columns: Sequence[str], wanted: ds.Expression, texts: Sequence[str] = ()
) -> Batches:
    """Rows of tables' files for which a condition holds; where a row group tells that it has none, it is not read.

    Args:
        paths: the files.
        columns: what to read.
        wanted: the condition.
        texts: columns that come as dictionaries.
    """
    if paths:
        files = ds.dataset(list(paths), format=ds.ParquetFileFormat(dictionary_columns=list(texts)))
        yield from files.to_batches(columns=list(columns), filter=wanted, use_threads=False)


def codes_of(column: pa.DictionaryArray) -> Numbers:
    """Places in the dictionary; the one behind its end for null."""
    return numbers_of(column.indices, len(column.dictionary))


def are_among(column: pa.Array, values: pa.Array) -> Bools:
    """Which rows of a column, as texts or as a dictionary, have one of some values."""
    if not pa.types.is_dictionary(column.type):
        return as_bools(pc.is_in(column, value_set=values))
    told: Bools = np.append(as_bools(pc.is_in(column.dictionary, value_set=values)), False)[codes_of(column)]
    return told


@lru_cache(maxsize=1_000_000)
def _checksum(value: str) -> int:
    return crc32(value.encode("utf-8", "surrogatepass"))


def checksums(column: pa.DictionaryArray) -> Numbers:
    """A checksum of each value, 0 for null: the same in every process, to deal rows out by."""
    told = map(_checksum, column.dictionary.to_pylist())
    return np.array([*told, 0], np.int64)[codes_of(column)]


def per_task(
    spark: SparkSession, work: Sequence[Work], function: Callable[[Work], Batches], schema: StructType | str
) -> DataFrame:
    """Let each piece of work have a task of its own.

    Args:
        spark: the session.
        work: the pieces.
        function: gives batches for a piece.
        schema: what they are.
    """
    pieces = list(work)

    def each(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from function(pieces[number])

    return spark.range(0, len(pieces), 1, max(len(pieces), 1)).mapInArrow(each, schema)


def dealt(spark: SparkSession, work: Sequence[Work], tasks: int = 0) -> list[Sequence[Work]]:
    """Pieces of work, as files, dealt out to tasks.

    Args:
        spark: the session.
        work: the pieces.
        tasks: how many there are at most, or as many as can run at once: for small pieces, more take longer than fewer.
    """
    tasks = min(len(work), max(tasks, int(spark.sparkContext.defaultParallelism)))
    return [work[number::tasks] for number in range(tasks)]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which rows of a file are wanted: of a cluster, and not from before a moment."""

    cluster: str
    time: str
    since: datetime | None

    def may_be_in(self, file: HeldFile) -> bool:
        """Whether a file may hold any."""
        low, high = file.lowest.get("cluster"), file.highest.get("cluster")
        newest = file.highest.get(self.time)
        is_old = self.since is not None and newest is not None and newest < self.since
        may_be_null = file.nulls.get(self.time) != 0
        return (
            (low is None or low <= self.cluster)
            and (high is None or high >= self.cluster)
            and (may_be_null or not is_old)
        )

    def rows(self, path: str, columns: Sequence[str]) -> Batches:
        """Those of a file."""
        names = dict.fromkeys([*columns, "cluster", self.time])
        with open_file(path) as file:
            for rows in file.iter_batches(_BATCH_ROWS, columns=list(names)):
                is_wanted = pc.equal(rows.column("cluster"), self.cluster)
                if self.since is not None:
                    at = rows.column(self.time)
                    is_wanted = pc.and_(is_wanted, pc.greater_equal(at, pa.scalar(self.since, at.type)).fill_null(True))
                mine = rows.filter(is_wanted).select(list(columns))
                # Files of several writers differ in which columns may hold nulls.
                yield pa.RecordBatch.from_arrays(mine.columns, names=mine.schema.names)


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Rows that tasks go through.

    Attributes:
        frame: the rows.
        paths: files that hold them, on this machine; None where only Spark can read them.
        wanted: which rows of the files they are.
        rows: how many rows the files have.
    """

    frame: DataFrame
    paths: Sequence[str] | None = None
    wanted: _Wanted | None = None
    rows: int = 0

    def map(self, columns: Sequence[str], function: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
        """Let tasks go through the rows, as ``mapInArrow`` does.

        Args:
            columns: what the function is given.
            function: from batches to batches; columns of TEXT_BY_NUMBER come as texts or as dictionaries.
            schema: what it yields.
        """
        told = from_arrow_schema(schema, prefer_timestamp_ntz=False)
        paths, wanted, names = self.paths, self.wanted, list(columns)
        if paths is None or wanted is None:
            return self.frame.select(*names).mapInArrow(function, told)
        spark = self.frame.sparkSession
        shares = dealt(spark, paths, min(self.rows // _TASK_ROWS, _MOST_TASKS))

        def each(mine: Sequence[str]) -> Batches:
            return function(rows for path in mine for rows in wanted.rows(path, names))

        return per_task(spark, shares, each, told)


def is_since(column: str, since: datetime | None) -> Column:
    """Whether a row's time is not before a moment, or not known."""
    return F.lit(True) if since is None else F.col(column).isNull() | (F.col(column) >= F.lit(since))


def task_rows(warehouse: Warehouse, name: str, cluster: str, time: str, since: datetime | None) -> TaskRows:
    """Rows of a table.

    Args:
        warehouse: holds it.
        name: the table.
        cluster: whose rows.
        time: the column that tells when a row is from; rows without a time are always taken.
        since: the moment before which they are left out; None for no such.
    """
    frame = warehouse.read(name).where((F.col("cluster") == cluster) & is_since(time, since))
    held = warehouse.held(name)
    wanted = _Wanted(cluster, time, since)
    if held is None:
        return TaskRows(frame)
    files = [file for file in held if wanted.may_be_in(file)]
    return TaskRows(frame, [file.path for file in files], wanted, sum(file.rows or _TASK_ROWS for file in files))
