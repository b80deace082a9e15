"""Rows of several tables by whole groups, for Python that looks at all that is known of a group at once.

Where their files lie on this machine, each task reads those of its groups out of them: what the tables know of groups
is small beside the commits, and a shuffle, its plan and its files take longer than reading all of it. Otherwise Spark
brings groups to tasks, each row as a name and a JSON text: rows of many tables in one would be columns of nulls.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from math import ceil
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.types import TimestampType

from coordinator_replay.pipeline.buckets import by_group
from coordinator_replay.pipeline.sums import Numbers
from coordinator_replay.pipeline.task_rows import checksums, open_file, per_task

Chunk = Mapping[str, pa.Table]
"""Rows of some whole groups, by the name of their source."""

Batches = Iterator[pa.RecordBatch]

_CHUNK_ROWS = 50_000
_TASK_ROWS = 1_000_000
_MOMENT = pa.timestamp("us", tz="UTC")


class Files(NamedTuple):
    """Files on this machine.

    Attributes:
        paths: where they lie.
        cluster: whose rows are taken of them; None where all are.
    """

    paths: Sequence[str]
    cluster: str | None = None

    def rows(self) -> int:
        """How many rows they have."""
        return sum(pq.read_metadata(path).num_rows for path in self.paths)

    def read(self, schema: pa.Schema, is_taken: Callable[[pa.RecordBatch], pa.Array] | None = None) -> pa.Table:
        """Their rows in the columns of a schema.

        Args:
            schema: the columns; moments are numbers there, microseconds.
            is_taken: tells which rows of a batch are wanted, by ``group_id``; None for all.
        """
        names = list(dict.fromkeys(["group_id", *schema.names, *(() if self.cluster is None else ("cluster",))]))
        found = []
        for path in self.paths:
            with open_file(path, ["group_id"]) as file:
                for rows in file.iter_batches(_CHUNK_ROWS, columns=names):
                    mine = rows if is_taken is None else rows.filter(is_taken(rows))
                    if self.cluster is not None:
                        mine = mine.filter(pc.equal(mine.column("cluster"), self.cluster))
                    found.append(_typed(mine, schema))
        return pa.Table.from_batches(found, schema)


class Source(NamedTuple):
    """Rows about groups.

    Attributes:
        schema: the columns that tasks are given, ``group_id`` among them; moments are numbers there, microseconds.
        frame: the rows.
        files: what holds them; None where only Spark can read them.
    """

    schema: pa.Schema
    frame: DataFrame
    files: Files | None


def _typed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the columns of a source."""
    columns = []
    for field in schema:
        column = rows.column(field.name)
        plain = column.cast(_MOMENT) if pa.types.is_timestamp(column.type) else column
        columns.append(plain.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _places(groups: pa.Array) -> Numbers:
    """A number for each row by its group."""
    return checksums(groups if pa.types.is_dictionary(groups.type) else groups.dictionary_encode())


def _chunks(tables: Chunk, tasks: int, most: int) -> Iterator[Chunk]:
    """Rows of whole groups in parts of about so many rows, as far as groups are no larger."""
    parts = max(ceil(sum(table.num_rows for table in tables.values()) / most), 1)
    places = {
        name: _places(table.column("group_id").combine_chunks()) // tasks % parts for name, table in tables.items()
    }
    for part in range(parts):
        yield {name: table.filter(pa.array(places[name] == part)) for name, table in tables.items()}


def _as_text(name: str, source: Source) -> DataFrame:
    """A source's rows as its name and a JSON text."""

    def column(field: pa.Field) -> Column:
        is_moment = isinstance(source.frame.schema[field.name].dataType, TimestampType)
        return (F.unix_micros(field.name) if is_moment else F.col(field.name)).alias(field.name)

    told = F.struct(*map(column, source.schema))
    return source.frame.select(
        "group_id", F.lit(name).alias("source"), F.to_json(told, {"ignoreNullFields": "false"}).alias("told")
    )


def _of_texts(batches: Batches, schemas: Mapping[str, pa.Schema], most: int) -> Iterator[Chunk]:
    """Chunks of rows as Spark brings them, sorted by group."""
    held: dict[str, list[Any]] = defaultdict(list)
    rows, at = 0, None
    for batch in batches:
        for group_id, source, told in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if group_id != at and rows >= most:
                yield {name: pa.Table.from_pylist(held[name], schema) for name, schema in schemas.items()}
                held.clear()
                rows = 0
            held[source].append(json.loads(told))
            rows, at = rows + 1, group_id
    if rows:
        yield {name: pa.Table.from_pylist(held[name], schema) for name, schema in schemas.items()}


def map_groups(
    sources: Mapping[str, Source],
    function: Callable[[Iterator[Chunk]], Batches],
    schema: str,
    *,
    buckets: int,
    most: int = _CHUNK_ROWS,
) -> DataFrame:
    """Let tasks go through groups.

    Args:
        sources: the rows, by name.
        function: from chunks, each with a table for every source, to batches; once for each task.
        schema: what it yields.
        buckets: how many tasks there are where Spark brings the groups.
        most: about how many rows a chunk has at most, as far as groups are no larger.
    """
    spark = next(iter(sources.values())).frame.sparkSession
    schemas = {name: source.schema for name, source in sources.items()}
    files = {name: source.files for name, source in sources.items() if source.files is not None}
    if len(files) == len(sources):
        rows = sum(one.rows() for one in files.values())
        tasks = max(int(spark.sparkContext.defaultParallelism), ceil(rows / _TASK_ROWS))

        def from_files(number: int) -> Batches:
            def is_mine(rows: pa.RecordBatch) -> pa.Array:
                return pa.array(_places(rows.column("group_id")) % tasks == number)

            read = {name: one.read(schemas[name], is_mine) for name, one in files.items()}
            return function(_chunks(read, tasks, most))

        return per_task(spark, range(tasks), from_files, schema)
    texts = reduce(DataFrame.unionByName, (_as_text(name, source) for name, source in sources.items()))
    in_order = by_group(texts, buckets, "group_id").select("group_id", "source", "told")
    return in_order.mapInArrow(lambda batches: function(_of_texts(batches, schemas, most)), schema)
