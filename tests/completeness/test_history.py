"""What copies of a log partition prove, by the offsets that they have."""

from dataclasses import replace

import numpy as np
import pytest

from coordinator_replay.completeness.copies import CopyBounds, CopyOffsets, copy_of
from coordinator_replay.completeness.history import history_of


@pytest.mark.parametrize("gap", [(14, 24), (20, 24)])
def test_a_gap_behind_the_last_record_is_one(gap):
    bounds = CopyBounds(
        log_partition=2, name="", is_export=False, covered_from=0, cleaned_to=24, end=24, gaps=(gap,)
    )  # fmt: skip
    copy = copy_of("run", bounds, CopyOffsets(np.arange(10)))
    assert copy.missing(0) == [(10, 24, True)]
    first, behind = history_of([copy])
    assert (first.to_offset, first.is_whole) == (10, True)
    assert (behind.begins_at, behind.is_gap, behind.exact_from_offset) == (10, True, None)


def test_offsets_that_a_file_covers_and_no_record_stands_at_are_no_gap_behind_the_last_record_either():
    bounds = CopyBounds(
        log_partition=2, name="", is_export=False, covered_from=0, cleaned_to=24, end=24, gaps=((3, 5),)
    )  # fmt: skip
    copy = copy_of("run", bounds, CopyOffsets(np.array([0, 1, 2, 5, 6])))
    assert copy.missing(0) == [(3, 5, True), (7, 24, False)]
    assert len(copy.starts) == 2


def test_a_record_whose_key_cannot_be_read_is_a_gap():
    bounds = CopyBounds(log_partition=2, name="", is_export=False, covered_from=0, cleaned_to=0, end=10)
    copy = copy_of("run", bounds, CopyOffsets(np.array([0, 1, 2, 4, 5, 7, 8]), np.array([9, 3])))
    assert copy.missing(0) == [(3, 4, True), (6, 7, False), (9, 10, True)]
    whole, *behind = history_of([copy])
    assert (whole.to_offset, whole.is_whole) == (3, True)
    assert [(one.begins_at, one.is_gap, one.exact_from_offset) for one in behind] == [(3, True, None), (9, True, None)]


def test_a_copy_that_covers_what_an_older_one_lacked_makes_a_hole_of_the_gap():
    bounds = CopyBounds(log_partition=2, name="", is_export=False, covered_from=0, cleaned_to=20, end=24)
    older = copy_of("1", replace(bounds, gaps=((5, 12),)), CopyOffsets(np.array([*range(5), *range(12, 24)])))
    newer = copy_of("2", bounds, CopyOffsets(np.array([0, 3, 7, *range(15, 24)])))
    for copies in ([older, newer], [newer, older]):
        _, last = history_of(copies)
        assert (last.begins_at, last.is_gap, last.from_offset, last.exact_from_offset) == (5, False, 15, 20)
        assert last.copy is newer
