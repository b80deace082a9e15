"""Dumps that Spark reads: Parquet and Delta tables in the columns of Spark's Kafka source, and files of JSON lines.

``envelopes`` turns rows and lines into log records.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import TOPIC, Dump, read_head
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.read.envelopes import KAFKA_ROW, check_kafka_columns, kafka_rows, log_records

_DESTROYED = (
    "{path}: key and payload were written as text, as kcat -J does, which destroys binary records beyond repair; take "
    "the dump with coordinator-replay export or from the segment files, or write both in base64"
)

_S3 = re.compile("^s3n?://")
"""Other schemes of S3 that users write; Hadoop knows only s3a."""
_NO_CONNECTOR = re.compile("No FileSystem for scheme|ClassNotFoundException: Class [^ ]*FileSystem not found")


def _kafka_source(df: DataFrame, path: str) -> DataFrame:
    """Return a table with only the columns that ``kafka_rows`` reads.

    Raises:
        InputError: a column is missing or of another type.
    """
    check_kafka_columns({field.name: field.dataType.typeName() for field in df.schema}, path)
    # With this filter, Spark skips files and row groups of other topics.
    rows = df.where(F.col("topic") == TOPIC) if "topic" in df.columns else df
    return rows.select(*(name for name in KAFKA_ROW if name in df.columns and name != "topic"))


def _looks_destroyed(line: str) -> bool:
    return "\\u0000" in line or "\\ufffd" in line or "\ufffd" in line


def _json_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the lines of files, in the columns LINES.

    Raises:
        InputError: the binary fields were destroyed by a text encoding.
    """
    for path in paths:
        lines = read_head(path, 1 << 16).decode("utf-8", "replace").splitlines()[:200]
        # A text encoding destroys every record, a damaged byte only its own line.
        if 2 * sum(map(_looks_destroyed, lines)) > len(lines):
            raise InputError(_DESTROYED.format(path=path))
    text = spark.read.text(list(paths), lineSep="\n")
    return text.select(F.col("value").cast("binary").alias("line"), F.col("_metadata.file_path").alias("source"))


@contextmanager
def _failing_without_connector(dump: Dump) -> Iterator[None]:
    """Turn Spark's error about a missing connector for a store into an InputError that says what to do.

    Raises:
        InputError: Spark has no connector for the store.
    """
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


def read_tables(spark: SparkSession, dump: Dump) -> tuple[DataFrame, Callable[[pa.RecordBatch], pa.RecordBatch]]:
    """Return a dump of Parquet, Delta or JSON lines as a DataFrame, and a function that converts its rows to records.

    Raises:
        InputError: the files are not of the expected form, lack columns, or are in a store that Spark can't open.
    """
    paths = [_S3.sub("s3a://", path) for path in dump.paths]
    with _failing_without_connector(dump):
        if dump.format is Format.JSON_LINES:
            return _json_lines(spark, paths), log_records
        if dump.format is Format.PARQUET:
            frames = [spark.read.parquet(*paths)]
        else:
            frames = [spark.read.format("delta").load(path) for path in paths]
        named = [_kafka_source(frame, path) for frame, path in zip(frames, paths, strict=False)]
        return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), named), kafka_rows
