"""The pages that compare predictions with a real broker are what the script makes today."""

from pathlib import Path

import pytest

from coordinator_replay.simulation.what_if.answer import what_if
from scripts.what_if.judge import judgement
from scripts.what_if.lives import FIRST_THAT_JUDGES, LIVES, judged_life
from scripts.what_if.sample import recorded_groups

REPOSITORY = Path(__file__).resolve().parents[3]
SUMMARY = REPOSITORY / "docs" / "what-if-judged.md"
PREDICTIONS = REPOSITORY / "docs" / "judged" / "what-if-lives.md"


@pytest.mark.long
def test_the_pages_are_up_to_date() -> None:
    made = judgement(REPOSITORY)
    assert SUMMARY.read_text(encoding="utf-8") == made.summary, "run scripts/judge-what-if"
    assert PREDICTIONS.read_text(encoding="utf-8") == made.predictions, "run scripts/judge-what-if"


def test_what_was_recorded_and_how_well_it_is_reproduced_are_up_to_date() -> None:
    summary, predictions = (page.read_text(encoding="utf-8") for page in (SUMMARY, PREDICTIONS))
    for name, group in recorded_groups(REPOSITORY / "tests" / "data" / "variants").items():
        answer = what_if(group, [])
        assert f"| {name} | {answer.recorded.rebalances} | {answer.recorded.partitions_reassigned} |" in summary
        one = answer.fidelity
        assert (
            f"| variants | {name} | {one.matched} : {one.recorded} : {one.simulated} | {one.share:.0%} |" in predictions
        )


# By day the test before this one holds what is recorded and reproduced; predictions themselves are in test_what_if.py.
@pytest.mark.long
def test_what_a_short_life_predicts_is_up_to_date() -> None:
    life = judged_life(REPOSITORY / LIVES / "103")
    assert "\n".join(life.lines) in PREDICTIONS.read_text(encoding="utf-8"), "run scripts/judge-what-if"


def test_lives_that_nobody_looked_at_judge() -> None:
    seeds = [int(folder.name) for folder in (REPOSITORY / LIVES).iterdir()]
    judging = [seed for seed in seeds if seed >= FIRST_THAT_JUDGES]
    assert len(judging) >= 20
