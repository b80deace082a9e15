"""What copies of a log partition prove, by the offsets that they have."""

import numpy as np
import pytest

from coordinator_replay.pipeline.completeness import CopyBounds, copy_of, history_of


@pytest.mark.parametrize("gap", [(14, 24), (20, 24)])
def test_a_gap_behind_the_last_record_is_one(gap):
    bounds = CopyBounds(
        log_partition=2, name="", is_export=False, covered_from=0, cleaned_to=24, end=24, gaps=(gap,)
    )  # fmt: skip
    copy = copy_of("run", bounds, np.arange(10))
    assert copy.missing(0) == [(10, 24, True)]
    first, behind = history_of([copy])
    assert (first.to_offset, first.is_whole) == (10, True)
    assert (behind.begins_at, behind.is_gap, behind.exact_from) == (10, True, None)


def test_offsets_that_a_file_covers_and_no_record_stands_at_are_no_gap_behind_the_last_record_either():
    bounds = CopyBounds(
        log_partition=2, name="", is_export=False, covered_from=0, cleaned_to=24, end=24, gaps=((3, 5),)
    )  # fmt: skip
    copy = copy_of("run", bounds, np.array([0, 1, 2, 5, 6]))
    assert copy.missing(0) == [(3, 5, True), (7, 24, False)]
    assert len(copy.starts) == 2
