"""Exports without a broker: what is said where Spark can't read from Kafka, and which jars it needs for that."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.errors import PySparkException

from coordinator_replay.errors import InputError, PrerequisiteError
from coordinator_replay.export.folders import ExportedDump
from coordinator_replay.export.topic import Exported, ExportOptions, cluster_errors, run_export
from coordinator_replay.log.dump import find_dump
from coordinator_replay.pipeline.host.jars import cache_folder, delta, kafka_source


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [None, 4])
def test_a_session_without_the_kafka_source_is_told_what_to_start_it_with(spark, tmp_path, partitions):
    options = ExportOptions(bootstrap_servers="127.0.0.1:1", out=str(tmp_path), partitions=partitions)
    with pytest.raises(PrerequisiteError, match=r"--packages org\.apache\.spark:spark-sql-kafka"):
        run_export(spark, options)
    assert list(tmp_path.iterdir()) == []


def test_the_jars_of_the_kafka_source_lie_beside_those_of_delta_where_a_folder_is_named(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("COORDINATOR_REPLAY_JARS", str(tmp_path))
    assert cache_folder(delta()) == tmp_path
    assert cache_folder(kafka_source()).parent == tmp_path


def test_of_what_sparks_resolver_fetches_only_a_librarys_own_jars_are_kept():
    fetched = ["io.delta_delta-storage-4.4.0.jar", "org.scala-lang_scala-library-2.13.16.jar"]
    assert [name for name in fetched if delta().has(name)] == fetched[:1]
    source, *others = kafka_source().jars
    assert kafka_source().has(f"{source.group}_{source.artifact}-{source.version}.jar")
    assert not kafka_source().has(f"{source.group}_spark-tags_2.13-{source.version}.jar")
    assert all(jar.group != delta().jars[0].group for jar in others)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("java.io.IOException: No space left on device", PySparkException),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized", InputError),
    ],
)
def test_a_full_disk_is_no_error_of_the_cluster(cause, expected):
    options = ExportOptions(bootstrap_servers="broker-1:9092", out="/dumps/prod")
    with pytest.raises(expected), cluster_errors(options):
        raise PySparkException(f"[STREAM_FAILED] Query terminated\nCaused by: {cause}")


def test_an_export_whose_first_record_lies_behind_the_end_of_the_last_one_is_told_from_a_first_one():
    exported = Exported(from_offsets={0: 0, 1: 7, 2: 7, 3: 7}, first_offsets={0: 4, 1: 9, 2: 7})
    assert exported.behind() == [1]


def export_folder(spark, dump: ExportedDump, number: int, now: datetime, *, is_complete: bool = True) -> Path:
    """A batch of ten records, as a follower writes it."""
    place, is_written = dump.place(number, now)
    assert not is_written
    first = 10 * number
    rows = [(b"key", b"value", "__consumer_offsets", offset % 2, offset) for offset in range(first, first + 10)]
    columns = "key binary, value binary, topic string, partition int, offset long"
    spark.createDataFrame(rows, columns).repartition(3).write.parquet(dump.uri_of(place))
    if not is_complete:
        (Path(dump.uri_of(place)) / "_SUCCESS").unlink()
    return Path(dump.uri_of(place))


def offsets(out: Path) -> list[int]:
    """Offsets that an audit of the dump would read."""
    tables = [pyarrow.parquet.read_table(path, columns=["offset"]) for path in find_dump([str(out)]).paths]
    return sorted(offset for table in tables for offset in table["offset"].to_pylist())


@pytest.mark.spark
def test_folders_of_an_hour_are_merged_when_it_is_over_and_stay_for_those_who_read_them(spark, tmp_path):
    dump = ExportedDump(str(tmp_path))
    before = datetime(2026, 11, 23, 22, 59, tzinfo=UTC)
    small = [export_folder(spark, dump, number, before) for number in range(3)]
    newest = export_folder(spark, dump, 3, before + timedelta(minutes=2))
    everything = offsets(tmp_path)
    assert everything == list(range(40))

    assert dump.merge_hours(spark, before) == []
    (merged,) = dump.merge_hours(spark, before + timedelta(minutes=2))
    assert merged.name == "export-20261123T22-000000-000002"
    assert len(list((tmp_path / merged.name).glob("*.parquet"))) == 1
    assert offsets(tmp_path) == everything
    assert dump.merge_hours(spark, before + timedelta(minutes=2)) == []
    assert all(folder.exists() for folder in small)

    assert dump.merge_hours(spark, datetime.now(UTC) + timedelta(minutes=61)) == []
    assert not any(folder.exists() for folder in small)
    assert newest.exists()
    assert offsets(tmp_path) == everything
    # A batch that Spark does again after that is written already.
    assert dump.place(1, before) == (merged, True)


@pytest.mark.spark
def test_a_merge_that_was_killed_is_done_again_and_an_unfinished_batch_waited_for(spark, tmp_path):
    dump = ExportedDump(str(tmp_path))
    hour = datetime(2026, 11, 23, 22, 59, tzinfo=UTC)
    later = hour + timedelta(hours=1)
    for number in range(2):
        export_folder(spark, dump, number, hour)
    killed = export_folder(spark, dump, 2, hour, is_complete=False)
    export_folder(spark, dump, 3, hour)
    assert dump.merge_hours(spark, later) == []
    # It is done again where it was begun, though the hour is another one.
    place, is_written = dump.place(2, later)
    assert (dump.uri_of(place), is_written) == (str(killed), False)
    (killed / "_SUCCESS").touch()
    (merged,) = dump.merge_hours(spark, later)
    (tmp_path / merged.name / "_SUCCESS").unlink()
    assert offsets(tmp_path) == list(range(40))
    assert dump.merge_hours(spark, later) == [merged]
    assert offsets(tmp_path) == list(range(40))


def test_a_dump_of_another_topic_and_one_without_its_checkpoint_are_refused(tmp_path):
    dump = ExportedDump(str(tmp_path / "dump"))
    dump.check_checkpoint()
    dump.check_topic("AAAAAAAAAAAAAAAAAAAAAA")
    dump.check_topic("one")
    dump.check_topic("one")
    with pytest.raises(InputError, match="holds exports of another topic"):
        dump.check_topic("two")
    (tmp_path / "dump" / "export-20261123T22-000000").mkdir()
    with pytest.raises(InputError, match=r"not the folder \.checkpoint"):
        dump.check_checkpoint()
    (tmp_path / "dump" / ".checkpoint").mkdir()
    dump.check_checkpoint()
