"""Damaged logs: nothing raises, nothing hangs, and no batch suffers for its neighbour."""

import gzip
import os
import struct
import time
import zlib
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.log.coverage import SkipRanges
from coordinator_replay.log.segment import looks_like_segment
from tests.log.batch_spans import walk_batches
from tests.log.logs import WrittenLog, logs, shown
from tests.log.message_sets import write_message_set
from tests.log.reading import Reading, read
from tests.log.writer import LogEntry, compress, write_batch

ENTRIES = [LogEntry(key=b"key %d" % row, value=b"value" * row, timestamp_ms=row) for row in range(5)]


def _batch(base_offset: int, codec: str = "none") -> bytes:
    return write_batch(ENTRIES, base_offset=base_offset, codec=codec)


def _forged(batch: bytes, at: int, replacement: bytes) -> bytes:
    """The batch with other bytes somewhere and a checksum that is right again."""
    forged = bytearray(batch)
    forged[at : at + len(replacement)] = replacement
    forged[17:21] = struct.pack(">I", crc32c(bytes(forged[21:])))
    return bytes(forged)


@given(logs(smallest=1), st.data())
def test_a_truncated_log_yields_a_prefix_of_the_records_and_no_damage(log: WrittenLog, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(log.data)))
    reading = read(log.data[:length], window_bytes=data.draw(st.sampled_from([64, 1000, 100_000])))
    whole = [row for index, entry in enumerate(log.entries) if log.span(index).stop <= length for row in entry.rows]
    assert [shown(row) for row in reading.rows] == whole
    stops = [0, *(log.span(index).stop for index in range(len(log.entries)))]
    rest = log.data[max(stop for stop in stops if stop <= length) : length]
    expected = [] if not rest else ["TORN_TAIL"] if any(rest) else ["ZERO_PADDING"]
    assert [kind for kind in reading.note_kinds if kind in ("TORN_TAIL", "ZERO_PADDING")] == expected


def _rows_outside(log: WrittenLog, touched: set[int], reading: Reading) -> list[dict[str, Any]]:
    """The rows that do not come from the bytes of the touched entries."""
    spans = [log.span(index) for index in touched]
    return [row for row in reading.rows if not any(row["source_position"] in span for span in spans)]


@given(logs(smallest=1), st.data())
def test_flipped_bytes_never_change_or_lose_records_of_other_batches(log: WrittenLog, data: st.DataObject) -> None:
    changed = bytearray(log.data)
    places = data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=4))
    for place in places:
        changed[place] ^= data.draw(st.integers(1, 255))
    touched = {index for index in range(len(log.entries)) if any(place in log.span(index) for place in places)}
    reading = read(bytes(changed), window_bytes=data.draw(st.sampled_from([64, 500, 100_000])))
    found = [shown(row) for row in _rows_outside(log, touched, reading)]
    expected = [row for index, entry in enumerate(log.entries) if index not in touched for row in entry.rows]
    if len(places) > 1:
        # Offset and size of one old message, or of two in a row, may lie together in such a way that the next old
        # message can't be told from one within a wrapper. It is part of the damage then.
        expected = [row for row in expected if row["magic"] == 2 or row in found]
    assert found == expected


@given(st.binary(max_size=2000))
def test_random_bytes_never_raise(data: bytes) -> None:
    assert not read(data).records
    looks_like_segment(data)
    list(walk_batches(data))


@given(logs(smallest=2, largest=4), st.binary(min_size=1, max_size=200))
def test_garbage_between_batches_is_one_stretch_of_damage(log: WrittenLog, garbage: bytes) -> None:
    half = len(log.entries) // 2
    data = b"".join([*(entry.data for entry in log.entries[:half]), garbage, *(e.data for e in log.entries[half:])])
    reading = read(data)
    assert [shown(row) for row in reading.records] == log.rows
    (damage,) = reading.damage
    assert damage["source_position"] == log.span(half).start
    assert damage["value"] == garbage


@given(logs(smallest=1), st.data())
def test_damage_in_a_gzipped_file_never_raises_and_keeps_what_came_before(log: WrittenLog, data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(log.data, mtime=0))
    place = data.draw(st.integers(10, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    read(bytes(packed))
    cut = read(gzip.compress(log.data, mtime=0)[: data.draw(st.integers(18, len(packed) - 1))])
    assert [shown(row) for row in cut.rows] == log.rows[: len(cut.rows)]
    assert "TORN_TAIL" in cut.note_kinds


@pytest.mark.parametrize("window_bytes", [100, 1 << 20])
def test_a_wrong_checksum_quarantines_its_batch_alone(window_bytes: int) -> None:
    first, second, third = _batch(0), bytearray(_batch(5)), _batch(10)
    second[-1] ^= 1
    reading = read(first + bytes(second) + third, window_bytes=window_bytes)
    assert [row["log_offset"] for row in reading.records] == [*range(5), *range(10, 15)]
    (damage,) = reading.damage
    assert damage["error_class"] == "ChecksumMismatch"
    assert damage["value"] == bytes(second)
    assert damage["log_offset"] == 5
    assert damage["source_position"] == len(first)
    assert reading.missing_offsets == 5


def test_a_size_that_lies_by_exactly_one_neighbour_does_not_swallow_it() -> None:
    first, second, third = _batch(0), _batch(5), _batch(10)
    lying = first[:8] + struct.pack(">i", len(first) + len(second) - 12) + first[12:]
    reading = read(lying + second + third)
    assert [row["log_offset"] for row in reading.records] == list(range(5, 15))
    assert [row["value"] for row in reading.damage] == [lying]


def test_a_size_beyond_the_end_of_the_file_is_damage_if_whole_batches_follow() -> None:
    first = _batch(0)
    for size in (1 << 20, 1 << 30):
        lying = first[:8] + struct.pack(">i", size) + first[12:]
        reading = read(lying + _batch(5), window_bytes=256)
        assert [row["log_offset"] for row in reading.records] == list(range(5, 10))
        assert [row["value"] for row in reading.damage] == [lying]
        assert reading.note_kinds == []


def test_two_damaged_batches_in_a_row_are_two_rows() -> None:
    damaged = [bytearray(_batch(0)), bytearray(_batch(5))]
    for batch in damaged:
        batch[30] ^= 0x10
    reading = read(b"".join(bytes(batch) for batch in damaged) + _batch(10))
    assert [row["value"] for row in reading.damage] == [bytes(batch) for batch in damaged]
    assert len(reading.records) == 5


def test_zeros_up_to_the_end_are_a_note_even_over_many_windows() -> None:
    for zeros in (1, 16, 17, 61, 5000):
        reading = read(_batch(0) + bytes(zeros), window_bytes=128)
        assert len(reading.rows) == 5
        (note,) = reading.notes
        assert note.startswith(f"{zeros} zero bytes at the end")
        assert note.endswith(f"(byte {len(_batch(0))})")


def test_zeros_in_the_middle_are_damage() -> None:
    reading = read(_batch(0) + bytes(1000) + _batch(5), window_bytes=256)
    assert [row["log_offset"] for row in reading.records] == list(range(10))
    assert [row["value"] for row in reading.damage] == [bytes(1000)]


def test_a_batch_of_unknown_magic_is_stepped_over() -> None:
    unknown = bytearray(_batch(5))
    unknown[16] = 3
    reading = read(_batch(0) + bytes(unknown) + _batch(10))
    assert [(row["error_class"], row["log_offset"]) for row in reading.damage] == [("UnsupportedMagic", 5)]
    assert len(reading.records) == 10


def test_an_unknown_codec_is_named() -> None:
    reading = read(_forged(_batch(0), 21, struct.pack(">h", 5)) + _batch(5))
    assert [(row["error_class"], row["log_offset"]) for row in reading.damage] == [("UnsupportedCodec", 0)]
    assert len(reading.records) == 5


@pytest.mark.parametrize("codec", ["gzip", "snappy", "snappy-raw", "lz4", "zstd"])
def test_a_block_that_does_not_decompress_is_named(codec: str) -> None:
    batch = _batch(0, codec)
    reading = read(_forged(batch, 70, bytes([byte ^ 0xFF for byte in batch[70:]])) + _batch(5, codec))
    assert [row["error_class"] for row in reading.damage] == ["DecompressionFailed"]
    assert [row["log_offset"] for row in reading.records] == list(range(5, 10))


@pytest.mark.parametrize("count", [-1, 0, 1, 4, 6, 1000, 2**31 - 1])
def test_a_record_count_that_lies_is_a_malformed_batch(count: int) -> None:
    reading = read(_forged(_batch(0), 57, struct.pack(">i", count)) + _batch(5))
    assert [(row["error_class"], row["log_offset"]) for row in reading.damage] == [("MalformedBatch", 0)]
    assert [row["log_offset"] for row in reading.records] == list(range(5, 10))


@pytest.mark.parametrize("last_delta", [-(2**31), -1, 0, 3])
def test_records_beyond_the_last_offset_of_their_batch_are_malformed(last_delta: int) -> None:
    reading = read(_forged(_batch(0), 23, struct.pack(">i", last_delta)) + _batch(5))
    assert [row["error_class"] for row in reading.damage] == ["MalformedBatch"]
    assert len(reading.records) == 5


@given(st.binary(max_size=120), st.integers(-1, 20), st.sampled_from(["none", "gzip"]))
def test_records_of_random_bytes_are_read_or_malformed_but_never_touch_a_neighbour(
    body: bytes, count: int, codec: str
) -> None:
    summed = struct.pack(">hiqqqhii", 1 if codec == "gzip" else 0, 100, 0, 0, -1, -1, -1, count) + compress(codec, body)
    batch = struct.pack(">qiibI", 5, 9 + len(summed), 0, 2, crc32c(summed)) + summed
    reading = read(_batch(0) + batch + _batch(200))
    offsets = [row["log_offset"] for row in reading.records]
    assert offsets[:5] == list(range(5))
    assert offsets[-5:] == list(range(200, 205))
    assert len(offsets) == 10 + (0 if reading.damage else max(count, 0))


@given(logs(smallest=1, largest=3), st.data())
def test_forged_batches_with_right_checksums_never_raise(log: WrittenLog, data: st.DataObject) -> None:
    """Flips behind the checksum's back: what the checksum would have caught must be caught by bounds."""
    entry = data.draw(st.sampled_from(log.entries)).data
    if entry[16] != 2:
        return
    places = data.draw(st.lists(st.integers(21, len(entry) - 1), min_size=1, max_size=6))
    for place in places:
        entry = _forged(entry, place, bytes([data.draw(st.integers(0, 255))]))
    reading = read(_batch(0) + entry + _batch(2**40))
    offsets = [row["log_offset"] for row in reading.records]
    assert offsets[:5] == list(range(5))
    assert offsets[-5:] == list(range(2**40, 2**40 + 5))


def test_a_bomb_is_refused_without_its_memory() -> None:
    for codec in ("gzip", "zstd", "lz4", "snappy", "snappy-raw"):
        bomb = write_batch([LogEntry(key=b"k", value=bytes(1 << 22))], base_offset=0, codec=codec)
        reading = read(bomb + _batch(1), max_plain_bytes=1 << 20)
        assert [row["error_class"] for row in reading.damage] == ["DecompressionFailed"], codec
        assert [row["log_offset"] for row in reading.records] == list(range(1, 6))


def test_a_batch_larger_than_the_limit_is_damage_and_the_next_is_found() -> None:
    large = write_batch([LogEntry(key=b"k", value=os.urandom(100_000))], base_offset=0)
    reading = read(large + _batch(1), window_bytes=1000, max_batch_bytes=50_000)
    assert [row["error_class"] for row in reading.damage] == ["BatchTooLarge"]
    assert [row["log_offset"] for row in reading.records] == list(range(1, 6))


def test_only_the_first_mebibyte_of_damage_is_kept_and_the_row_says_so() -> None:
    large = bytearray(write_batch([LogEntry(key=b"k", value=bytes(3 << 20))], base_offset=0))
    large[100] ^= 1
    (damage,) = read(bytes(large)).rows
    assert damage["value"] == bytes(large[: 1 << 20])
    assert f"the first 1048576 of its {len(large)} bytes" in damage["error_message"]


def test_offsets_that_go_back_are_read_and_noted() -> None:
    reading = read(_batch(10) + _batch(0))
    assert [row["log_offset"] for row in reading.records] == [*range(10, 15), *range(5)]
    assert reading.note_kinds == ["OFFSETS_DECREASE"]
    assert (reading.coverage.first_offset, reading.coverage.last_offset) == (0, 14)


def test_damage_right_behind_audited_batches_is_found_all_the_same() -> None:
    """A skipped batch whose size was damaged since must not take the next one with it."""
    skipped = _batch(0)
    lying = skipped[:8] + struct.pack(">i", len(skipped) + 20) + skipped[12:]
    reading = read(lying + _batch(5) + _batch(10), skip=SkipRanges([(0, 4)]))
    assert [row["log_offset"] for row in reading.records] == list(range(5, 15))
    assert [row["value"] for row in reading.damage] == [lying]


def test_a_message_within_a_wrapper_with_a_wrong_checksum_takes_only_its_wrapper() -> None:
    good = write_message_set(ENTRIES, base_offset=0, magic=1, codec="gzip")
    inner = bytearray(write_message_set(ENTRIES[:2], base_offset=0, magic=1))
    inner[-1] ^= 1
    broken = write_message_set([LogEntry(key=None, value=compress("gzip", bytes(inner)))], base_offset=6, magic=1)
    forged = bytearray(broken)
    forged[17] = 1  # the codec, which makes a wrapper of it
    forged[12:16] = struct.pack(">I", zlib.crc32(bytes(forged[16:])))
    reading = read(good + bytes(forged) + write_message_set(ENTRIES, base_offset=7, magic=1, codec="gzip"))
    assert [row["log_offset"] for row in reading.records] == [*range(5), *range(7, 12)]
    assert [row["error_class"] for row in reading.damage] == ["ChecksumMismatch"]


def test_a_file_made_of_headers_that_claim_much_is_read_in_reasonable_time() -> None:
    """Each of them looks like a batch of 100 MB whose checksum would have to be computed."""
    header = bytearray(write_batch([], base_offset=1))
    header[8:12] = struct.pack(">i", 3 << 20)
    began = time.monotonic()
    reading = read(bytes(header) * (4 * (1 << 20) // len(header)))
    assert not reading.records
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_messages_that_show_through_a_damaged_wrapper_are_not_taken_for_entries(magic: int, codec: str) -> None:
    """What does not compress stands in the wrapper as it is, with offsets of its own."""
    entries = [LogEntry(key=os.urandom(200), value=os.urandom(200)) for _ in range(3)]
    wrapper = write_message_set(entries, base_offset=10, magic=magic, codec=codec)
    damaged = wrapper[:-1] + bytes([wrapper[-1] ^ 1])
    first, last = (write_message_set(entries, base_offset=at, magic=magic, codec=codec) for at in (1, 20))
    for before in (b"", first):
        reading = read(before + damaged + last)
        assert [row["value"] for row in reading.damage] == [damaged]
        assert [row["log_offset"] for row in reading.records][-3:] == [20, 21, 22]
        assert len(reading.records) == (6 if before else 3)
        torn = read(before + wrapper[:-1])
        assert torn.note_kinds == ["TORN_TAIL"]
        assert len(torn.rows) == (3 if before else 0)


def test_a_batch_that_begins_at_the_very_end_of_the_window_is_found() -> None:
    """While it looks for one the window holds what is kept of the damage, and one header."""
    window_bytes = (1 << 20) + 61
    for length in range(window_bytes - 18, window_bytes + 2):
        garbage = b"\xff" * length
        reading = read(garbage + _batch(5), window_bytes=1000)
        assert [row["log_offset"] for row in reading.records] == list(range(5, 10)), length
        assert reading.damage[0]["source_position"] == 0
        assert f"of its {length} bytes" in reading.damage[0]["error_message"]
