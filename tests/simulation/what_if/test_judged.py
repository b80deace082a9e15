"""The page that holds predictions against a real broker is what the script makes today."""

from pathlib import Path

import pytest

from coordinator_replay.simulation.what_if.answer import what_if
from scripts.what_if.judge import page
from scripts.what_if.lives import FIRST_THAT_JUDGES, LIVES, judged_life
from scripts.what_if.sample import recorded_groups

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "docs" / "what-if-judged.md"


@pytest.mark.long
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(REPOSITORY), "run scripts/judge-what-if"


def test_what_was_recorded_and_how_well_it_is_reproduced_are_up_to_date() -> None:
    written = PAGE.read_text(encoding="utf-8")
    for name, group in recorded_groups(REPOSITORY / "tests" / "data" / "variants").items():
        answer = what_if(group, [])
        assert f"| {name} | {answer.recorded.rebalances} | {answer.recorded.partitions_reassigned} |" in written
        one = answer.fidelity
        assert f"| variants | {name} | {one.matched} : {one.recorded} : {one.simulated} | {one.share:.0%} |" in written


def test_what_a_short_life_predicts_is_up_to_date() -> None:
    life = judged_life(REPOSITORY / LIVES / "103")
    assert "\n".join(life.lines) in PAGE.read_text(encoding="utf-8"), "run scripts/judge-what-if"


def test_lives_that_nobody_looked_at_judge() -> None:
    seeds = [int(folder.name) for folder in (REPOSITORY / LIVES).iterdir()]
    judging = [seed for seed in seeds if seed >= FIRST_THAT_JUDGES]
    assert len(judging) >= 20
