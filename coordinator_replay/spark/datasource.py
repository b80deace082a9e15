"""The data source ``consumer_offsets``: segments of the topic as a DataFrame of decoded records.

Spark's Python workers open segments through pyarrow's filesystems. A worker holds a part of a file and a batch of rows,
whatever the file's size. The data source uses the filters of a query only to skip files and batches. Spark applies the
filters to the rows.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.errors import InputError, UsageError
from coordinator_replay.log.coverage import SkipRanges
from coordinator_replay.log.dump import DumpFile, find_dump
from coordinator_replay.log.dump_format import Format
from coordinator_replay.log.gaps import missing_before_files
from coordinator_replay.log.offset_ranges import offset_ranges
from coordinator_replay.log.reading import gather_records, read_file
from coordinator_replay.pipeline.stage import together
from coordinator_replay.spark.log_rows import LOG_ROW, log_rows, with_missing
from coordinator_replay.spark.pushdown import PositionFilter

if TYPE_CHECKING:
    # Exists from Spark 4.1 on.
    from pyspark.sql.datasource import Filter

NAME = "consumer_offsets"
"""The name of the data source."""

_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")
_LOG = logging.getLogger(__name__)


def source_schema() -> StructType:
    """Return the columns of the data source, as Spark's types."""
    return from_arrow_schema(LOG_ROW, prefer_timestamp_ntz=False)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a reader.

    Attributes:
        paths: files, folders, globs or URIs.
        include_deleted: whether to read ``.log.deleted`` files too.
        with_bytes: whether decoded records keep the bytes of their key and value.
    """

    paths: tuple[str, ...]
    include_deleted: bool = False
    with_bytes: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Read the options of ``spark.read``.

        The names of options may be written with hyphens, with underscores, or without either.

        Raises:
            UsageError: an option is not known or can't be read, or no path was given.
        """
        by_name = {name.lower().replace("-", "").replace("_", ""): value for name, value in options.items()}
        paths = tuple(json.loads(by_name.pop("paths", "[]"))) + ((by_name.pop("path"),) if "path" in by_name else ())
        include_deleted = _flag(by_name, "include-deleted")
        with_bytes = _flag(by_name, "with-bytes")
        if by_name:
            raise UsageError(
                f"{NAME}: unknown option {sorted(by_name)[0]!r}; the options are include-deleted and with-bytes"
            )
        if not paths:
            raise UsageError(f"{NAME}: no path; give load() a file, folder, glob or URI of segments")
        return cls(paths, include_deleted, with_bytes)


def _flag(options: dict[str, str], name: str) -> bool:
    text = options.pop(name.replace("-", ""), "false").lower()
    if text not in (*_YES, *_NO):
        raise UsageError(f"{NAME}: option {name} is {text!r}; it must be true or false")
    return text in _YES


def _columns(wanted: StructType) -> pa.Schema:
    """Return the fields of LOG_ROW that a schema names.

    Raises:
        UsageError: the schema has another column, or a column of another type.
    """
    types = {field.name: field.dataType for field in source_schema()}
    for field in wanted:
        if field.name not in types:
            raise UsageError(f"{NAME}: there is no column {field.name!r}; the columns are {', '.join(types)}")
        if field.dataType != types[field.name]:
            raise UsageError(
                f"{NAME}: column {field.name} is {types[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )
    return pa.schema([LOG_ROW.field(field.name) for field in wanted])


class Segment(NamedTuple):
    """A segment to read.

    Attributes:
        file: the segment's file.
        missing: number of log offsets without a record between log offset 0 of the log partition and the segment; 0 if
            the query does not need ``missing_before``.
    """

    file: DumpFile
    missing: int


@dataclass
class Segments(InputPartition):
    """Segments for one task."""

    segments: Sequence[Segment]

    def __init__(self, segments: Sequence[Segment]) -> None:
        super().__init__([segment.file.uri for segment in segments])
        self.segments = segments


class ConsumerOffsets(DataSource):
    """Segments of ``__consumer_offsets``, decoded: ``spark.read.format("consumer_offsets").load(path)``.

    There is one row for each record of every message format, and for each control record. Damaged bytes also get a row,
    with an ``error_class``. Options:

    - ``include-deleted``: read ``.log.deleted`` files too.
    - ``with-bytes``: fill ``key`` and ``value`` for every record; otherwise only records that could not be decoded
      have them.

    A schema given to the reader (``spark.read.schema("group_id STRING, log_offset BIGINT")``) selects columns before
    they are decoded. This helps, because Spark does not tell a Python data source which columns a query needs.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns."""
        return source_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns that a schema names.

        Raises:
            UsageError: this data source has no such option or column.
        """
        return SegmentReader(SourceOptions.of(dict(self.options)), _columns(schema))


class SegmentReader(DataSourceReader):
    """Reader of the segments of a dump."""

    def __init__(self, options: SourceOptions, columns: pa.Schema) -> None:
        self.options = options
        self.columns = columns
        self.wanted = PositionFilter()

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802 - PySpark's name
        """Store the filters by log partition and log offset. Return all filters, so that Spark applies them to rows."""
        self.wanted = PositionFilter.of(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Return the input of each task: segments that may have rows of the query.

        A segment is never split. One task may read several small segments.

        Raises:
            InputError: the paths have no segments, or a dump in another format.
        """
        dump = find_dump(self.options.paths, include_deleted=self.options.include_deleted)
        if dump.format is not Format.SEGMENTS:
            raise InputError(
                f"{', '.join(self.options.paths)}: holds {dump.format.value}, not segments; read it with Spark's own "
                f"reader and decode it with decode_record(key, value)"
            )
        for note in dump.notes:
            _LOG.warning("%s", note)
        wanted = [file for file in dump.segments if self.wanted.has_partition(file.log_partition)]
        named = offset_ranges(wanted)
        missing = missing_before_files(wanted) if "missing_before" in self.columns.names else [0] * len(wanted)
        segments = [
            Segment(file, missing[place])
            for place, file in enumerate(wanted)
            if place not in named or self.wanted.meets(*named[place])
        ]
        return [Segments(task) for task in together(segments, lambda segment: segment.file.size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's segments.

        If filters left no segment, yield no rows.

        Raises:
            InputError: a file can't be read.
        """
        if isinstance(partition, Segments):
            for segment in partition.segments:
                yield from self._read(segment)

    def _read(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        try:
            for records in gather_records(read_file(segment.file, SkipRanges(self.wanted.skipped()))):
                whole = with_missing(records, segment.missing)
                yield log_rows(whole, self.columns, with_bytes=self.options.with_bytes)
        except OSError as problem:
            raise InputError(f"{segment.file.uri}: can't be read: {problem}") from problem
