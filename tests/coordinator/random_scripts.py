"""Random scripts of lawful and unlawful requests, run by Kafka's coordinator and ours, and shortened where they differ.

The scripts come from the oracle's own generator, whose members react to answers. Ours answers while a script is made,
so that Kafka's has to run only once, over the finished script.
"""

import importlib
import json
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from coordinator_replay.coordinator.script import ScriptRun
from tests.coordinator import oracle
from tests.coordinator.recorded_scripts import Difference, first_difference, run

Responder = Callable[[dict[str, Any]], None]


class OurCoordinator:
    """Stands in for the oracle's client while a script is made: same ``send``, answers by our coordinator."""

    def __init__(self) -> None:
        self.script: list[str] = []
        self._run = ScriptRun()
        self._waiting: dict[int, Responder] = {}

    @property
    def waiting(self) -> dict[int, Responder]:
        return self._waiting

    def send(self, command: dict[str, Any], who: Responder | None = None) -> dict[str, Any] | None:
        line = json.dumps(command, separators=(",", ":"))
        index = len(self.script)
        self.script.append(line)
        if who is not None:
            self._waiting[index] = who
        own = None
        for event in json.loads(self._run.run(line))["out"]:
            if "to" not in event:
                continue
            response = event.get("response") or {"thrown": event.get("thrown"), "error": event.get("error")}
            responder = self._waiting.pop(event["to"], None)
            if responder is not None:
                responder(response)
            if event["to"] == index:
                own = response
        return own

    def close(self) -> None:
        """Nothing runs."""


@cache
def _generator() -> ModuleType:
    """The oracle's generator, with our coordinator in place of its client's."""
    folder = str(oracle.oracle_path().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    generator = importlib.import_module("random_script")
    client = importlib.import_module("oracle_client")
    generator.Oracle = type("OurOracle", (OurCoordinator, client.Oracle), {"__init__": OurCoordinator.__init__})
    return generator


def random_script(seed: int, steps: int, *, kind: str | None = None) -> list[str]:
    """A script of about this many lines; with a kind (``classic``, ``modern``) all groups are of it."""
    world = _generator().World(seed, steps)
    if kind is not None:
        world.kind = dict.fromkeys(world.kind, kind)
    world.run()
    return list(world.o.script)


def difference(script: list[str]) -> Difference | None:
    """The first step at which our coordinator and Kafka's differ."""
    return first_difference(script, oracle.run([json.loads(line) for line in script]), run(script))


def shortened(script: list[str], differs: Callable[[list[str]], bool], trials: int = 150) -> list[str]:
    """A script that still differs, and no longer does without any one of its lines (delta debugging).

    The first line, the configuration, stays. After so many trials, each of which may start a JVM, it ends as it is.
    """
    head, lines = script[:1], script[1:]
    size = max(len(lines) // 2, 1)
    while True:
        at, has_shrunk = 0, False
        while at < len(lines):
            rest = lines[:at] + lines[at + size :]
            trials -= 1
            if trials < 0:
                return head + lines
            if differs(head + rest):
                lines, has_shrunk = rest, True
            else:
                at += size
        if size == 1 and not has_shrunk:
            return head + lines
        size = max(size // 2, 1)
