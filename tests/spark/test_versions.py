"""What this package says on a Spark that lacks a feature, and what it takes from each version."""

import logging
from collections import Counter

import pyspark
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.pipeline.host import spark_versions
from coordinator_replay.pipeline.host.failure import leave_it_to_the_run
from coordinator_replay.spark import register, replay_group, replay_groups
from coordinator_replay.spark.replay import TABLES
from tests.pipeline.audited_once import AuditedOnce
from tests.samples import Sample


class Session:
    """A session as far as ``register`` asks it."""

    def __init__(self) -> None:
        self.registered: list[object] = []
        self.conf = self
        self.dataSource = self

    def set(self, *setting: str) -> None:
        self.registered.append(setting)

    def register(self, source: object) -> None:
        self.registered.append(source)


@pytest.mark.parametrize("version", ["3.5.8", "3.5.5-amzn-0"])
def test_on_spark_3_the_data_source_says_what_it_needs(version, monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", version)
    session = Session()
    with pytest.raises(PrerequisiteError, match=f"needs Spark 4.0 or newer, and this is Spark {version}"):
        register(session)
    assert not session.registered


@pytest.mark.skipif(spark_versions.version() < (4, 0), reason="there is no data source to register")
def test_on_spark_4_0_the_functions_say_what_they_need(monkeypatch, caplog):
    monkeypatch.setattr(pyspark, "__version__", "4.0.2")
    session = Session()
    with caplog.at_level(logging.WARNING):
        register(session)
    assert len(session.registered) == 2
    assert "consumer_protocol need Spark 4.1 or newer, and this is Spark 4.0.2" in caplog.text


@pytest.mark.parametrize(
    ("version", "scala", "clients"),
    [
        ("3.5.8", "2.12", "3.4.1"),
        ("4.0.2", "2.13", "3.9.1"),
        ("4.2.1", "2.13", "3.9.2"),
        ("4.10.0.dev1", "2.13", "3.9.2"),
    ],
)
def test_the_kafka_source_is_that_of_the_spark(version, scala, clients, monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", version)
    assert spark_versions.kafka_source()[:2] == (scala, clients)


def test_servers_of_accumulators_print_no_trace():
    servers = spark_versions.accumulator_servers()
    assert servers
    leave_it_to_the_run()
    assert {server.handle_error.__module__ for server in servers} == {leave_it_to_the_run.__module__}


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[*]", True), ("local[2, 3]", True), ("local-cluster[2,1,1024]", False), ("yarn", False),
     ("spark://local:7077", False), ("", False)],
)  # fmt: skip
def test_only_a_session_on_one_machine_is_local(master, is_local):
    class Conf:
        def get(self, name: str, default: str) -> str:
            assert name == "spark.master"
            return master or default

    class Local:
        conf = Conf()

    assert spark_versions.is_local(Local()) is is_local  # type: ignore[arg-type]


@pytest.mark.spark
def test_a_classic_session_is_not_remote(spark: SparkSession):
    assert not spark_versions.is_remote(spark)
    assert spark_versions.is_local(spark)
    done, total = spark_versions.running_tasks(spark)()
    assert (done, total) == (0, 0)


@pytest.mark.spark
def test_groups_are_replayed_from_tables_of_an_audit(spark: SparkSession, audited_once: AuditedOnce):
    """On every Spark, without the data source."""
    warehouse = audited_once(Sample("transactions").segments).warehouse
    records = spark.read.parquet(*DeltaTable(str(warehouse / "group_records")).file_uris())
    replay = replay_groups(records, tasks=3)
    groups = [row["group_id"] for row in records.select("group_id").distinct().collect()]
    one_by_one = Counter(name for group in groups for name, _ in replay_group(records, group))
    assert {name: getattr(replay, name).count() for name in TABLES} == one_by_one
    assert all(one_by_one[name] for name in TABLES)
