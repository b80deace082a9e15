import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.records.arrays import NO_ROW, TOO_SHORT, Spans, split, split_pairs


@given(st.lists(st.integers(-40, 40), max_size=200), st.integers(1, 3))
def test_each_place_goes_to_its_number_however_many_there_are(numbers: list[int], step: int) -> None:
    parts = split(np.array(numbers, np.int32) * step)
    assert sorted(number for number, _ in parts) == sorted({number * step for number in numbers})
    for number, places in parts:
        assert places.tolist() == [place for place, other in enumerate(numbers) if other * step == number]


OPENINGS = st.integers(-(1 << 15), (1 << 15) - 1) | st.sampled_from([NO_ROW, TOO_SHORT, 0, 1, 2])
PAIRS = st.tuples(OPENINGS, OPENINGS, st.booleans())


@given(st.lists(PAIRS, max_size=200) | st.lists(PAIRS, max_size=3).map(lambda few: few * 70))
def test_each_row_goes_to_its_pair_unless_it_is_left_out(rows: list[tuple[int, int, bool]]) -> None:
    firsts, seconds = (np.array([row[place] for row in rows], np.int32) for place in (0, 1))
    left_out = np.array([row[2] for row in rows], np.bool_)
    expected: dict[tuple[int, int], list[int]] = {}
    for place, (first, second, is_left_out) in enumerate(rows):
        if not is_left_out:
            expected.setdefault((first, second), []).append(place)
    found = split_pairs(firsts, seconds, left_out)
    assert {(first, second): places.tolist() for first, second, places in found} == expected
    assert len(found) == len(expected)


@given(st.lists(st.none() | st.binary(max_size=4), max_size=20), st.integers(0, 3))
def test_rows_open_with_their_first_two_bytes(rows: list[bytes | None], skipped: int) -> None:
    expected = [
        NO_ROW if row is None else TOO_SHORT if len(row) < 2 else int.from_bytes(row[:2], "big", signed=True)
        for row in rows[skipped:]
    ]
    spans = Spans(pa.array(rows, pa.binary())[skipped:])
    assert spans.openings.tolist() == expected
    assert spans.sizes.tolist() == [len(row or b"") for row in rows[skipped:]]
