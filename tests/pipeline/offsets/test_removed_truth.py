"""Why offsets were removed, against the truth of random lives on the simulated coordinator."""

from pathlib import Path

import pytest

from scripts.reasons.removed import judge_removed, removed_table
from scripts.world.mixes import FLEET, UNIFORM, Mix
from tests.pipeline.in_process import audit_here


def test_no_certain_cause_of_a_removed_offset_is_wrong(tmp_path: Path) -> None:
    """A group and topics were deleted."""
    _check(UNIFORM, [300, 307], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("mix", [UNIFORM, FLEET])
def test_no_certain_cause_is_wrong_in_many_lives(mix: Mix, tmp_path: Path) -> None:
    _check(mix, list(range(1_000_000, 1_001_000)), tmp_path)


def _check(mix: Mix, seeds: list[int], folder: Path) -> None:
    removals = judge_removed(seeds, mix, folder, audit_here, is_retention_known=True)
    assert removals
    table = "\n".join(removed_table(mix.name, removals))
    sure = [removal for removal in removals if removal.row["ended_confidence"] == "certain"]
    assert [removal for removal in sure if not removal.is_right] == [], table
    assert [removal for removal in removals if not removal.is_among] == [], table
