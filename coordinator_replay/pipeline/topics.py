"""Topic names by id, from every source at hand: a file, the cluster's metadata log, group records, commits.

KIP-848 records name topics by id alone. Where sources differ, the one nearer to the cluster's own truth counts: what
the user says, then the metadata log, then records that carry both, then commits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.reasons.topic_changes import CREATED, PARTITIONS_ADDED, REMOVED, TopicChange
from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import DumpFile, Format, list_files, open_filesystem, recognise
from coordinator_replay.log.segment import read_segment
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.records.cluster_metadata import decode_metadata

SOURCES = ("file", "cluster_metadata", "record", "commit")
"""Where a name can come from; an earlier one counts before a later one."""

TOPIC_COLUMNS = (
    "topic_id STRING, topic STRING, partition_count INT, created_at TIMESTAMP, partitions_changed_at TIMESTAMP, "
    "removed_at TIMESTAMP, source STRING, "
    "changes ARRAY<STRUCT<changed_at: TIMESTAMP, change: STRING, partition_count: INT>>"
)

_CHANGES = "array<struct<changed_at:timestamp,change:string,partition_count:int>>"

_EVENT = pa.schema(
    [
        ("kind", pa.string()),
        ("topic_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ms", pa.int64()),
        ("log_offset", pa.int64()),
    ]
)
_EVENT_DDL = "kind STRING, topic_id STRING, topic STRING, partition INT, at_ms BIGINT, log_offset BIGINT"


def from_file(spark: SparkSession, path: str) -> DataFrame:
    """Names from a CSV (with or without a heading) or JSON-lines file of topic id, name and partition count.

    Raises:
        InputError: the file can't be read, or a line is not of that form.
    """
    filesystem, inner = open_filesystem(path)
    try:
        with filesystem.open_input_stream(inner) as stream:
            lines = stream.read().decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: can't be read: {problem}") from problem
    rows = [row for number, line in enumerate(lines, 1) if (row := _named_topic(line, f"{path}, line {number}"))]
    return spark.createDataFrame([(*row, None, None, None, "file", None) for row in rows], TOPIC_COLUMNS)


def _named_topic(line: str, where: str) -> tuple[str, str, int | None] | None:
    line = line.strip()
    if not line or line.lower().replace(" ", "").startswith(("topic_id,", "id,", "topicid,")):
        return None
    try:
        if line.startswith("{"):
            raw = json.loads(line)
            topic_id, name = raw.get("topic_id") or raw["id"], raw.get("topic") or raw["name"]
            count = raw.get("partition_count", raw.get("partitions"))
        else:
            topic_id, name, count = [*(part.strip().strip('"') for part in line.split(",")), None][:3]
        if len(topic_id) != 22 or not name:
            raise ValueError(topic_id)
        return topic_id, name, int(count) if count not in (None, "") else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise InputError(f"{where}: expected are a topic id of 22 characters, a name and maybe a count") from problem


def _events(file: DumpFile) -> Iterator[pa.RecordBatch]:
    """What one file of the metadata log says of topics."""
    filesystem, path = open_filesystem(file.uri)
    with filesystem.open_input_stream(path, compression=None) as stream:
        for part in read_segment(stream, source=file.uri, log_partition=0):
            good = part.records.filter(part.records.column("control_type").is_null())
            rows = []
            told = (good.column(name).to_pylist() for name in ("value", "log_timestamp", "log_offset"))
            for value, at, offset in zip(*told, strict=True):
                record = None if value is None else decode_metadata(value)
                if record is not None and "topicId" in record.fields:
                    fields = record.fields
                    at_ms = None if at is None else round(at.timestamp() * 1000)
                    about = (fields["topicId"], fields.get("name"), fields.get("partitionId"))
                    rows.append((record.kind, *about, at_ms, offset))
            if rows:
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(column, field.type)
                        for column, field in zip(zip(*rows, strict=True), _EVENT, strict=True)
                    ],
                    schema=_EVENT,
                )


def from_cluster_metadata(spark: SparkSession, path: str) -> DataFrame:
    """Names, partition counts and their times from a dump of the ``__cluster_metadata`` log; one task a file.

    Raises:
        InputError: there is no such log.
    """
    names = (".log", ".checkpoint")
    files = [file for file in list_files(path) if file.uri.endswith(names) and recognise(file.uri) is Format.SEGMENTS]
    if not files:
        raise InputError(f"{path}: no segment of the __cluster_metadata log here")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from _events(files[place])

    events = spark.range(0, len(files), 1, len(files)).mapInArrow(read, _EVENT_DDL)
    is_partition = F.col("kind") == "PartitionRecord"
    return (
        events.groupBy("topic_id")
        .agg(
            F.max("topic").alias("topic"),
            F.count_distinct(F.when(is_partition, F.col("partition"))).cast("int").alias("partition_count"),
            F.min(F.when(F.col("kind") == "TopicRecord", F.col("at_ms"))).alias("created_ms"),
            F.max(F.when(is_partition, F.col("at_ms"))).alias("changed_ms"),
            F.max(F.when(F.col("kind") == "RemoveTopicRecord", F.col("at_ms"))).alias("removed_ms"),
        )
        .where("topic IS NOT NULL")
        .join(_changes(events), "topic_id", "left")
        .select(
            "topic_id",
            "topic",
            "partition_count",
            F.timestamp_millis("created_ms").alias("created_at"),
            F.timestamp_millis("changed_ms").alias("partitions_changed_at"),
            F.timestamp_millis("removed_ms").alias("removed_at"),
            F.lit("cluster_metadata").alias("source"),
            "changes",
        )
    )


def _changes(events: DataFrame) -> DataFrame:
    """When each topic changed: topic_id and changes, oldest first.

    A topic's first partitions are written with it; a record about a partition that is known is no change of the topic.
    """
    in_time = Window.partitionBy("topic_id").orderBy("at_ms")
    made = events.where("kind = 'PartitionRecord'").groupBy("topic_id", "partition").agg(F.min("at_ms").alias("at_ms"))
    is_first = F.row_number().over(in_time) == 1
    counted = made.groupBy("topic_id", "at_ms").agg(F.count("*").alias("added"))
    grown = counted.select(
        "topic_id",
        "at_ms",
        F.when(is_first, F.lit(CREATED)).otherwise(F.lit(PARTITIONS_ADDED)).alias("change"),
        F.sum("added").over(in_time).cast("int").alias("partition_count"),
    )
    removed = events.where("kind = 'RemoveTopicRecord'").select(
        "topic_id", "at_ms", F.lit(REMOVED).alias("change"), F.lit(0).alias("partition_count")
    )
    change = F.struct(F.timestamp_millis("at_ms").alias("changed_at"), "change", "partition_count")
    return grown.unionByName(removed).groupBy("topic_id").agg(F.sort_array(F.collect_list(change)).alias("changes"))


NAMING_KINDS = frozenset({"ConsumerGroupPartitionMetadata", "ShareGroupStatePartitionMetadata"})
"""Group records that carry ids and names of topics side by side."""


def from_records(group_records: DataFrame) -> DataFrame:
    """Names from group records that carry id and name side by side: kinds 4 and 15.

    Args:
        group_records: log_offset, kind and value_json.
    """
    named = "array<struct<topicId: string, topicName: string, numPartitions: int>>"
    partition_metadata = group_records.where("kind = 'ConsumerGroupPartitionMetadata' AND value_json IS NOT NULL")
    share_state = group_records.where("kind = 'ShareGroupStatePartitionMetadata' AND value_json IS NOT NULL")
    lists = ", ".join(f"{name}: {named}" for name in ("initializingTopics", "initializedTopics", "deletingTopics"))
    of_share = F.from_json("value_json", f"struct<{lists}>")
    every = F.flatten(
        F.array_compact(F.array(*(of_share[name] for name in ("initializingTopics", "initializedTopics"))))
    )
    rows = partition_metadata.select(
        "log_offset", F.explode(F.from_json("value_json", f"struct<topics: {named}>")["topics"]).alias("t")
    ).unionByName(share_state.select("log_offset", F.explode(every).alias("t")))
    by_record = rows.groupBy(F.col("t.topicId").alias("topic_id")).agg(
        F.max_by("t.topicName", "log_offset").alias("topic"),
        F.max_by("t.numPartitions", "log_offset").alias("partition_count"),
    )
    return _with_source(by_record.where("topic <> '<UNKNOWN>'"), "record")


def from_commits(spark: SparkSession, names: Mapping[str, str]) -> DataFrame:
    """Names from commits, which carry a topic's id and name since 4.1."""
    named = spark.createDataFrame(sorted(names.items()), "topic_id STRING, topic STRING")
    return _with_source(named.withColumn("partition_count", F.lit(None).cast("int")), "commit")


def _with_source(named: DataFrame, source: str) -> DataFrame:
    unknown = [
        F.lit(None).cast("timestamp").alias(name) for name in ("created_at", "partitions_changed_at", "removed_at")
    ]
    changes = F.lit(None).cast(_CHANGES).alias("changes")
    return named.select("topic_id", "topic", "partition_count", *unknown, F.lit(source).alias("source"), changes)


def best_names(sources: Sequence[DataFrame]) -> DataFrame:
    """One row a topic id: the source that counts most, and the longest history of changes that any has."""
    every = sources[0]
    for frame in sources[1:]:
        every = every.unionByName(frame)
    rank = F.array_position(F.array(*(F.lit(source) for source in SOURCES)), F.col("source"))
    length = F.coalesce(F.size("changes"), F.lit(-1))
    # Partitions are only ever added: of two counts the larger is the newer.
    larger = F.col("partition_count").desc_nulls_last()
    best = Window.partitionBy("topic_id").orderBy(rank, length.desc(), larger, F.col("topic"))
    longest = F.max_by("changes", length).over(Window.partitionBy("topic_id"))
    ranked = every.withColumns({"rank": F.row_number().over(best), "changes": longest})
    return ranked.where("rank = 1").drop("rank")


class KnownTopics(NamedTuple):
    """What is known of a cluster's topics: as much as it has topics.

    Attributes:
        names: topic name by id.
        changes: when topics changed, by name.
        are_named_as_before: whether the table had the same names.
    """

    names: dict[str, str]
    changes: dict[str, list[TopicChange]]
    are_named_as_before: bool = False


def update_topics(
    spark: SparkSession,
    warehouse: Warehouse,
    cluster: str,
    *,
    named_by: DataFrame | None,
    names: Mapping[str, str],
    topics_file: str | None,
    cluster_metadata: str | None,
) -> KnownTopics:
    """Bring the table ``topics`` up to date and return what it says.

    Args:
        spark: the session.
        warehouse: holds the table.
        cluster: whose topics.
        named_by: from ``from_records``, what new records say; None where they name nothing.
        names: what commits call topics, by id.
        topics_file: names that the user gives.
        cluster_metadata: a dump of the ``__cluster_metadata`` log.

    Raises:
        InputError: a file named by the user can't be used.
    """
    sources = [] if named_by is None else [named_by]
    if topics_file is not None:
        sources.append(from_file(spark, topics_file))
    if cluster_metadata is not None:
        sources.append(from_cluster_metadata(spark, cluster_metadata))
    if warehouse.is_new("topics"):
        sources.extend([from_commits(spark, names)] if names else [])
        return _told(_replace(warehouse, cluster, sources)) if sources else KnownTopics({}, {})
    known = warehouse.read("topics").where(F.col("cluster") == cluster).drop("cluster")
    told = _told(known)
    if not sources and names.items() <= told.names.items():
        return told._replace(are_named_as_before=True)
    sources.extend([from_commits(spark, names)] if names else [])
    now = _told(_replace(warehouse, cluster, [known, *sources]))
    return now._replace(are_named_as_before=now.names == told.names)


def _replace(warehouse: Warehouse, cluster: str, sources: Sequence[DataFrame]) -> DataFrame:
    """Put the best of all sources in place of what the table says."""
    rows = best_names(sources).select(F.lit(cluster).alias("cluster"), "*").localCheckpoint()
    warehouse.replace_cluster("topics", rows, cluster)
    return rows


def _told(rows: DataFrame) -> KnownTopics:
    told = KnownTopics({}, {})
    in_ms = F.transform(
        "changes", lambda one: F.struct(F.unix_millis(one["changed_at"]), one["change"], one["partition_count"])
    )
    for topic_id, topic, changes in rows.select("topic_id", "topic", in_ms).toLocalIterator():
        told.names[topic_id] = topic
        if changes:
            # A topic that was made anew has another id and the same name.
            every = [*told.changes.get(topic, []), *(TopicChange(*change) for change in changes)]
            told.changes[topic] = sorted(every)
    return told
