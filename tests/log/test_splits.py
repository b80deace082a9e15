"""A segment file in splits: together they give the rows of the whole file."""

import gzip
import io
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.log.dump import DumpFile
from coordinator_replay.log.reading import read_file, split_file
from coordinator_replay.log.segment import read_segment
from coordinator_replay.log.splits import WHOLE, LimitedFile, Split, split_segment
from coordinator_replay.log.writer import LogEntry, write_batch
from tests.log.logs import WrittenLog, logs
from tests.log.reading import read


def splits_of(data: bytes, split_bytes: int) -> list[Split]:
    return list(split_segment(io.BytesIO(data), split_bytes=split_bytes, window_bytes=500))


def rows_of(data: bytes, splits: list[Split]) -> list[dict[str, Any]]:
    rows = []
    for split in splits:
        file = io.BytesIO(data)
        file.seek(split.start)
        limited = LimitedFile(file, (len(data) if split.stop is None else split.stop) - split.start)
        for part in read_segment(limited, source="a.log", log_partition=3, split=split):
            rows += part.records.to_pylist()
    return rows


@given(logs(smallest=1), st.integers(1, 2000))
def test_splits_hold_the_rows_of_the_whole_file(log: WrittenLog, split_bytes: int) -> None:
    assert rows_of(log.data, splits_of(log.data, split_bytes)) == read(log.data).rows


@given(logs(smallest=3), st.integers(1, 300), st.data())
def test_damage_is_a_row_of_one_split_and_counts_as_in_the_whole_file(
    log: WrittenLog, split_bytes: int, data: st.DataObject
) -> None:
    changed = bytearray(log.data)
    for place in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=4)):
        changed[place] ^= data.draw(st.integers(1, 255))
    assert rows_of(bytes(changed), splits_of(bytes(changed), split_bytes)) == read(bytes(changed)).rows


def _log(batches: int) -> list[bytes]:
    entries = [LogEntry(key=b"k", value=b"v" * 50, timestamp_ms=0)] * 3
    return [write_batch(entries, base_offset=3 * at) for at in range(batches)]


def test_splits_follow_each_other_and_are_of_the_size_asked_for() -> None:
    batches = _log(30)
    splits = splits_of(b"".join(batches), 1000)
    assert len(splits) > 3
    assert splits[0].start == 0
    assert [split.stop for split in splits] == [*(split.start for split in splits[1:]), None]
    # A window begins with a batch that is never split at, so a split may be a batch longer.
    assert all(1000 <= split.stop - split.start < 1000 + 2 * len(batches[0]) for split in splits if split.stop)


def test_a_packed_file_stays_whole() -> None:
    assert splits_of(gzip.compress(b"".join(_log(9))), 50) == [WHOLE]


def test_a_file_is_split_only_if_it_is_larger_than_a_split(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(_log(9)))
    file = DumpFile(str(path), 3, path.stat().st_size)
    splits = split_file(file, 300)
    parts = [part for split in splits for part in read_file(file, split=split)]
    assert len(splits) > 1
    assert [at for part in parts for at in part.records["log_offset"].to_pylist()] == list(range(27))
    assert split_file(DumpFile("no such file", 3, 100), 100) == [WHOLE]
