"""The data source ``consumer_offsets``: segments of the topic as a DataFrame of decoded records.

It reads and decodes with the functions of the audit (``log.reading``, ``records.decoder``). Segments are opened by
Spark's Python workers through pyarrow's filesystems, so a worker holds a window of a file and a batch of rows, whatever
the file's size. Spark applies the pushed filters again: here they only spare work.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.errors import InputError, UsageError
from coordinator_replay.log.dump import DumpFile, Format, find_dump
from coordinator_replay.log.gaps import missing_before_files
from coordinator_replay.log.offset_ranges import offset_ranges
from coordinator_replay.log.reading import gather_records, read_file, split_file
from coordinator_replay.log.splits import Split
from coordinator_replay.spark.log_rows import LOG_ROW, log_rows, with_missing
from coordinator_replay.spark.pushdown import PositionFilter

NAME = "consumer_offsets"
"""The name of the data source."""

SPLIT_BYTES = 128 << 20
"""A larger segment is read by several tasks."""

_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")
_LOG = logging.getLogger(__name__)


def source_schema() -> StructType:
    """The columns of the data source, as Spark's types."""
    return from_arrow_schema(LOG_ROW, prefer_timestamp_ntz=False)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader was asked for.

    Attributes:
        paths: files, folders, globs or URIs.
        include_deleted: read ``.log.deleted`` files too, for records that compaction has removed since.
        with_bytes: keep key and value of records that could be decoded as well.
        split_bytes: how large a segment is that one task reads.
    """

    paths: tuple[str, ...]
    include_deleted: bool = False
    with_bytes: bool = False
    split_bytes: int = SPLIT_BYTES

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Read the options of ``spark.read``; their names may be written with hyphens, underscores or neither.

        Raises:
            UsageError: an option is not known or can't be read, or no path was given.
        """
        given = {name.lower().replace("-", "").replace("_", ""): value for name, value in options.items()}
        paths = tuple(json.loads(given.pop("paths", "[]"))) + ((given.pop("path"),) if "path" in given else ())
        include_deleted = _flag(given, "include-deleted")
        with_bytes = _flag(given, "with-bytes")
        split_bytes = _size(given, "split-bytes", SPLIT_BYTES)
        if given:
            raise UsageError(
                f"{NAME}: unknown option {sorted(given)[0]!r}; "
                "the options are include-deleted, with-bytes and split-bytes"
            )
        if not paths:
            raise UsageError(f"{NAME}: no path; give load() a file, folder, glob or URI of segments")
        return cls(paths, include_deleted, with_bytes, split_bytes)


def _flag(given: dict[str, str], name: str) -> bool:
    text = given.pop(name.replace("-", ""), "false").lower()
    if text not in (*_YES, *_NO):
        raise UsageError(f"{NAME}: option {name} is {text!r}; it must be true or false")
    return text in _YES


def _size(given: dict[str, str], name: str, default: int) -> int:
    text = given.pop(name.replace("-", ""), str(default))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{NAME}: option {name} is {text!r}; it must be a number of bytes")
    return int(text)


def _columns(wanted: StructType) -> pa.Schema:
    """The fields of LOG_ROW that a schema names.

    Raises:
        UsageError: it has another column, or one of another type.
    """
    known = {field.name: field.dataType for field in source_schema()}
    for field in wanted:
        if field.name not in known:
            raise UsageError(f"{NAME}: there is no column {field.name!r}; the columns are {', '.join(known)}")
        if field.dataType != known[field.name]:
            raise UsageError(
                f"{NAME}: column {field.name} is {known[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )
    return pa.schema([LOG_ROW.field(field.name) for field in wanted])


@dataclass
class SegmentSplit(InputPartition):
    """A segment, or a split of one, for one task; and how many offsets before the segment hold no record."""

    file: DumpFile
    split: Split
    missing: int

    def __init__(self, file: DumpFile, split: Split, missing: int) -> None:
        super().__init__(file.uri)
        self.file = file
        self.split = split
        self.missing = missing


class ConsumerOffsets(DataSource):
    """Segments of ``__consumer_offsets``, decoded: ``spark.read.format("consumer_offsets").load(path)``.

    One row for each record of every message format, for each control record, and for each stretch of bytes that is
    damaged (``error_class`` says why). Options:

    - ``include-deleted``: read ``.log.deleted`` files too.
    - ``with-bytes``: fill ``key`` and ``value`` for every record; otherwise only records that could not be decoded
      have them.
    - ``split-bytes``: a larger segment is read by several tasks (default 128 MiB).

    A schema given to the reader (``spark.read.schema("group_id STRING, log_offset BIGINT")``) picks columns before
    they are made: Spark does not tell a Python data source which columns a query needs.
    """

    @classmethod
    def name(cls) -> str:
        """The name behind ``format``."""
        return NAME

    def schema(self) -> StructType:
        """All columns."""
        return source_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns that a schema names.

        Raises:
            UsageError: options or columns are not those of this data source.
        """
        return SegmentReader(SourceOptions.of(dict(self.options)), _columns(schema))


class SegmentReader(DataSourceReader):
    """Reads the segments of a dump."""

    def __init__(self, options: SourceOptions, columns: pa.Schema) -> None:
        self.options = options
        self.columns = columns
        self.wanted = PositionFilter()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - PySpark's name
        """Take note of filters on the position; all of them go back to Spark, which applies them to the rows."""
        self.wanted = PositionFilter.of(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        """The segments that may hold rows, large ones in splits.

        Raises:
            InputError: a path holds no segments.
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
        return [
            SegmentSplit(file, split, missing[place])
            for place, file in enumerate(wanted)
            if place not in named or self.wanted.meets(*named[place])
            for split in split_file(file, self.options.split_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one segment or split; none where filters left no segment.

        Raises:
            InputError: the file can't be read.
        """
        if not isinstance(partition, SegmentSplit):
            return
        parts = read_file(partition.file, self.wanted.skipped(), partition.split)
        try:
            for records in gather_records(parts):
                whole = with_missing(records, partition.missing)
                yield log_rows(whole, self.columns, with_bytes=self.options.with_bytes)
        except OSError as problem:
            raise InputError(f"{partition.file.uri}: can't be read: {problem}") from problem
