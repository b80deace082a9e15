"""Export from a running cluster: records since the last export, through Spark's Kafka source.

The records are read by a stream of Spark with the trigger ``availableNow``: it stops at the end that the log had when
the stream began. The stream's checkpoint, in the dump's folder, says which records are exported. Spark writes the log
offsets of a batch into the checkpoint before it reads the batch's records. When the batch's files are complete, Spark
marks the batch as done. So after an export that was killed, the next export writes the same records into the same
folder. No record is left out, and none is stored twice. The stream also reads partitions that are added to the topic.

If the cleaner has removed records since the last export, new records do not show which older records were removed. The
option ``again`` reads the whole topic into a new folder, which shows the records that remain.

An exported dump lacks everything that a consumer does not see: transaction markers, producer ids, batches. It includes
offset commits of aborted and open transactions, because nothing in a record tells them from other commits.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from coordinator_replay.errors import InputError, PrerequisiteError
from coordinator_replay.export.folders import ExportedDump
from coordinator_replay.log.dump import TOPIC
from coordinator_replay.pipeline.host.jars import kafka_source
from coordinator_replay.pipeline.host.spark_versions import is_remote

INTERNAL_TOPICS = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Setting that lets the source see an internal topic. If Spark asks for offsets through the admin client, it silently
skips internal topics, even if they are named. With this setting, Spark asks through a consumer, and skips none. The
partitions are assigned to this consumer, so it joins no group.
"""

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of an export.

    Attributes:
        bootstrap_servers: addresses of the cluster.
        out: folder or URI of the dump, which all exports of one cluster share.
        client: settings of Kafka's clients by Kafka's names, such as ``security.protocol``.
        partitions: partition count of the topic; None to ask the cluster.
        min_partitions: smallest number of tasks that read; None for one task for each log partition.
        again: whether to read the whole topic. This changes nothing for the next export, which continues where the last
            export without ``again`` ended.
    """

    bootstrap_servers: str
    out: str
    client: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    min_partitions: int | None = None
    again: bool = False

    def settings(self) -> dict[str, str]:
        """Return the settings of Kafka's clients, with the addresses of the cluster."""
        return {**self.client, "bootstrap.servers": self.bootstrap_servers}

    def source(self, partitions: int) -> dict[str, str]:
        """Return the options of Spark's Kafka source.

        Args:
            partitions: the partition count of the topic.
        """
        options = {f"kafka.{name}": value for name, value in self.settings().items()}
        options |= {
            # Not a subscription, which would create a consumer group and so write to the topic that is read.
            "assign": json.dumps({TOPIC: list(range(partitions))}),
            # Applies to the first export, and to partitions added since the last export.
            "startingOffsets": "earliest",
        }
        if self.min_partitions is not None:
            options["minPartitions"] = str(self.min_partitions)
        return options


@dataclass(slots=True)
class Exported:
    """Result of an export.

    Attributes:
        folders: the folders that the export wrote, in order. If the last export was killed, its unfinished batch comes
            first, in a folder of its own.
        from_offsets: by log partition, the log offset from which on the export asked for records.
        to_offsets: by log partition, the log offset up to which the export asked for records (not included).
        records: number of records in all folders together.
        first_offsets: by log partition, the log offset of the first record that was read.
    """

    folders: list[str] = field(default_factory=list)
    from_offsets: dict[int, int] = field(default_factory=dict)
    to_offsets: dict[int, int] = field(default_factory=dict)
    records: int = 0
    first_offsets: dict[int, int] = field(default_factory=dict)

    def behind(self) -> list[int]:
        """Return the log partitions in which records are missing after the end of the last export.

        Compaction removed the missing records, or they were transaction markers.
        """
        first = self.first_offsets
        return [
            partition
            for partition, start in sorted(self.from_offsets.items())
            if 0 < start < first.get(partition, start)
        ]


def writer(
    dump: ExportedDump, wrote: Callable[[int, str], None], *, files: int | None = None
) -> Callable[[DataFrame, int], None]:
    """Return the function that writes a batch of a stream to a folder of Parquet files.

    If Spark repeats a batch that is completely written, the function does not write the batch again.

    Args:
        dump: the folder of the dump.
        wrote: function that is called with the number and the folder of each batch, even of a repeated batch.
        files: largest number of files of a batch; None for one file for each task.
    """

    def write(batch: DataFrame, number: int) -> None:
        place, is_written = dump.place(number, datetime.now(UTC))
        folder = dump.uri_of(place)
        # Spark repeats a batch with the same offsets. If the export was killed after the last file, the files stay as
        # they are: somebody may be reading them. An incomplete folder is overwritten.
        if not is_written:
            records = batch.select(*_COLUMNS)
            (records if files is None else records.coalesce(files)).write.mode("overwrite").parquet(folder)
        wrote(number, folder)

    return write


def offsets_by_partition(offsets: Mapping[str, Mapping[str, int]] | None) -> dict[int, int]:
    """Return the log offset of each log partition.

    Args:
        offsets: log offsets in Spark's report on a stream, by topic and partition; None before the first batch.
    """
    return {int(partition): offset for partition, offset in (offsets or {}).get(TOPIC, {}).items()}


_REASONS = {
    r"TopicAuthorizationException|(?i:not authorized to access topics)": (
        f"the principal may not read the topic: it needs READ on topic {TOPIC}"
    ),
    r"GroupAuthorizationException|(?i:not authorized to access group)": (
        "the principal may not name a group: it needs READ on groups whose names begin with spark-kafka-source"
    ),
    r"KAFKA_DATA_LOSS|RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET|OffsetOutOfRangeException": (
        "the log no longer has the offset at which the last export ended: older records were deleted, the topic was "
        "created again, or a leader was elected that lacked them; export into another folder, and audit both"
    ),
    r"UnknownTopicOrPartitionException": f"the cluster has no topic {TOPIC} yet; it is made for the first group",
}
"""Meanings of the cluster's own errors for an export."""

_NO_SPACE = "No space left on device"


def sentence(problem: Exception) -> str:
    """Return a sentence on a failure of an export.

    The sentence has the innermost cause, without Spark's own errors. For a known failure (``_REASONS``), the sentence
    begins with an explanation.
    """
    text = str(problem)
    causes = re.findall(r"^Caused by: (?:[\w$]+\.)*([\w$]+: .+)$", text, re.MULTILINE)
    stream = re.findall(r"terminated with exception: (.+)", text)
    cause = str([*stream, *causes][-1] if stream or causes else text.strip().splitlines()[0])
    meant = [meaning for pattern, meaning in _REASONS.items() if re.search(pattern, text)]
    return f"{meant[0]} ({cause})" if meant else cause


def _without_source() -> PrerequisiteError:
    coordinate = kafka_source().jars[0]
    return PrerequisiteError(
        f"this Spark session has no Kafka source: start it with spark-submit --packages {coordinate}"
    )


@contextmanager
def seeing_internal_topics(spark: SparkSession) -> Iterator[None]:
    """Let Spark read internal topics until the ``with`` block ends."""
    before = spark.conf.get(INTERNAL_TOPICS)
    spark.conf.set(INTERNAL_TOPICS, "true")
    try:
        yield
    finally:
        spark.conf.set(INTERNAL_TOPICS, str(before))


def _describe_topic(spark: SparkSession, settings: Mapping[str, str]) -> tuple[int, str]:
    """Ask the cluster for the topic, and return its partition count and its topic id.

    The admin client that asks comes with the Kafka source.

    Raises:
        PrerequisiteError: the session lacks the Kafka source.
        Py4JJavaError: the cluster does not answer, or has no such topic.
    """
    jvm: Any = spark._jvm
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(dict(settings))
    except TypeError as problem:
        # py4j returns a package for a class that it does not find, and a package can't be called.
        raise _without_source() from problem
    try:
        topic = admin.describeTopics([TOPIC]).allTopicNames().get().get(TOPIC)
        return int(topic.partitions().size()), str(topic.topicId())
    finally:
        admin.close()


def open_stream(
    spark: SparkSession, options: ExportOptions, dump: ExportedDump, report: Callable[[str], None]
) -> DataFrame:
    """Return the stream of the topic's records since the last export.

    Spark reads the stream when a query starts.

    Args:
        spark: a session that has the Kafka source.
        options: options of the export.
        dump: the dump, whose checkpoint has the end of the last export.
        report: called with each step that begins.

    Raises:
        PrerequisiteError: the session lacks the Kafka source.
        InputError: the dump comes from another topic, or lacks the checkpoint of its last export.
        Py4JJavaError: the cluster does not answer.
    """
    dump.check_checkpoint()
    partitions = _ask_partitions(spark, options, dump, report)
    return spark.readStream.format("kafka").options(**options.source(partitions)).load()


def _ask_partitions(
    spark: SparkSession, options: ExportOptions, dump: ExportedDump, report: Callable[[str], None]
) -> int:
    if is_remote(spark):
        raise PrerequisiteError(
            "export needs a classic Spark session: it asks the brokers through Spark's JVM, which a session over Spark "
            "Connect does not have; run jobs/export.py by spark-submit, or export on one machine without SPARK_REMOTE"
        )
    report("asking for the topic's partitions")
    partitions = options.partitions
    if partitions is None:
        partitions, topic_id = _describe_topic(spark, options.settings())
        dump.check_topic(topic_id)
    report(f"reading {partitions} partitions")
    return partitions


@contextmanager
def cluster_errors(options: ExportOptions) -> Iterator[None]:
    """Turn an error of Spark or of Kafka's clients into an error of this package, with one sentence.

    An error about a full disk is raised unchanged.

    Args:
        options: options of the export, for the message.

    Raises:
        PrerequisiteError: the session lacks the Kafka source.
        InputError: the cluster can't be read.
        PySparkException, Py4JJavaError: there is no space left.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        if isinstance(problem, AnalysisException) and "kafka" in str(problem):
            raise _without_source() from problem
        if _NO_SPACE in str(problem):
            raise
        raise InputError(f"{options.bootstrap_servers}: {TOPIC} can't be exported: {sentence(problem)}") from problem


def run_export(
    spark: SparkSession, options: ExportOptions, report: Callable[[str], None] = lambda _step: None
) -> Exported:
    """Write the topic's records since the last export to new folders of the dump.

    With the option ``again``, write all records of the topic.

    Args:
        spark: a session that has the Kafka source.
        options: options of the export.
        report: called with each step that begins.

    Raises:
        PrerequisiteError: the session lacks the Kafka source.
        InputError: the cluster can't be read, or the dump comes from another topic.
    """
    exported = Exported()
    dump = ExportedDump(options.out)
    with cluster_errors(options), seeing_internal_topics(spark):
        if options.again:
            _export_again(spark, options, _ask_partitions(spark, options, dump, report), exported)
            return exported
        query = (
            open_stream(spark, options, dump, report)
            .writeStream.foreachBatch(writer(dump, lambda _number, folder: exported.folders.append(folder)))
            .option("checkpointLocation", dump.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    _sum_up(query.recentProgress, exported)
    for folder in exported.folders:
        for partition, first, _ in _extent(spark, folder):
            exported.first_offsets[partition] = min(first, exported.first_offsets.get(partition, first))
    return exported


def _export_again(spark: SparkSession, options: ExportOptions, partitions: int, exported: Exported) -> None:
    """Write the whole topic to a new folder.

    Spark shows the folder's files only when all of them are complete.

    Args:
        spark: a session that has the Kafka source.
        options: options of the export.
        partitions: partition count of the topic.
        exported: the result of the export, whose fields are set.
    """
    folder = f"{options.out.rstrip('/')}/again-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    records = spark.read.format("kafka").options(**options.source(partitions)).load()
    records.select(*_COLUMNS).write.parquet(folder)
    exported.folders.append(folder)
    for partition, first, last in _extent(spark, folder):
        exported.from_offsets[partition] = exported.first_offsets[partition] = first
        exported.to_offsets[partition] = last + 1
    exported.records = spark.read.parquet(folder).count()


def _extent(spark: SparkSession, folder: str) -> list[tuple[int, int, int]]:
    """Return a tuple for each log partition in a folder: its number, its first and its last log offset."""
    extents = spark.read.parquet(folder).groupBy("partition").agg(functions.min("offset"), functions.max("offset"))
    return [(row[0], row[1], row[2]) for row in extents.collect()]


def _sum_up(progress: Sequence[Any], exported: Exported) -> None:
    """Add the records and offsets of a stream's batches to the result of an export.

    Args:
        progress: Spark's reports on the batches, one for each batch.
        exported: the result.
    """
    for batch in progress:
        progressed = json.loads(batch.json)
        exported.records += progressed["numInputRows"]
        for source in progressed["sources"]:
            for partition, offset in offsets_by_partition(source["startOffset"]).items():
                exported.from_offsets.setdefault(partition, offset)
            exported.to_offsets |= offsets_by_partition(source["endOffset"])
