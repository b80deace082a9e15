"""Scripts of lives with odd requests, run by Kafka's coordinator and ours; shortened where these differ."""

import json
from collections.abc import Callable

from tests.simulation.coordinator import oracle
from tests.simulation.coordinator.odd_life import OddLife
from tests.simulation.coordinator.recorded_scripts import Difference, first_difference, run


def random_script(seed: int, steps: int) -> list[str]:
    """A script of about this many commands; that time passes counts as none."""
    return OddLife(seed).script(steps)


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
