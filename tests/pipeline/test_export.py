"""Exports without a broker: what is said where Spark can't read from Kafka, and which jars it needs for that."""

from pathlib import Path

import pytest

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.pipeline.export import Exported, ExportOptions, run_export
from coordinator_replay.pipeline.host.jars import DELTA, KAFKA_SOURCE, cache_folder


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [None, 4])
def test_a_session_without_the_kafka_source_is_told_what_to_start_it_with(spark, tmp_path, partitions):
    options = ExportOptions(bootstrap_servers="127.0.0.1:1", out=str(tmp_path), partitions=partitions)
    with pytest.raises(PrerequisiteError, match=r"--packages org\.apache\.spark:spark-sql-kafka"):
        run_export(spark, options)
    assert list(tmp_path.iterdir()) == []


def test_the_jars_of_the_kafka_source_lie_beside_those_of_delta_where_a_folder_is_named(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("COORDINATOR_REPLAY_JARS", str(tmp_path))
    assert cache_folder(DELTA) == tmp_path
    assert cache_folder(KAFKA_SOURCE).parent == tmp_path


def test_of_what_sparks_resolver_fetches_only_a_librarys_own_jars_are_kept():
    fetched = ["io.delta_delta-storage-4.4.0.jar", "org.scala-lang_scala-library-2.13.16.jar"]
    assert [name for name in fetched if DELTA.has(name)] == fetched[:1]
    source, *others = KAFKA_SOURCE.jars
    assert KAFKA_SOURCE.has(f"{source.group}_{source.artifact}-{source.version}.jar")
    assert not KAFKA_SOURCE.has(f"{source.group}_spark-tags_2.13-{source.version}.jar")
    assert all(jar.group != DELTA.jars[0].group for jar in others)


def test_an_export_whose_first_record_lies_behind_the_end_of_the_last_one_is_told_from_a_first_one():
    exported = Exported(from_offsets={0: 0, 1: 7, 2: 7, 3: 7}, first_offsets={0: 4, 1: 9, 2: 7})
    assert exported.behind() == [1]
