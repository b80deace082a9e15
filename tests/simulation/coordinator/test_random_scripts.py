"""Random scripts are answered as Kafka's own coordinator answers them; what differs is shown in its shortest form."""

import pytest

from tests.nightly import rest_at_night
from tests.simulation.coordinator.random_scripts import difference, random_script, shortened

STEPS = 200


@pytest.mark.kafka
@pytest.mark.parametrize("seed", rest_at_night(range(3), [0]))
def test_kafka_answers_a_random_script_alike(seed: int) -> None:
    _compare(seed)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(3, 20), *range(1000, 1300)])
def test_kafka_answers_many_random_scripts_alike(seed: int) -> None:
    _compare(seed)


def _compare(seed: int) -> None:
    script = random_script(seed, STEPS)
    found = difference(script)
    if found is not None:
        # Only what comes before the difference can have caused it.
        shortest = shortened(script[: found.step + 1], lambda lines: difference(lines) is not None)
        pytest.fail("\n".join([f"seed {seed}", *shortest, str(difference(shortest))]))


def test_shortening_keeps_what_matters() -> None:
    script = ["config", *"abcdefghij"]
    assert shortened(script, lambda lines: "c" in lines and "h" in lines) == ["config", "c", "h"]
