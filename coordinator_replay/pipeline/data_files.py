"""Parquet files that workers write themselves, with what Delta's log has to know about each.

Rows that Python made reach a table fastest when Python writes them: through the JVM each value is handled five times.
A file counts for nothing until a commit of its table names it, so what a killed worker leaves is never seen, and a
task that is tried twice adds nothing twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.arrow_times import timestamps_of
from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.tables.definition import Table

_GROUP_ROWS = 50_000
_FILE_ROWS = 4_000_000
_LONGEST_TEXT = 32
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that was written.

    Attributes:
        part: which of the writer's parts it belongs to: a table, or a kind of staged row.
        path: the file, as a path or URI.
        rows: how many it has.
        bytes: its size.
        stats: numbers, bounds and nulls of its columns, in the JSON of Delta's log.
    """

    part: str
    path: str
    rows: int
    bytes: int
    stats: str


class GivenUp(NamedTuple):
    """Rows that a table has given up: what was over before a moment, and no record can change any more.

    Attributes:
        over: the column that says when a row was over.
        before: the moment.
        settled: the column that says by which record a row became final; None where all are.
    """

    over: str
    before: datetime
    settled: str | None

    def out_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A batch without such rows."""
        at = rows.column(self.over)
        is_over = pc.less(at, pa.scalar(self.before, at.type)).fill_null(False)
        if self.settled is not None:
            is_over = pc.and_(is_over, pc.is_valid(rows.column(self.settled)))
        return rows.filter(pc.invert(is_over))


@dataclass(frozen=True, slots=True)
class Part:
    """Where the rows of one part go, and in which columns.

    Attributes:
        folder: a path or URI.
        schema: the columns of its files.
        bounded: columns whose bounds help readers to pass over a file.
        required: columns that may hold no null.
        compression: of its files; those that only live as long as a run need none.
        given_up: rows that are left out.
    """

    folder: str
    schema: pa.Schema
    bounded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    compression: str = "zstd"
    given_up: GivenUp | None = None


def aside(folder: str, schema: pa.Schema) -> Part:
    """Where rows go that only live as long as a run."""
    return Part(folder, schema, compression="none")


def part_of(table: Table, folder: str) -> Part:
    """Where rows of a table go."""
    required = tuple(column.name for column in table.columns if column.is_required)
    return Part(folder, table.arrow_schema().remove_metadata(), table.bounded, required)


def _bound(value: Any, *, is_upper: bool) -> Any:
    """A bound as Delta's log writes it: in JSON, no finer than a millisecond; None where it would be too long."""
    if isinstance(value, datetime):
        whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
        if is_upper and whole != value:
            whole += _MILLISECOND
        return whole.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, str):
        # The beginning of a text stands before it, but not behind it.
        return (None if is_upper else value[:_LONGEST_TEXT]) if len(value) > _LONGEST_TEXT else value
    return None if isinstance(value, bytes | date) else value


def _stats(written: pq.FileMetaData, bounded: Iterable[str]) -> dict[str, Any]:
    """What Delta's log says of a file, from its own footer."""
    places = {written.schema.column(place).path: place for place in range(written.num_columns)}
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in bounded:
        told = [written.row_group(group).column(places[name]).statistics for group in range(written.num_row_groups)]
        if any(one is None or one.null_count is None for one in told):
            continue
        nulls[name] = sum(one.null_count for one in told)
        valued = [one for one in told if one.num_values]
        if not valued or not all(one.has_min_max for one in valued):
            continue
        low = _bound(min(one.min for one in valued), is_upper=False)
        high = _bound(max(one.max for one in valued), is_upper=True)
        lowest |= {} if low is None else {name: low}
        highest |= {} if high is None else {name: high}
    return {"numRecords": written.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}


def _value(value: Any, type_: pa.DataType) -> Any:
    """A value if the column can hold it, else None."""
    try:
        pa.array([value], type_)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    return value


def _plain(type_: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(type_) else type_


def _columns(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> list[pa.Array]:
    """Values column by column; those that no column of the type can hold are null."""
    plain = [pa.field(field.name, _plain(field.type)) for field in schema]
    try:
        columns: list[pa.Array] = pa.array(rows, pa.struct(plain)).flatten()
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        columns = [pa.array([_value(row.get(one.name), one.type) for row in rows], one.type) for one in plain]
    return columns


def batch_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of plain values, times in milliseconds, as a batch; a column that a row does not name is null."""
    columns = [
        timestamps_of(column).cast(field.type) if pa.types.is_timestamp(field.type) else column
        for column, field in zip(_columns(rows, schema), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema, **given: Any) -> pa.RecordBatch:
    """Rows in the columns of a schema, by name: with a given value in all of them, else as the batch has it, else null.

    Args:
        batch: the rows.
        schema: the columns to have.
        given: values, or whole columns.
    """
    columns = []
    for field in schema:
        if field.name in given:
            value = given[field.name]
            whole = value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, field.type), batch.num_rows)
            columns.append(whole)
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def some(batch: pa.RecordBatch, taken: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Rows of a batch; without a copy where they are all of them, or none."""
    if taken.all():
        return batch
    return batch.filter(pa.array(taken)) if taken.any() else batch.slice(0, 0)


def _described(name: str, part: Part, path: str, written: pq.FileMetaData) -> DataFile:
    """A file by its own footer.

    Raises:
        CoordinatorReplayError: a column that must have values lacks one; the decoder is broken, not the dump.
    """
    for column, nulls in _stats(written, part.required)["nullCount"].items():
        if nulls:
            raise CoordinatorReplayError(f"{name}.{column}: a row has no value, and every row must have one")
    filesystem, place = open_filesystem(path)
    size = filesystem.get_file_info(place).size
    return DataFile(name, path, written.num_rows, size, json.dumps(_stats(written, part.bounded)))


class _Open:
    """A part's file that is being written, and the rows that wait for a row group."""

    def __init__(self, name: str, part: Part) -> None:
        self.name = name
        self.part = part
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_rows = 0
        self.rows = 0
        self.path = ""
        self.writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        self.waiting_rows += batch.num_rows
        if self.waiting_rows >= _GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self.waiting_rows:
            return
        writer = self.writer = self.writer or self.begin()
        table = pa.Table.from_batches(self.waiting, self.part.schema)
        writer.write_table(table, row_group_size=self.waiting_rows)
        self.rows += self.waiting_rows
        self.waiting, self.waiting_rows = [], 0

    def begin(self) -> pq.ParquetWriter:
        self.path = f"{self.part.folder}/part-{uuid4()}.parquet"
        filesystem, folder = open_filesystem(self.part.folder)
        filesystem.create_dir(folder, recursive=True)
        _, path = open_filesystem(self.path)
        self.metadata: list[pq.FileMetaData] = []
        return pq.ParquetWriter(
            path,
            self.part.schema,
            filesystem=filesystem,
            compression=self.part.compression,
            # Numbers seldom repeat: looking each up costs more than it saves.
            use_dictionary=[field.name for field in self.part.schema if pa.types.is_string(field.type)],
            store_schema=False,
            metadata_collector=self.metadata,
        )

    def close(self) -> DataFile | None:
        """Finish the file.

        Raises:
            CoordinatorReplayError: a column that must have values lacks one; the decoder is broken, not the dump.
        """
        self.flush()
        if self.writer is None:
            return None
        self.writer.close()
        self.writer = None
        [written] = self.metadata
        self.rows = 0
        return _described(self.name, self.part, self.path, written)


class DataFiles:
    """Writes rows of several parts, each to files of its own; one writer a task.

    Args:
        parts: what there is to write, by name.
    """

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self.parts = parts
        self.open = {name: _Open(name, part) for name, part in parts.items()}
        self.done: list[DataFile] = []

    def add(self, name: str, batch: pa.RecordBatch) -> None:
        """Add rows to a part, in the part's columns; what its table has given up is left out."""
        file, given_up = self.open[name], self.parts[name].given_up
        file.add(batch if given_up is None else given_up.out_of(batch))
        if file.rows >= _FILE_ROWS:
            self._end(file)

    def add_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows of plain values to a part, see ``batch_of``."""
        if rows:
            self.add(name, batch_of(rows, self.parts[name].schema))

    def _end(self, file: _Open) -> None:
        done = file.close()
        if done is not None:
            self.done.append(done)

    def close(self) -> list[DataFile]:
        """Finish all files; what was written."""
        for file in self.open.values():
            self._end(file)
        return self.done


WRITTEN_SCHEMA = pa.schema(
    [("part", pa.string()), ("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("stats", pa.string())]
)
"""What a task that wrote files returns: a row a file."""

WRITTEN = "part STRING, path STRING, rows BIGINT, bytes BIGINT, stats STRING"
"""The same as Spark has it."""


def written_rows(files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
    """Files as rows in WRITTEN."""
    rows = [asdict(file) for file in files]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN_SCHEMA)


def file_of(row: Any) -> DataFile:
    """A file from a row of WRITTEN."""
    return DataFile(*(row[field.name] for field in fields(DataFile)))


def files_of(written: DataFrame) -> dict[str, list[DataFile]]:
    """Run the tasks and learn what they wrote, by part: an action, and a row a file."""
    files: dict[str, list[DataFile]] = {}
    # Not one by one: toLocalIterator would run a task only when the one before it is done.
    for row in written.collect():
        files.setdefault(row["part"], []).append(file_of(row))
    return files


def read_files(spark: SparkSession, files: Iterable[DataFile], schema: StructType) -> DataFrame:
    """What files hold; no rows where there are none."""
    return read_paths(spark, [file.path for file in files], schema)


def read_paths(spark: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    """What the files at some paths hold; no rows where there are none."""
    # Names of folders may hold characters that would stand for others.
    reader = spark.read.schema(schema).option("__globPaths__", "false")
    return reader.parquet(*paths) if paths else spark.createDataFrame([], schema)


def keep(rows: DataFrame, folder: str) -> DataFrame:
    """Write an intermediate step once: what follows reads only the columns it needs, and Spark sees how small it is."""
    rows.write.parquet(folder)
    return rows.sparkSession.read.schema(rows.schema).parquet(folder)


def paths_of(kept: DataFrame) -> list[str]:
    """The files of an intermediate step that was kept on this machine, for tasks that read them."""
    return [path.removeprefix("file://") for path in kept.inputFiles()]


def in_columns(rows: DataFrame, schema: StructType) -> DataFrame:
    """Rows in the columns of a schema, by name: others are left out, and missing ones null."""
    there = set(rows.columns)
    return rows.select(
        *(
            (F.col(field.name) if field.name in there else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in schema
        )
    )


def write_frame(rows: DataFrame, name: str, part: Part) -> list[DataFile]:
    """Write rows as files of a part, by Spark itself: an action; a column that they lack is null.

    To hand rows of many columns to Python takes longer than to write them: Spark adds up the size of the whole batch
    after each row, and what it does to columns of nulls grows with the square of the batch.
    """
    written = f"{part.folder}/{uuid4()}"
    told = in_columns(rows, from_arrow_schema(part.schema, prefer_timestamp_ntz=False))
    writer = told.write.option("compression", part.compression)
    writer.option("parquet.block.row.count.limit", str(_GROUP_ROWS)).parquet(written)
    return list(_taken(written, name, part))


def _taken(written: str, name: str, part: Part) -> Iterator[DataFile]:
    """Files that Spark wrote, brought into a part's own folder."""
    filesystem, folder = open_filesystem(written)
    for info in filesystem.get_file_info(fs.FileSelector(folder)):
        if info.type != fs.FileType.File or not info.base_name.endswith(".parquet"):
            continue
        with filesystem.open_input_file(info.path) as file:
            metadata = pq.read_metadata(file)
        if not metadata.num_rows:
            continue
        path = f"{part.folder}/part-{uuid4()}.parquet"
        filesystem.move(info.path, open_filesystem(path)[1])
        yield _described(name, part, path, metadata)
    filesystem.delete_dir(folder)
