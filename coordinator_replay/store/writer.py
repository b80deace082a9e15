"""Parquet files that workers write, each with its facts for Delta's log.

A file does not count until a commit of its table names it. So files of a killed worker are never read, and a task
that runs twice adds its rows once.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coordinator_replay.arrow_times import timestamps_of
from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.filesystem import make_folder, open_filesystem
from coordinator_replay.io_metrics import IoMetrics, count
from coordinator_replay.store.layout import partition_text
from coordinator_replay.tables.definition import Table

_PLAIN_ROWS = 10_000
"""Number of rows of plain values that wait to be converted to columns together."""
_GROUP_ROWS = 50_000
_GROUP_BYTES = 32 << 20
"""Rows of this many bytes become a row group, however few they are: readers hold a row group in memory."""
_FILE_ROWS = 4_000_000
_LONGEST_TEXT = 32
_LAST_CHARACTER = chr(sys.maxunicode)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that was written.

    Attributes:
        part: the name of the part that the file belongs to.
        table: the table that the file is meant for; None for a staged file.
        path: the file, as a path or URI.
        rows: number of the file's rows.
        size: size in bytes.
        stats: number of rows, bounds and nulls of the file's columns, in the JSON of Delta's log.
        partition: values of the table's partition columns, as Delta's log writes them.
    """

    part: str
    table: str | None
    path: str
    rows: int
    size: int
    stats: str
    partition: tuple[tuple[str, str | None], ...] = ()


class Purge(NamedTuple):
    """A condition on rows of a table that are deleted because they are old (``maintain --keep``).

    Attributes:
        over: the column with the time at which a row ended.
        before: rows that ended before this time are deleted.
        final: the column that is null as long as a later record can change the row. Such rows are not deleted. None if
            no later record can change a row of the table.
    """

    over: str
    before: datetime
    final: str | None

    def out_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without the old rows that the condition selects."""
        at = rows.column(self.over)
        is_over = pc.less(at, pa.scalar(self.before, at.type)).fill_null(False)
        if self.final is not None:
            is_over = pc.and_(is_over, pc.is_valid(rows.column(self.final)))
        return rows.filter(pc.invert(is_over))


@dataclass(frozen=True, slots=True)
class Part:
    """A destination of rows: a folder and the columns of its files.

    Attributes:
        name: name of the part, unique in a writer.
        folder: a path or URI.
        schema: the columns of the part's files.
        bounded: columns whose lowest and highest values in Delta's log help readers to skip a file.
        required: columns that must not have nulls.
        compression: compression of the part's files; staged files need none.
        table: the table that the files are meant for; None for staged files.
        partition: values of the table's partition columns.
        purge: old rows that are not written any more (``maintain --keep``); None to write all rows.
    """

    name: str
    folder: str
    schema: pa.Schema
    bounded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    compression: str = "zstd"
    table: str | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    purge: Purge | None = None


def staged_part(name: str, folder: str, schema: pa.Schema) -> Part:
    """Return the destination of rows that exist only during a run."""
    return Part(name, folder, schema, compression="none")


def table_part(table: Table, folder: str, values: Mapping[str, Any], purge: Purge | None = None) -> Part:
    """Return the destination of rows of a table.

    Args:
        table: definition of the table.
        folder: the table's folder.
        values: values of the table's partition columns.
        purge: old rows that are not written any more (``maintain --keep``); None to write all rows.
    """
    schema = table.file_schema().remove_metadata()
    names = set(schema.names)
    required = tuple(column.name for column in table.columns if column.is_required and column.name in names)
    bounded = tuple(name for name in table.bounded if name in names)
    partition = tuple((name, partition_text(values[name])) for name in table.partitioned_by)
    name = f"{table.name} {partition}"
    return Part(name, folder, schema, bounded, required, table=table.name, partition=partition, purge=purge)


def _bound(value: Any, *, is_upper: bool) -> Any:
    """Return the lowest or highest value of a column as a JSON value for Delta's log; None for bytes and dates.

    Times are rounded to milliseconds, and long texts are cut: a lowest value is rounded down, a highest value up.
    """
    if isinstance(value, datetime):
        whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
        if is_upper and whole != value:
            whole += _MILLISECOND
        return whole.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, str):
        return _above(value) if is_upper else value[:_LONGEST_TEXT]
    return None if isinstance(value, bytes | date) else value


def _above(text: str) -> str:
    """Return an upper bound of a text for the statistics in Delta's log.

    A short text is its own upper bound. A long text is cut, and a character that sorts after all others is appended.
    """
    end = _LONGEST_TEXT
    while text[end : end + 1] == _LAST_CHARACTER:
        end += 1
    return text if len(text) <= end else text[:end] + _LAST_CHARACTER


def _stats(written: pq.FileMetaData, bounded: Iterable[str]) -> dict[str, Any]:
    """Return the statistics of a Parquet file for Delta's log.

    These are the number of rows, and for each column in ``bounded`` its lowest and highest value and number of nulls.
    """
    places = {written.schema.column(place).path: place for place in range(written.num_columns)}
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in bounded:
        statistics = [
            written.row_group(group).column(places[name]).statistics for group in range(written.num_row_groups)
        ]
        if any(column is None or column.null_count is None for column in statistics):
            continue
        nulls[name] = sum(column.null_count for column in statistics)
        valued = [column for column in statistics if column.num_values]
        if not all(column.has_min_max for column in valued):
            # Parquet has no bounds for texts of some thousand characters, and readers take a missing bound for null.
            lowest[name], highest[name] = "", _LAST_CHARACTER
            continue
        if not valued:
            continue
        low = _bound(min(column.min for column in valued), is_upper=False)
        high = _bound(max(column.max for column in valued), is_upper=True)
        lowest |= {} if low is None else {name: low}
        highest |= {} if high is None else {name: high}
    return {"numRecords": written.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}


def _value(value: Any, type_: pa.DataType) -> Any:
    """Return a value if the column can hold it, else None."""
    try:
        pa.array([value], type_)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    return value


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column's plain values, in which a time is a number of milliseconds."""
    return pa.int64() if pa.types.is_timestamp(type_) else _in_milliseconds(type_)


def _in_milliseconds(type_: pa.DataType) -> pa.DataType:
    """Return a type with its times in milliseconds, also in lists and structs."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ms", tz=type_.tz)
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_in_milliseconds(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_in_milliseconds(field.type)) for field in type_])
    return type_


def _columns(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> list[pa.Array]:
    """Return rows of plain values as columns.

    A value that does not fit its column's type becomes null.
    """
    plain = [pa.field(field.name, _plain(field.type)) for field in schema]
    try:
        columns: list[pa.Array] = pa.array(rows, pa.struct(plain)).flatten()
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        columns = [pa.array([_value(row.get(field.name), field.type) for row in rows], field.type) for field in plain]
    return columns


def batch_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of plain values as a batch, with times in milliseconds.

    A column that a row does not name is null. A value becomes null if it does not fit its column's type, or if it is a
    time that can't be shown (see ``times``).
    """
    columns = [
        timestamps_of(column).cast(field.type) if pa.types.is_timestamp(field.type) else column.cast(field.type)
        for column, field in zip(_columns(rows, schema), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema, **values: Any) -> pa.RecordBatch:
    """Return rows with the columns of a schema. A column has its given value, else the batch's values, else nulls.

    Args:
        batch: the rows.
        schema: the columns to have.
        values: values of columns that differ from the batch, each a single value or a whole column.
    """
    columns = []
    for field in schema:
        if field.name in values:
            value = values[field.name]
            whole = value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, field.type), batch.num_rows)
            columns.append(whole)
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _described(part: Part, path: str, written: pq.FileMetaData, size: int) -> DataFile:
    """Return the facts of a file that was written, taken from the file's footer.

    Raises:
        CoordinatorReplayError: a column that must have values lacks one; the decoder is broken, not the dump.
    """
    for column, nulls in _stats(written, part.required)["nullCount"].items():
        if nulls:
            raise CoordinatorReplayError(
                f"{part.table or part.name}.{column}: a row has no value, and every row must have one"
            )
    stats = json.dumps(_stats(written, part.bounded))
    return DataFile(part.name, part.table, path, written.num_rows, size, stats, part.partition)


class _OpenFile:
    """A file of a part that is being written.

    It collects rows before it writes them: plain rows in ``plain``, and batches in ``waiting`` until a row group is
    full.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self.plain: list[Mapping[str, Any]] = []
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_rows = 0
        self.waiting_bytes = 0
        self.rows = 0
        self.path = ""
        self.writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        self.waiting_rows += batch.num_rows
        self.waiting_bytes += batch.nbytes
        if self.waiting_rows >= _GROUP_ROWS or self.waiting_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self.waiting_rows:
            return
        writer = self.writer = self.writer or self.begin()
        table = pa.Table.from_batches(self.waiting, self.part.schema)
        writer.write_table(table, row_group_size=self.waiting_rows)
        self.rows += self.waiting_rows
        self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0

    def begin(self) -> pq.ParquetWriter:
        self.path = f"{self.part.folder}/part-{uuid4()}.parquet"
        filesystem, folder = open_filesystem(self.part.folder)
        make_folder(filesystem, folder)
        _, path = open_filesystem(self.path)
        self.metadata: list[pq.FileMetaData] = []
        self.stream = filesystem.open_output_stream(path)
        return pq.ParquetWriter(
            self.stream,
            self.part.schema,
            compression=self.part.compression,
            # Numbers rarely repeat, so a dictionary costs more than it saves.
            use_dictionary=[field.name for field in self.part.schema if pa.types.is_string(field.type)],
            # Staged files need no bounds: they are read in full.
            write_statistics=bool(self.part.bounded or self.part.required),
            store_schema=False,
            metadata_collector=self.metadata,
        )

    def close(self) -> DataFile | None:
        """Finish the file and return its facts. Return None if it has no rows.

        Raises:
            CoordinatorReplayError: a column that must have values lacks one; the decoder is broken, not the dump.
        """
        self.flush()
        if self.writer is None:
            return None
        self.writer.close()
        size = self.stream.tell()
        self.stream.close()
        self.writer = None
        [written] = self.metadata
        self.rows = 0
        count(IoMetrics(files_written=1, bytes_written=size, records_written=written.num_rows))
        return _described(self.part, self.path, written, size)


class FileWriter:
    """A writer of the rows of several parts. Each part has files of its own, and a task has one writer."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenFile] = {}
        self.done: list[DataFile] = []

    def _file(self, part: Part) -> _OpenFile:
        if part.name not in self._open:
            self._open[part.name] = _OpenFile(part)
        return self._open[part.name]

    def add(self, part: Part, batch: pa.RecordBatch) -> None:
        """Add rows to a part. The rows must have the part's columns.

        Leave out old rows that ``maintain --keep`` deletes.
        """
        file = self._file(part)
        file.add(batch if part.purge is None else part.purge.out_of(batch))
        if file.rows >= _FILE_ROWS:
            self._end(file)

    def add_rows(self, part: Part, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows of plain values to a part, see ``batch_of``.

        The rows are kept until there are enough to convert them together.
        """
        file = self._file(part)
        file.plain.extend(rows)
        if len(file.plain) >= _PLAIN_ROWS:
            self._add_plain(file)

    def _add_plain(self, file: _OpenFile) -> None:
        if file.plain:
            rows, file.plain = file.plain, []
            self.add(file.part, batch_of(rows, file.part.schema))

    def _end(self, file: _OpenFile) -> None:
        done = file.close()
        if done is not None:
            self.done.append(done)

    def close(self) -> list[DataFile]:
        """Finish all files and return them."""
        for file in self._open.values():
            self._add_plain(file)
            self._end(file)
        return self.done
