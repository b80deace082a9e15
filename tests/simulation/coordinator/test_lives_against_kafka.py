"""Lives of groups whose consumers behave, run by Kafka's own coordinator as well: the same answers at every step.

Random scripts (``test_random_scripts``) are mostly of unlawful requests; here groups come to rest, are converted both
ways, and their static members return.
"""

import json
import random
from collections.abc import Iterable
from typing import Any, cast

import pytest

from coordinator_replay.simulation.coordinator import Coordinator, Request, Response, Topics
from coordinator_replay.simulation.coordinator.script import ScriptRun
from tests.simulation.coordinator import oracle
from tests.simulation.coordinator.lives import MAKERS, TOPICS, Step, do
from tests.simulation.coordinator.recorded_scripts import first_difference, run
from tests.simulation.coordinator.simulated_consumers import Fleet

KINDS = [*MAKERS, "mixed", "mixed"]
"""Groups of both protocols more often than others."""


class ScriptedCoordinator:
    """Our coordinator behind a script: what is asked of it becomes the script's lines, ids those of its answers.

    Attributes:
        script: the lines.
        group_id: the group whose consumers are answered; those of others are gone.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.script: list[str] = []
        self.group_id = ""
        self._run = ScriptRun()
        self._asked: dict[int, Request] = {}
        self._line(config=config)
        self._line(topics=[{"name": one.name, "id": one.topic_id, "partitions": one.partitions} for one in TOPICS])

    @property
    def _coordinator(self) -> Coordinator:
        assert self._run.coordinator is not None
        return self._run.coordinator

    @property
    def now_ms(self) -> int:
        return self._coordinator.now_ms

    @property
    def end_offset(self) -> int:
        return self._coordinator.end_offset

    @property
    def topics(self) -> Topics:
        return self._coordinator.topics

    def handle(self, request: Request, _: int) -> list[Response]:
        self._asked[len(self.script)] = request
        client = {"id": request.client_id, "host": request.client_host}
        return self._line(request=request.api, client=client, body=request.body)

    def advance(self, to_ms: int) -> list[Response]:
        return self._line(advance_ms=to_ms - self.now_ms)

    def reload(self) -> list[Response]:
        return self._line(reload=True)

    def look(self) -> None:
        """Have everything told that no response tells."""
        self._line(dump=True)
        self._line(timers=True)

    def _line(self, **line: Any) -> list[Response]:
        self.script.append(json.dumps(line))
        events = json.loads(self._run.run(self.script[-1]))["out"]
        answered = [(self._asked[event["to"]], event) for event in events if "response" in event]
        return [
            Response(event["at"], request.correlation_id, event["api"], event["response"])
            for request, event in answered
            if request.body["groupId"] == self.group_id
        ]


def lives(seed: int, count: int) -> list[str]:
    """A script of so many groups' lives, one after the other."""
    randomness = random.Random(seed)
    delay_ms, interval_ms = randomness.choice([0, 500, 3000]), randomness.choice([0, 1000])
    coordinator = ScriptedCoordinator(
        {"group.initial.rebalance.delay.ms": delay_ms, "group.consumer.assignment.interval.ms": interval_ms}
    )
    for number in range(count):
        coordinator.group_id = f"g{number}"
        fleet = Fleet(cast(Coordinator, coordinator), coordinator.group_id)
        make = MAKERS[randomness.choice(KINDS)]
        for turn, step in enumerate(_steps(randomness)):
            do(fleet, turn, step, make)
            if randomness.random() < 0.1:
                coordinator.look()
        for turn in range(15):
            do(fleet, turn, ("round",), make)
        coordinator.look()
    return coordinator.script


def _steps(randomness: random.Random) -> Iterable[Step]:
    subscriptions = [("foo",), ("foo", "bar"), ("bar", "one")]
    for _ in range(randomness.randint(5, 30)):
        chance = randomness.random()
        if chance < 0.35:
            instance_id = randomness.choice([None, None, "i1", "i2"])
            yield "start", randomness.choice(subscriptions), instance_id, randomness.random() < 0.5
        elif chance < 0.8:
            what = randomness.choice(["leave", "act", "act", "restart", "migrate", "commit", "crash"])
            yield what, randomness.randrange(6)
        elif chance < 0.9:
            yield ("round",)
        elif chance < 0.99:
            yield "time", randomness.choice([0, 500, 3000, 11_000, 40_000])
        else:
            yield ("reload",)


@pytest.mark.kafka
def test_kafka_answers_lives_alike() -> None:
    _compare(1, count=25)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_kafka_answers_many_lives_alike(seed: int) -> None:
    _compare(seed, count=100)


def _compare(seed: int, count: int) -> None:
    script = lives(seed, count)
    difference = first_difference(script, oracle.run([json.loads(line) for line in script]), run(script))
    assert difference is None, f"seed {seed}: {difference}"
