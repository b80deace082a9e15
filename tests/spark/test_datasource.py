"""The data source ``consumer_offsets`` over the recorded samples: Kafka's own decode is the judge."""

import json
import os
import shutil
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException

from coordinator_replay.pipeline.host.spark_versions import version
from coordinator_replay.pipeline.stage import TASK_BYTES
from coordinator_replay.spark.datasource import SegmentReader, SourceOptions
from coordinator_replay.spark.log_rows import LOG_ROW
from tests.log.writer import LogEntry, write_batch
from tests.nightly import rest_at_night
from tests.samples import NAMES, Sample

pytestmark = pytest.mark.spark


def read(session, *paths, **options):
    return session.read.format("consumer_offsets").options(**options).load([str(path) for path in paths])


def sentence(action):
    """What an action that fails says last."""
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


@pytest.mark.parametrize("name", rest_at_night(NAMES, ["compacted", "java-clients", "old-format-gzip", "transactions"]))
def test_every_record_is_what_kafka_decoded(session, name):
    sample = Sample(name)
    found = read(session, sample.segments).selectExpr("*", "unix_millis(commit_timestamp) AS commit_ms").collect()
    rows = {(row["log_partition"], row["log_offset"]): row for row in found}
    assert len(rows) == len(found) == len(sample.decoded)
    for expected in sample.decoded:
        row = rows[(expected["partition"], expected["offset"])]
        assert row["error_class"] is None
        assert row["control_type"] == expected.get("control")
        assert row["magic"] == expected["magic"]
        assert (row["producer_id"], row["producer_epoch"]) == (expected["producerId"], expected["producerEpoch"])
        if "kind" not in expected:
            assert row["kind"] is None
            continue
        value = expected.get("value")
        assert (row["kind"], row["is_tombstone"]) == (expected["kind"], value is None)
        assert (row["key_version"], row["value_version"]) == (expected["keyVersion"], expected.get("valueVersion"))
        assert json.loads(row["key_json"]) == expected["key"]
        assert (row["value_json"] and json.loads(row["value_json"])) == value
        if "OffsetCommit" in row["kind"]:
            key = {"group": row["group_id"], "topic": row["topic"], "partition": row["partition"]}
            assert key == expected["key"]
        if row["kind"] == "OffsetCommit" and value is not None:
            assert (row["committed_offset"], row["commit_ms"]) == (value["offset"], value["commitTimestamp"])


def damaged_copy(sample: Sample, folder: Path) -> Path:
    """Segments of a sample, one byte of a batch changed and one file cut short."""
    shutil.copytree(sample.segments, folder)
    largest, *_ = sorted(folder.glob("*/*.log"), key=lambda path: -path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[100] ^= 0xFF
    largest.write_bytes(data[:-5])
    return folder


def test_damaged_stretches_are_rows_that_say_why(session, tmp_path):
    folder = damaged_copy(Sample("group-lifecycles"), tmp_path / "segments")
    rows = read(session, folder).where("error_class IS NOT NULL").collect()
    assert [row["error_class"] for row in rows] == ["ChecksumMismatch"]
    assert rows[0]["source_position"] == 0
    assert rows[0]["value"]
    assert rows[0]["kind"] is None


def test_a_record_that_can_not_be_decoded_keeps_its_bytes(session, tmp_path):
    path = tmp_path / "__consumer_offsets-4" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(write_batch([LogEntry(key=b"\x00\x63abc", value=b"\x00\x01", timestamp_ms=0)], base_offset=0))
    (row,) = read(session, path).collect()
    assert (row["error_class"], row["log_partition"]) == ("UnknownRecordType", 4)
    assert (bytes(row["key"]), bytes(row["value"])) == (b"\x00\x63abc", b"\x00\x01")


def test_bytes_of_all_records_are_there_if_asked_for(session):
    sample = Sample("expiration")
    rows = read(session, sample.segments, **{"with-bytes": "true"}).where("control_type IS NULL").collect()
    found = {
        (row["log_partition"], row["log_offset"]): (
            bytes(row["key"]),
            None if row["value"] is None else bytes(row["value"]),
        )
        for row in rows
    }
    assert found == sample.exported
    assert read(session, sample.segments).where("key IS NOT NULL OR value IS NOT NULL").isEmpty()


def test_small_segments_share_a_task(session):
    folder = Sample("group-lifecycles").segments
    whole = read(session, folder)
    assert whole.select("source").distinct().count() > 1
    assert whole.rdd.getNumPartitions() == 1


def test_a_segment_is_read_by_one_task_whatever_its_size(tmp_path):
    place = tmp_path / "__consumer_offsets-0"
    place.mkdir()
    sizes = [TASK_BYTES // 2, TASK_BYTES // 4, 3 * TASK_BYTES, 5, 5]
    for number, size in enumerate(sizes):
        with (place / f"{number:020}.log").open("wb") as file:
            file.truncate(size)
    tasks = SegmentReader(SourceOptions((str(tmp_path),)), LOG_ROW).partitions()
    assert sorted(one.file.size for task in tasks for one in task.segments) == sorted(sizes)
    alone = [task.segments[0].file.size for task in tasks if len(task.segments) == 1]
    assert 3 * TASK_BYTES in alone
    assert all(sum(one.file.size for one in task.segments) <= TASK_BYTES for task in tasks if len(task.segments) > 1)


def test_filters_on_the_position_change_no_rows(session, tmp_path):
    folder = damaged_copy(Sample("group-lifecycles"), tmp_path / "segments")
    every = session.createDataFrame(read(session, folder).toArrow())
    for condition in (
        "log_partition = 3",
        "log_partition IN (1, 3) AND log_offset > 5",
        "log_offset BETWEEN 3 AND 9",
        "log_offset < 4 OR log_partition = 2",
        "log_offset = -1",
        "NOT log_offset > 7",
        "log_offset IS NULL",
    ):
        found = read(session, folder).where(condition)
        assert_df_equality(found, every.where(condition), ignore_row_order=True, ignore_nullable=True)


@pytest.mark.skipif(version() < (4, 1), reason="Spark hands filters to a data source from 4.1 on")
def test_a_file_that_a_filter_rules_out_is_not_opened(session, tmp_path):
    folder = Path(shutil.copytree(Sample("group-lifecycles").segments, tmp_path / "segments"))
    files = {number: folder / f"__consumer_offsets-{number}" / f"{0:020d}.log" for number in (0, 3)}
    # File systems note when a file was read last if that was before it was written.
    for file in files.values():
        os.utime(file, (0, file.stat().st_mtime))
    assert read(session, folder).where("log_partition <> 3 AND log_partition < 3").count()
    read_at = {number: file.stat().st_atime for number, file in files.items()}
    if not read_at[0]:
        pytest.skip("this file system doesn't note when a file was read")
    assert read_at[3] == 0


def test_a_schema_picks_columns(session):
    folder = Sample("transactions").segments
    reader = session.read.format("consumer_offsets")
    picked = reader.schema("log_offset BIGINT, group_id STRING").load(folder)
    assert_df_equality(picked, read(session, folder).select("log_offset", "group_id"), ignore_row_order=True)


def test_globs_single_files_and_uris_are_read(session):
    folder = Path(Sample("transactions").segments)
    count = read(session, folder).count()
    files = sorted(folder.glob("*/*.log"))
    assert read(session, folder / "*" / "*.log").count() == count
    assert read(session, *files).count() == count
    assert read(session, folder.as_uri()).count() == count


def test_bad_input_is_told_in_a_sentence(session, tmp_path):
    (tmp_path / "notes.txt").write_text("no dump")
    folder = Sample("expiration").folder
    assert "no dump of __consumer_offsets here" in sentence(read(session, tmp_path).count)
    assert "no such file or folder" in sentence(read(session, tmp_path / "missing").count)
    assert "not segments; read it with Spark's own reader" in sentence(read(session, folder / "parquet").count)
    segments = folder / "segments"
    assert "unknown option 'colour'" in sentence(read(session, segments, colour="red").count)
    assert "it must be true or false" in sentence(read(session, segments, include_deleted="maybe").count)
    wrong = session.read.format("consumer_offsets").schema("grupp STRING").load(str(segments))
    assert "there is no column 'grupp'" in sentence(wrong.count)
    wrong = session.read.format("consumer_offsets").schema("group_id INT").load(str(segments))
    assert "column group_id is string, not int" in sentence(wrong.count)


def test_a_truncated_segment_gives_the_records_before_the_cut(session, tmp_path):
    path = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"
    path.parent.mkdir()
    whole = next(Path(Sample("transactions").segments).glob("*/*.log")).read_bytes()
    path.write_bytes(whole)
    before = read(session, path).count()
    path.write_bytes(whole[:-7])
    assert 0 < read(session, path).count() < before


def test_what_is_missing_counts_over_all_segments_of_a_log_partition(session, tmp_path):
    folder = tmp_path / "__consumer_offsets-4"
    folder.mkdir()
    key, value = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", None
    entry = LogEntry(key=key, value=value, timestamp_ms=0)
    for base, count in ((0, 2), (5, 3)):
        (folder / f"{base:020d}.log").write_bytes(write_batch([entry] * count, base_offset=base))
    rows = read(session, folder).orderBy("log_offset").collect()
    assert [(row["log_offset"], row["missing_before"]) for row in rows] == [(0, 0), (1, 0), (5, 3), (6, 3), (7, 3)]
    later = read(session, folder).where("log_offset >= 6").collect()
    assert {row["missing_before"] for row in later} == {3}
