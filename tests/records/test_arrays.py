import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records.arrays import NO_ROW, TOO_SHORT, Spans, split


@given(st.lists(st.integers(-40, 40), max_size=200), st.integers(1, 3))
def test_each_place_goes_to_its_number_however_many_there_are(numbers: list[int], step: int) -> None:
    parts = split(np.array(numbers, np.int32) * step)
    assert sorted(number for number, _ in parts) == sorted({number * step for number in numbers})
    for number, places in parts:
        assert places.tolist() == [place for place, other in enumerate(numbers) if other * step == number]


@given(st.lists(st.none() | st.binary(max_size=4), max_size=20), st.integers(0, 3))
def test_rows_open_with_their_first_two_bytes(rows: list[bytes | None], skipped: int) -> None:
    expected = [
        NO_ROW if row is None else TOO_SHORT if len(row) < 2 else int.from_bytes(row[:2], "big", signed=True)
        for row in rows[skipped:]
    ]
    spans = Spans(pa.array(rows, pa.binary())[skipped:])
    assert spans.openings.tolist() == expected
    assert spans.sizes.tolist() == [len(row or b"") for row in rows[skipped:]]
