"""Why offsets were removed, against the truth of random lives on the simulated coordinator."""

from collections.abc import Sequence

import pytest

from scripts.reasons.judge import DOCUMENT
from scripts.reasons.removed import Removal, judge_many, judge_page, judge_removed, removed_page, removed_table
from scripts.world.mixes import FLEET, HELD_OUT, UNIFORM, Mix
from tests.pipeline.in_process import audit_here


def test_no_certain_cause_of_a_removed_offset_is_wrong_and_the_page_says_so() -> None:
    judged = judge_page(audit_here)
    for name, removals in judged.items():
        _check(name, removals)
    assert DOCUMENT.read_text(encoding="utf-8").endswith(removed_page(judged)), "run scripts/judge-reasons"


def test_no_certain_cause_is_wrong_on_a_broker_that_expires_offsets_in_rebalances() -> None:
    """KAFKA-13636: a member joins an Empty group, and retention counts from the commit until the rebalance is over."""
    mix = UNIFORM._replace(fault_share=1)
    [judged] = judge_removed([20_005, 20_008], mix, audit_here, is_retention_known=True)
    _check(mix.name, judged)
    assert "past offsets.retention.minutes since its commit" in str([one.row for one in judged])


@pytest.mark.parametrize("is_retention_known", [True, False])
@pytest.mark.long
@pytest.mark.parametrize("mix", [UNIFORM, FLEET])
def test_no_certain_cause_is_wrong_in_many_lives(mix: Mix, is_retention_known: bool) -> None:
    *_, judged = judge_many(HELD_OUT, mix, audit_here, 25_000, is_retention_known=is_retention_known)
    _check(mix.name, judged)


def _check(name: str, removals: Sequence[Removal]) -> None:
    assert removals
    table = "\n".join(removed_table(name, removals))
    sure = [removal for removal in removals if removal.row["ended_confidence"] == "certain"]
    assert [removal for removal in sure if not removal.is_right] == [], table
    assert [removal for removal in removals if not removal.is_among] == [], table
    assert [(removal.seed, removal.row, removal.false) for removal in removals if removal.false] == []
