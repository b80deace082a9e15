"""Sums by key, against sums one by one."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.pipeline.columns import NONE, Sums, array_of, packed

SMALL = st.integers(-3, 3)
WIDE = st.one_of(SMALL, st.integers(-(2**62), 2**62))


def columns(rows):
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


@given(st.lists(st.tuples(WIDE, WIDE, SMALL), min_size=1, max_size=30))
def test_packed_keys_sort_and_differ_as_the_keys_do(rows):
    codes = packed(columns(rows))
    together = list(zip(*(code.tolist() for code in codes), strict=True))
    for one, mine in zip(rows, together, strict=True):
        for other, its in zip(rows, together, strict=True):
            assert (one < other) == (mine < its)


@given(st.lists(st.tuples(WIDE, SMALL, st.sampled_from([NONE, -5, 0, 7]), st.integers(0, 99)), min_size=1, max_size=40))
def test_each_key_has_the_sums_of_its_rows(rows):
    first, second, values, within = columns(rows)
    sums = Sums([first, second], within)
    keys = sorted({row[:2] for row in rows})
    mine = [[row for row in rows if row[:2] == key] for key in keys]
    assert sums.counts().tolist() == [len(each) for each in mine]
    assert sums.sums(within).tolist() == [sum(row[3] for row in each) for each in mine]
    assert sums.most(values).tolist() == [max(row[2] for row in each) for each in mine]
    known = [[row[2] for row in each if row[2] != NONE] for each in mine]
    assert sums.least(values).tolist() == [min(each, default=NONE) for each in known]
    assert sums.last(within).tolist() == [max(row[3] for row in each) for each in mine]
    assert sums.first(pa.array(first)).to_pylist() == [key[0] for key in keys]


def test_no_value_is_null():
    assert array_of(np.array([1, NONE], np.int64), pa.int32()).to_pylist() == [1, None]
