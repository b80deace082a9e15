"""Segments recorded from real brokers, held against what Kafka's classes and a consumer made of them."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.log.segment import looks_like_segment
from tests.log.batch_spans import walk_batches
from tests.log.reading import Reading, moment, read

DATA = Path(__file__).parent.parent / "data"
SAMPLES = sorted(path.parent.name for path in DATA.glob("*/segments"))


def _lines(sample: str, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / sample / name).read_text().splitlines()]


def _read_current_segments(sample: str) -> dict[tuple[int, int], dict[str, Any]]:
    """All records by partition and offset."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for path in sorted((DATA / sample / "segments").glob("*/*.log")):
        reading = read(path.read_bytes())
        assert not reading.damage
        for record in reading.records:
            found[int(path.parent.name.rsplit("-", 1)[1]), record["log_offset"]] = record
    return found


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_record_is_what_kafka_decoded(sample: str) -> None:
    found = _read_current_segments(sample)
    decoded = _lines(sample, "decoded.jsonl")
    assert sorted(found) == sorted((line["partition"], line["offset"]) for line in decoded)
    for line in decoded:
        record = found[line["partition"], line["offset"]]
        assert record["log_timestamp"] == moment(line["timestamp"])
        assert record["magic"] == line["magic"]
        assert record["compression"] == line["compression"]
        assert record["leader_epoch"] == (None if line["leaderEpoch"] == -1 else line["leaderEpoch"])
        assert record["producer_id"] == line["producerId"]
        assert record["producer_epoch"] == line["producerEpoch"]
        assert record["is_transactional"] == line["transactional"]
        assert record["control_type"] == line.get("control")
        if "keyVersion" in line:
            assert int.from_bytes(record["key"][:2], "big") == line["keyVersion"]
            assert (record["value"] is None) == line.get("tombstone", False)


@pytest.mark.parametrize("sample", [name for name in SAMPLES if (DATA / name / "records.jsonl").exists()])
def test_keys_and_values_are_those_a_consumer_saw(sample: str) -> None:
    found = {at: record for at, record in _read_current_segments(sample).items() if record["control_type"] is None}
    consumed = _lines(sample, "records.jsonl")
    assert sorted(found) == sorted((line["partition"], line["offset"]) for line in consumed)
    for line in consumed:
        record = found[line["partition"], line["offset"]]
        assert record["key"] == base64.b64decode(line["key"])
        assert record["value"] == (None if line["payload"] is None else base64.b64decode(line["payload"]))
        assert record["log_timestamp"] == moment(line["ts"])


def test_deleted_segments_agree_with_their_compacted_successors_and_hold_what_those_lack() -> None:
    survivors = _read_current_segments("compacted")
    more = 0
    for path in sorted((DATA / "compacted" / "segments").glob("*/*.log.deleted")):
        reading = read(path.read_bytes())
        assert not reading.damage
        assert reading.missing_offsets == 0
        for record in reading.records:
            survivor = survivors.get((int(path.parent.name.rsplit("-", 1)[1]), record["log_offset"]))
            if survivor is None:
                more += 1
            else:
                assert (record["key"], record["value"]) == (survivor["key"], survivor["value"])
                assert record["log_timestamp"] == survivor["log_timestamp"]
    assert more > 50


def test_compaction_shows_as_missing_offsets_and_an_empty_batch() -> None:
    path = DATA / "compacted" / "segments" / "__consumer_offsets-0" / "00000000000000000000.log"
    reading = read(path.read_bytes())
    assert (reading.coverage.first_offset, reading.coverage.last_offset) == (1, 20)
    assert reading.missing_offsets == 12
    assert reading.note_kinds == ["EMPTY_BATCHES"]
    offsets = [record["log_offset"] for record in reading.records]
    assert [record["missing_before"] for record in reading.records] == [
        offset - 1 - rank for rank, offset in enumerate(offsets)
    ]


@pytest.mark.parametrize("sample", [name for name in SAMPLES if not name.startswith("old-format")])
def test_the_metadata_log_of_the_broker_reads_without_damage(sample: str) -> None:
    (path,) = (DATA / sample / "cluster-metadata").glob("*.log")
    reading = read(path.read_bytes())
    assert not reading.damage
    assert reading.missing_offsets == 0
    assert {record["control_type"] for record in reading.records} == {None, "OTHER"}


def test_a_gzipped_segment_reads_like_the_plain_one() -> None:
    path = DATA / "group-lifecycles" / "segments" / "__consumer_offsets-0" / "00000000000000000000.log"
    plain = path.read_bytes()
    half = len(plain) // 2
    expected = read(plain)
    assert read(gzip.compress(plain)) == expected
    assert read(gzip.compress(plain[:half]) + gzip.compress(plain[half:])) == expected


@pytest.mark.parametrize("window_bytes", [1, 61, 100, 1000, 10_000])
@pytest.mark.parametrize("sample", ["transactions", "expiration", "compacted", "old-format-gzip"])
def test_the_size_of_the_window_does_not_show(sample: str, window_bytes: int) -> None:
    for path in sorted((DATA / sample / "segments").glob("*/*.log*")):
        if ".index" not in path.name:
            data = path.read_bytes()
            assert read(data, window_bytes=window_bytes) == read(data)


def test_segments_are_recognised_and_other_files_of_the_folder_are_not() -> None:
    for path in DATA.glob("*/*"):
        if path.is_file():
            assert not looks_like_segment(path.read_bytes()[:100]), path
    for path in DATA.glob("*/segments/*/*"):
        head = path.read_bytes()[:200]
        if ".log" in path.name:
            assert looks_like_segment(head)
    for path in DATA.glob("*/parquet/*"):
        assert not looks_like_segment(path.read_bytes()[:100])


@pytest.mark.parametrize("sample", SAMPLES)
def test_walking_the_batches_finds_the_offsets_without_reading_records(sample: str) -> None:
    for path in sorted((DATA / sample / "segments").glob("*/*.log")):
        data = path.read_bytes()
        reading: Reading = read(data)
        spans = list(walk_batches(memoryview(data), window_bytes=1000))
        if not spans:
            assert not data
            continue
        sizes = [size for span in spans for size in span.sizes.tolist()]
        positions = [position for span in spans for position in span.positions.tolist()]
        assert positions == [sum(sizes[:index]) for index in range(len(sizes))]
        assert max(int(span.last_offsets.max()) for span in spans) == reading.coverage.last_offset
        if sample != "old-format-gzip":  # a wrapper hides how many messages it holds
            assert int(spans[0].base_offsets[0]) == reading.coverage.first_offset
            assert sum(int(span.record_counts.sum()) for span in spans) == len(reading.records)
            control = sum(int(span.is_control.sum()) for span in spans)
            assert control == sum(row["control_type"] is not None for row in reading.records)
