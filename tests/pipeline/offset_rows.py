"""Settled rows for tests: those of the recorded dumps, and those made of a few words; and what is derived from them."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache

from coordinator_replay.pipeline.decode import stage_rows, stage_segments
from coordinator_replay.pipeline.offset_events import Sources
from coordinator_replay.pipeline.staged_records import as_records as records_of
from coordinator_replay.pipeline.staged_records import records_type, staged_by
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.expiry_rules import ExpiryRules
from coordinator_replay.analysis.rows import Scope
from coordinator_replay.engine.model import Record
from coordinator_replay.log.dump import find_dump
from coordinator_replay.pipeline import settle
from coordinator_replay.pipeline.offsets import staged_offsets
from coordinator_replay.pipeline.read.sources import read_tables
from coordinator_replay.records.protocol import open_blobs
from coordinator_replay.tables.definition import table
from tests.samples import Sample

START = datetime(2026, 11, 21, tzinfo=UTC)


SAMPLES = ["group-lifecycles", "expiration", "java-clients", "kafka-3.9", "transactions", "compacted"]
APART = 100
"""Log partitions of the samples are moved apart by so much, so that one Spark job answers for all of them."""


def log_partitions(name):
    """Where a sample's log partitions begin and end in ``sample_records``."""
    first = SAMPLES.index(name) * APART
    return first, first + APART - 1


@cache
def sample_records(spark):
    """Settled rows of all samples, computed once for all tests."""
    files, first = [], []
    for name in SAMPLES:
        of_sample = find_dump([Sample(name).segments]).segments
        files += of_sample
        first += [log_partitions(name)[0]] * len(of_sample)
    shift = F.array(*(F.lit(partition) for partition in first))[F.col("file_id")]
    told = stage_segments(spark, files, tempfile.mkdtemp())
    staged = records_of(spark, staged_by(told)).withColumn("log_partition", F.col("log_partition") + shift)
    return settle.settle_copies(staged).coalesce(2).localCheckpoint()


def of_sample(df, name):
    return df.where(F.col("log_partition").between(*log_partitions(name)))


def exported_records(spark, name, folder):
    """The same through a consumer."""
    dump = find_dump([str(Sample(name).folder / "records.jsonl")])
    staged = records_of(spark, staged_by(stage_rows(read_tables(spark, dump), tempfile.mkdtemp())))
    return kept(spark, settle.settle_copies(staged), folder)


def kept(spark, df, folder):
    df.write.mode("overwrite").parquet(str(folder))
    return spark.read.parquet(str(folder))


def moment(seconds):
    return START + timedelta(seconds=seconds)


def _row(position, seconds, producer=None, control=None, **struct):
    log_partition, log_offset = position
    row = {field.name: None for field in records_type()}
    row.update(
        log_partition=log_partition,
        log_offset=log_offset,
        log_timestamp=moment(seconds),
        producer_id=-1 if producer is None else producer,
        producer_epoch=-1 if producer is None else 0,
        is_transactional=producer is not None,
        control_type=control,
        missing_before=0,
        file_id=0,
        **struct,
    )
    return row


def commit(position, seconds, key, committed=None, producer=None, expire=None, committed_at=None):
    """A commit, or with ``committed`` None its tombstone; the key is group, topic, partition."""
    group, topic, partition = key
    is_tombstone = committed is None
    value = {
        "group_id": group,
        "key_version": 1,
        "value_version": None if is_tombstone else 4,
        "is_tombstone": is_tombstone,
        "record_bytes": 50,
        "topic": topic,
        "partition": partition,
        "topic_id": None,
        "committed_offset": committed,
        "leader_epoch": None,
        "metadata": None if is_tombstone else "",
        "commit_timestamp": None if is_tombstone else moment(seconds if committed_at is None else committed_at),
        "expire_timestamp": None if expire is None else moment(expire),
    }
    return _row(position, seconds, producer, commit=value)


def marker(position, seconds, producer, control):
    return _row(position, seconds, producer, control)


def group_record(position, seconds, kind, key, value):
    group = key.get("group", key.get("groupId"))
    record = {
        "group_id": group,
        "key_version": 2,
        "value_version": None if value is None else 0,
        "is_tombstone": value is None,
        "record_bytes": 50,
        "kind": kind,
        "member_id": key.get("memberId"),
        "key_json": json.dumps(key),
        "value_json": None if value is None else json.dumps(value),
    }
    return _row(position, seconds, record=record)


def emptied(position, seconds, group, protocol_type="consumer"):
    """The record of a classic group whose last member is gone."""
    value = {
        "protocolType": protocol_type,
        "generation": 1,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": round(moment(seconds).timestamp() * 1000),
        "members": [],
    }
    return group_record(position, seconds, "GroupMetadata", {"group": group}, value)


def as_records(spark, rows):
    schema = records_type()
    return spark.createDataFrame([tuple(row[name] for name in schema.names) for row in rows], schema)


def expiry_rules(records):
    """What the replay of groups writes to ``expiry_rules``, group by group and log partition by log partition."""
    rows = records.where("record IS NOT NULL").selectExpr("*", "unix_millis(log_timestamp) AS ms").orderBy("log_offset")
    folds, told = {}, []
    for row in rows.collect():
        record = row["record"]
        fold = folds.setdefault((row["log_partition"], record["group_id"]), ExpiryRules(Scope("c", record["group_id"])))
        value = open_blobs(record["kind"], json.loads(record["value_json"] or "null"))
        position = (row["log_partition"], row["log_offset"], row["ms"])
        told += fold.fold(Record(record["kind"], json.loads(record["key_json"]), value, *position))
    columns = table("expiry_rules").columns
    in_ms = ", ".join(f"{c.name} {'bigint' if c.type == 'timestamp' else c.type}" for c in columns)
    df = records.sparkSession.createDataFrame([tuple(row.get(c.name) for c in columns) for _, row in told], in_ms)
    return df.withColumns({c.name: F.timestamp_millis(c.name) for c in columns if c.type == "timestamp"})


def derive(records, until=None, **known):
    """Staged rows of offsets, from settled rows."""
    commits = records.where("commit IS NOT NULL").select(*POSITION, "commit.*")
    markers = records.where("control_type IS NOT NULL").select(*POSITION, "control_type")
    return staged_offsets(Sources(commits=commits, markers=markers, **known), until)


POSITION = ("log_partition", "log_offset", "log_timestamp", "producer_id", "producer_epoch", "missing_before")


def dicts(df):
    return [row.asDict(recursive=True) for row in df.collect()]


def in_ms(df):
    """Timestamps as milliseconds: collected ones lose their zone."""
    named = [field.name for field in df.schema if field.dataType.typeName() == "timestamp"]
    return df.withColumns({name: F.unix_millis(name) for name in named})


def ms(seconds):
    return round(moment(seconds).timestamp() * 1000)
