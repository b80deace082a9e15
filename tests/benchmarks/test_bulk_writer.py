"""The fast writer writes what the plain one does."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.writer import LogEntry, write_batch

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from benchmarks.bulk_writer import write_batches

FIELDS = st.none() | st.binary(max_size=200)
RECORDS = st.lists(st.tuples(FIELDS, FIELDS, st.integers(0, 2**42)), min_size=1, max_size=30)


def _written_plainly(
    records: list[tuple[bytes | None, bytes | None, int]], sizes: list[int], base: int, producers: list[int]
) -> bytes:
    entries = [LogEntry(key=key, value=value, timestamp_ms=time) for key, value, time in records]
    bounds = np.cumsum([0, *sizes]).tolist()
    return b"".join(
        write_batch(
            entries[first:stop],
            base_offset=base + first,
            leader_epoch=4,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0,
            is_transactional=producer >= 0,
        )
        for (first, stop), producer in zip(pairwise(bounds), producers, strict=True)
    )


@given(RECORDS, st.data())
def test_both_writers_write_the_same_bytes(
    records: list[tuple[bytes | None, bytes | None, int]], data: st.DataObject
) -> None:
    sizes: list[int] = []
    while sum(sizes) < len(records):
        sizes.append(data.draw(st.integers(1, len(records) - sum(sizes))))
    producers = [data.draw(st.sampled_from([-1, 0, 2**40])) for _ in sizes]
    base = data.draw(st.integers(0, 2**50))
    keys, values = (pa.array([record[place] for record in records], pa.binary()) for place in (0, 1))
    times = np.array([time for _, _, time in records])
    written = write_batches(keys, values, times, np.array(sizes), base, 4, np.array(producers))
    assert written == _written_plainly(records, sizes, base, producers)


def test_slices_of_arrays_are_written_like_arrays() -> None:
    array = pa.array([b"left out", b"one", None, b"three"], pa.binary())
    times, sizes = np.array([5, 3, 9]), np.array([2, 1])
    copy = pa.array(array[1:].to_pylist(), pa.binary())
    assert write_batches(array[1:], array[1:], times, sizes, 7, 0) == write_batches(copy, copy, times, sizes, 7, 0)


def test_no_records_are_no_bytes() -> None:
    empty = pa.array([], pa.binary())
    assert write_batches(empty, empty, np.array([], np.int64), np.array([], np.int64), 0, 0) == b""


@pytest.mark.parametrize("sizes", [[1], [3], [2, 0], [1, 2], [3, -1]])
def test_sizes_that_do_not_add_up_are_refused(sizes: list[int]) -> None:
    array = pa.array([b"a", b"b"], pa.binary())
    with pytest.raises(ValueError, match="do not add up"):
        write_batches(array, array, np.array([1, 2]), np.array(sizes), 0, 0)
