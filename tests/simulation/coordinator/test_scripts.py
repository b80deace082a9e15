"""Scripts that Kafka's own coordinator has answered: ours gives the same answers and records, step by step."""

import pytest

from tests.simulation.coordinator.recorded_scripts import SCRIPTS, answers, commands, first_difference, run


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_are_kafkas(name: str) -> None:
    script = commands(name)
    difference = first_difference(script, answers(name), run(script))
    assert difference is None, str(difference)
