"""Dumps that are tables already: Parquet and Delta in the columns of Spark's Kafka source, and JSON lines.

Both come from a consumer. A consumer sees no control records, no producer ids and no batches, so what rests on those
is unknown here: the columns are null, never a guess.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import TOPIC, Dump, Format, read_head
from coordinator_replay.log.header import OFFSET_LIMIT
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.pipeline.read.envelopes import log_records
from coordinator_replay.times import EPOCH, LATEST_MS, moment_of_ms

_KAFKA_SOURCE = ("key", "value", "partition", "offset")
_DESTROYED = (
    "{path}: key and payload were written as text, which destroys binary records beyond repair; dump again with "
    "base64 output (kcat -C -J -e -S base64, in builds of kcat that have -S), with Spark's Kafka source, or from the "
    "segment files"
)

_S3 = re.compile("^s3n?://")
"""What else users write for the one scheme of S3 that Hadoop still knows, s3a."""
_NO_CONNECTOR = re.compile("No FileSystem for scheme|ClassNotFoundException: Class [^ ]*FileSystem not found")


def _log_records(df: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """Bring columns to LOG_RECORD; what the input does not carry is null."""
    return df.select(
        *(
            columns.get(field.name, F.lit(None)).cast(from_arrow_type(field.type)).alias(field.name)
            for field in LOG_RECORD
        )
    )


def _is_place(partition: Column, offset: Column) -> Column:
    """Whether a record can stand there. A single offset beyond any log would be where every later audit begins."""
    return F.coalesce((partition >= 0) & offset.between(0, OFFSET_LIMIT - 1), F.lit(False))


def read_kafka_rows(df: DataFrame) -> DataFrame:
    """Rows in the columns of Spark's Kafka source as log records.

    Args:
        df: key, value (binary), partition, offset, and where there, topic and timestamp.

    Raises:
        InputError: a column is missing or of another type.
    """
    types = {field.name: field.dataType.typeName() for field in df.schema}
    missing = [name for name in _KAFKA_SOURCE if name not in types]
    if missing:
        raise InputError(
            f"the table lacks {', '.join(missing)}: expected are the columns of Spark's Kafka source "
            f"(key, value, topic, partition, offset, timestamp), found {', '.join(types)}"
        )
    texts = [name for name in ("key", "value") if types[name] != "binary"]
    if texts:
        raise InputError(f"column {texts[0]} is of type {types[texts[0]]}; it must be the record's bytes (binary)")
    rows = df.where(F.col("topic") == TOPIC) if "topic" in types else df
    partition, offset = F.col("partition").try_cast("int"), F.col("offset").try_cast("bigint")
    is_placed = _is_place(partition, offset)
    columns = {
        "log_partition": F.when(is_placed, partition),
        "log_offset": F.when(is_placed, offset),
        "key": F.col("key"),
        "value": F.col("value"),
        "source": F.col("_metadata.file_path") if "_metadata" in df.columns else F.lit(None),
        "error_class": F.when(~is_placed, F.lit("MalformedRow")),
        "error_message": F.when(~is_placed, F.lit("the row has no partition and offset that a log can have")),
    }
    if types.get("timestamp", "").startswith("timestamp"):
        at = F.col("timestamp").cast("timestamp")
        columns["log_timestamp"] = F.when(at.between(F.lit(EPOCH), F.lit(moment_of_ms(LATEST_MS))), at)
    return _log_records(rows, columns)


def _looks_destroyed(line: str) -> bool:
    return "\\u0000" in line or "\\ufffd" in line or "\ufffd" in line


def read_json_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """JSON lines as log records, see ``envelopes``.

    Raises:
        InputError: the binary fields were destroyed by a text encoding.
    """
    for path in paths:
        lines = read_head(path, 1 << 16).decode("utf-8", "replace").splitlines()[:200]
        # A text encoding destroys every record, a damaged byte the line that it is in.
        if 2 * sum(map(_looks_destroyed, lines)) > len(lines):
            raise InputError(_DESTROYED.format(path=path))
    text = spark.read.text(list(paths), lineSep="\n")
    whole = text.select(F.col("value").cast("binary").alias("line"), F.col("_metadata.file_path").alias("source"))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(log_records, batches)

    return whole.mapInArrow(read, from_arrow_schema(LOG_RECORD, prefer_timestamp_ntz=False))


@contextmanager
def _failing_without_connector(dump: Dump) -> Iterator[None]:
    """Turn the lack of Spark's connector for a store into a sentence; pyarrow may well have listed its files."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        if not _NO_CONNECTOR.search(str(problem)):
            raise
        raise InputError(
            f"{dump.paths[0]}: Spark reads dumps that are tables or JSON lines, and this session has no connector for "
            "that store; run jobs/audit.py by spark-submit with one (docs/cluster.md, Object stores), or copy the dump "
            "to a disk; segment files need none"
        ) from problem


def read_tables(spark: SparkSession, dump: Dump) -> DataFrame:
    """A dump that is Parquet, Delta or JSON lines, as log records in the columns of ``LOG_RECORD``.

    Raises:
        InputError: the files are not what they seem, lack columns, or lie in a store that Spark can't open.
    """
    with _failing_without_connector(dump):
        return _read_tables(spark, dump)


def _read_tables(spark: SparkSession, dump: Dump) -> DataFrame:
    paths = [_S3.sub("s3a://", path) for path in dump.paths]
    if dump.format is Format.JSON_LINES:
        return read_json_lines(spark, paths)
    if dump.format is Format.PARQUET:
        return read_kafka_rows(spark.read.parquet(*paths))
    frames = [read_kafka_rows(spark.read.format("delta").load(path)) for path in paths]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole
