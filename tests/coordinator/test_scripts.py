"""Scripts that Kafka's own coordinator has answered: ours gives the same answers and records, step by step."""

import pytest

from tests.coordinator.recorded_scripts import SCRIPTS, answers, commands, first_difference, run

NOT_YET = frozenset(
    name for name in SCRIPTS if name.startswith(("16", "21", "27", "31", "32", "34", "35", "36", "37", "39", "random"))
)
"""Scripts that need what is not built yet."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.xfail(strict=False)] if name in NOT_YET else []) for name in SCRIPTS]
)
def test_answers_are_kafkas(name: str) -> None:
    script = commands(name)
    difference = first_difference(script, answers(name), run(script))
    assert difference is None, str(difference)
