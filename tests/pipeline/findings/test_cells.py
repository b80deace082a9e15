"""Rows brought together by key, against a dictionary of lists; compiled and as the interpreter runs it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.pipeline.columns import NONE
from coordinator_replay.pipeline.findings import cells as module
from coordinator_replay.pipeline.findings.cells import Cells

NUMBER = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
SOME = st.one_of(st.just(NONE), st.integers(-9, 9))
ROWS = st.lists(st.tuples(NUMBER, NUMBER, st.integers(-9, 9), SOME), max_size=60)


def check(rows):
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.empty(0, np.int64)] * 4
    first, second, numbers, some = columns
    cells = Cells([first, second])
    groups = {}
    for row, key in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        groups.setdefault(key, []).append(row)
    places = list(groups.values())
    assert cells.first(pa.array(range(len(rows)), pa.int64())).to_pylist() == [mine[0] for mine in places]
    assert cells.counts().tolist() == [len(mine) for mine in places]
    assert cells.sums(numbers).tolist() == [sum(numbers[mine].tolist()) for mine in places]
    assert cells.most(some).tolist() == [max(some[mine].tolist()) for mine in places]
    known = [[number for number in some[mine].tolist() if number != NONE] for mine in places]
    assert cells.least(some).tolist() == [min(mine, default=NONE) for mine in known]


@given(ROWS)
def test_rows_of_one_key_are_brought_together(rows):
    check(rows)


@given(ROWS)
def test_the_loops_mean_the_same_to_the_interpreter(rows):
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):
        for name in ("_find", "_add", "_raise"):
            patch.setattr(module, name, getattr(module, name).__wrapped__)
        check(rows)
