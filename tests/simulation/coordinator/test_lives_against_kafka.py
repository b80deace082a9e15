"""Random lives of the world that causes are judged by, run by Kafka's own coordinator as well.

Kafka gives the same answers and records at each step, and logs the same reasons. So the truth of the world is Kafka's.
"""

import json

import pytest

from coordinator_replay.simulation.coordinator import Batch, MarkerWritten
from coordinator_replay.simulation.coordinator.script import ScriptRun
from scripts.world.life import Life
from scripts.world.mixes import HELD_OUT, MIXES, UNIFORM
from tests.nightly import rest_at_night
from tests.simulation.coordinator import oracle
from tests.simulation.coordinator.reasons_logged import logged, reported
from tests.simulation.coordinator.recorded_scripts import first_difference

OFTEN = (
    *("join", "leave", "crash", "restart", "crash_restart", "static_restart", "static_late", "upgrade", "downgrade"),
    *("hang_long", "admin_remove_static", "subscribe", "reload"),
)
CONVERSIONS = UNIFORM._replace(
    name="conversions", weights={name: (1.0 if name in OFTEN else 0.05) for name in UNIFORM.weights}, odd_share=0
)
"""Members of both protocols who come and go, mostly without waiting for the others."""
SHAPES = {
    **{name: (mix, 12) for name, mix in MIXES.items()},
    "conversions": (CONVERSIONS._replace(overlap_share=0.8), 40),
}
"""Mixes, with numbers of triggers."""
SEEDS = [(name, seed) for name in SHAPES for seed in HELD_OUT[:25]]


def lived(name: str, seed: int) -> Life:
    """A life on a broker without a fault of an earlier release, which Kafka's own coordinator does not have."""
    mix, triggers = SHAPES[name]
    return Life(seed, mix._replace(fault_share=0)).run(triggers)


@pytest.mark.kafka
@pytest.mark.parametrize(("name", "seed"), rest_at_night(SEEDS, [(name, HELD_OUT[1]) for name in SHAPES], several=True))
def test_kafka_answers_a_life_alike_and_logs_the_same_reasons(name: str, seed: int) -> None:
    script = lived(name, seed).coordinator.script()
    ours, reasons = reported(script)
    kafkas = oracle.run([json.loads(line) for line in script])
    difference = first_difference(script, kafkas, ours)
    assert difference is None, f"{name} {seed}: {difference}"
    assert reasons == logged(kafkas)


@pytest.mark.parametrize("name", SHAPES)
def test_a_script_does_to_another_coordinator_what_the_life_did(name: str) -> None:
    life = lived(name, HELD_OUT[1])
    run = ScriptRun()
    for line in life.coordinator.script():
        run.run(line)
    written = [_untimed(one) for one in run.written]
    assert written == [_untimed(one) for one in life.results]
    assert written


def _untimed(written: Batch | MarkerWritten) -> object:
    """What was written but for its times: a script begins at another time than a life."""
    if isinstance(written, MarkerWritten):
        return written.marker.producer_id, written.marker.committed
    return [(record.kind, record.offset, record.key, record.value is None) for record in written.records]
