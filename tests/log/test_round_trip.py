"""What is written is what is read, in every format, codec and kind of batch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.log.coverage import SkipRanges
from tests.log.logs import BATCH_CODECS, SET_CODECS, Written, WrittenLog, batches, logs, shown
from tests.log.message_sets import write_message_set
from tests.log.reading import Reading, moment, read
from tests.log.writer import LogEntry, write_batch, write_control


def _assert_reads_as_written(log: WrittenLog, reading: Reading) -> None:
    assert [shown(row) for row in reading.rows] == log.rows
    position = 0
    positions = []
    for entry in log.entries:
        positions += [position] * len(entry.rows)
        position += len(entry.data)
    assert [row["source_position"] for row in reading.rows] == positions
    assert {row["source"] for row in reading.rows} <= {"a.log"}
    assert {row["log_partition"] for row in reading.rows} <= {3}
    offsets = [row["log_offset"] for row in log.rows]
    if log.entries:
        coverage = reading.coverage
        assert coverage.first_offset == log.entries[0].first_offset
        assert coverage.last_offset == log.entries[-1].last_offset
        assert reading.missing_offsets == coverage.last_offset - coverage.first_offset + 1 - len(offsets)
        assert "OFFSETS_DECREASE" not in reading.note_kinds
        missing = [offset - coverage.first_offset - rank for rank, offset in enumerate(offsets)]
        assert [row["missing_before"] for row in reading.rows] == missing


@given(logs())
def test_a_log_reads_as_it_was_written(log: WrittenLog) -> None:
    _assert_reads_as_written(log, read(log.data))


@given(logs(), st.integers(1, 300))
def test_a_log_reads_the_same_through_any_window(log: WrittenLog, window_bytes: int) -> None:
    assert read(log.data, window_bytes=window_bytes) == read(log.data)


@pytest.mark.parametrize("codec", BATCH_CODECS)
def test_a_batch_larger_than_a_block_of_its_codec_reads_as_written(codec: str) -> None:
    entries = [LogEntry(key=b"%d" % row, value=bytes([row % 251]) * 1000, timestamp_ms=row) for row in range(150)]
    reading = read(write_batch(entries, base_offset=7, codec=codec), window_bytes=4096)
    assert [(row["key"], row["value"]) for row in reading.rows] == [(entry.key, entry.value) for entry in entries]
    assert [row["log_offset"] for row in reading.rows] == list(range(7, 157))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", SET_CODECS)
def test_a_large_message_set_reads_as_written(magic: int, codec: str) -> None:
    entries = [LogEntry(key=b"%d" % row, value=bytes([row % 251]) * 1000, timestamp_ms=row) for row in range(150)]
    reading = read(write_message_set(entries, base_offset=7, magic=magic, codec=codec))
    assert [(row["key"], row["value"]) for row in reading.rows] == [(entry.key, entry.value) for entry in entries]
    assert [row["log_offset"] for row in reading.rows] == list(range(7, 157))


def test_a_wrapper_with_offset_0_counts_from_0() -> None:
    """As librdkafka once wrote it: see AbstractLegacyRecordBatch.DeepRecordsIterator."""
    entries = [LogEntry(key=b"k", value=b"v"), LogEntry(key=b"k", value=b"w")]
    data = write_message_set(entries, base_offset=0, magic=1, codec="gzip", wrapper_offset=0)
    assert [row["log_offset"] for row in read(data).rows] == [0, 1]


@pytest.mark.parametrize("time", [-1, -2, 253_402_300_800_000, 2**62])
def test_a_time_that_no_clock_shows_is_null(time: int) -> None:
    data = write_batch([LogEntry(key=b"k", value=b"v", timestamp_ms=time)], base_offset=0)
    assert read(data).rows[0]["log_timestamp"] is None


@pytest.mark.parametrize("time", [0, 1, 253_402_300_799_999])
def test_every_time_that_a_clock_shows_is_kept(time: int) -> None:
    data = write_batch([LogEntry(key=b"k", value=b"v", timestamp_ms=time)], base_offset=0)
    assert read(data).rows[0]["log_timestamp"] == moment(time)


def test_a_batch_with_more_records_than_a_part_holds_comes_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator_replay.log.batches.MOST_RECORDS", 10)
    entries = [LogEntry(key=b"k%d" % row, value=None, timestamp_ms=row) for row in range(95)]
    for codec in ("none", "gzip"):
        few = write_batch(entries[:3], base_offset=0, codec=codec)
        reading = read(few + write_batch(entries, base_offset=3, codec=codec) + write_batch(entries, base_offset=98))
        assert [row["log_offset"] for row in reading.rows] == list(range(193))
        assert [row["key"] for row in reading.rows[3:98]] == [entry.key for entry in entries]
        assert {row["missing_before"] for row in reading.rows} == {0}


def test_a_large_batch_that_is_malformed_at_its_end_yields_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator_replay.log.batches.MOST_RECORDS", 10)
    entries = [LogEntry(key=b"k", value=b"", offset=row) for row in range(40)]
    entries[-1] = LogEntry(key=b"k", value=b"", offset=3)  # offsets must rise
    reading = read(write_batch(entries, base_offset=0, last_offset=50))
    assert [row["error_class"] for row in reading.rows] == ["MalformedBatch"]


@st.composite
def _ranges(draw: st.DrawFn) -> list[tuple[int, int]]:
    numbers = st.integers(-2, 80)
    return [(first, first + draw(st.integers(-1, 30))) for first in draw(st.lists(numbers, max_size=4))]


@st.composite
def _plain_logs(draw: st.DrawFn) -> WrittenLog:
    entries: list[Written] = []
    offset = 0
    for _ in range(draw(st.integers(0, 8))):
        entries.append(draw(batches(offset)))
        offset = entries[-1].last_offset + 1
    return WrittenLog(entries)


@given(_plain_logs(), _ranges(), st.sampled_from([50, 200, 10_000]))
def test_skipping_audited_offsets_leaves_out_whole_batches_and_nothing_else(
    log: WrittenLog, skip: list[tuple[int, int]], window_bytes: int
) -> None:
    covered = {offset for first, last in skip for offset in range(first, last + 1)}

    def is_kept(row: dict[str, Any]) -> bool:
        entry = next(entry for entry in log.entries if entry.first_offset == row["batch_offset"])
        return not covered.issuperset(range(entry.first_offset, entry.last_offset + 1))

    full = read(log.data)
    reading = read(log.data, skip=SkipRanges(skip), window_bytes=window_bytes)
    assert reading.rows == [row for row in full.rows if is_kept(row)]
    assert reading.coverage.skipped == len(full.rows) - len(reading.rows)
    assert reading.missing_offsets == full.missing_offsets
    assert reading.coverage.last_offset == full.coverage.last_offset


def test_skipped_markers_are_counted() -> None:
    data = write_batch([LogEntry(key=b"k", value=b"v")] * 2, base_offset=0, producer_id=1, is_transactional=True)
    data += write_control(offset=2, control_type=1, producer_id=1)
    data += write_message_set([LogEntry(key=b"k", value=b"v")] * 3, base_offset=3, magic=1, codec="gzip")
    coverage = read(data, skip=SkipRanges([(0, 5)])).coverage
    assert (coverage.skipped, coverage.records) == (6, 0)
