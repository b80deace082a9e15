"""Several numbers as one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.columns import packed

SMALL = st.integers(-3, 3)
WIDE = st.one_of(SMALL, st.integers(-(2**62), 2**62))


def columns(rows):
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


@given(st.lists(st.tuples(WIDE, WIDE, SMALL), min_size=1, max_size=30))
def test_packed_keys_sort_and_differ_as_the_keys_do(rows):
    codes = packed(columns(rows)).tolist()
    for one, first in zip(rows, codes, strict=True):
        for other, second in zip(rows, codes, strict=True):
            assert (one < other) == (first < second)
