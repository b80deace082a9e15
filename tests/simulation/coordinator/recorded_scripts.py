"""Scripts that Kafka's own coordinator has run, and how its answers are compared with ours.

What does not count: the order that Kafka leaves to its hash tables (members, topics, partitions, records of one kind
within a batch), and log lines. In target assignments the order of topics and partitions counts: it decides what a
member keeps when its quota falls.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator_replay.simulation.coordinator.script import ScriptRun
from tests.samples import DATA

FOLDER = DATA / "coordinator" / "scripts"
SCRIPTS = sorted(path.name.removesuffix(".out.jsonl") for path in FOLDER.glob("*.out.jsonl"))
TARGET = "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER"
ORDER_COUNTS = {"protocols", "supportedProtocols", "out"}
"""Lists whose order is the client's or that of time."""


@dataclass(frozen=True)
class Difference:
    """The first step at which two coordinators differ."""

    step: int
    command: str
    kafka: list[Any]
    ours: list[Any]

    def __str__(self) -> str:
        rows = [f"step {self.step}: {self.command}"]
        for at in range(max(len(self.kafka), len(self.ours))):
            theirs = self.kafka[at] if at < len(self.kafka) else None
            mine = self.ours[at] if at < len(self.ours) else None
            if theirs != mine:
                rows += [f"  kafka: {json.dumps(theirs)}", f"  ours:  {json.dumps(mine)}"]
        return "\n".join(rows)


def commands(name: str) -> list[str]:
    """The lines of a script."""
    return _lines(FOLDER / f"{name}.jsonl")


def answers(name: str) -> list[dict[str, Any]]:
    """What Kafka answered."""
    return [json.loads(line) for line in _lines(FOLDER / f"{name}.out.jsonl")]


def run(script: list[str]) -> list[dict[str, Any]]:
    """What our coordinator answers."""
    run = ScriptRun()
    return [json.loads(run.run(line)) for line in script]


def first_difference(script: list[str], kafka: list[dict[str, Any]], ours: list[dict[str, Any]]) -> Difference | None:
    """The first step at which the answers differ, None where they agree."""
    assert len(kafka) == len(script), "Kafka has not answered every line"
    for step, (command, theirs, mine) in enumerate(zip(script, kafka, ours, strict=True)):
        left, right = _events(theirs, mine), _events(mine, theirs)
        if (theirs["i"], theirs["now"]) != (mine["i"], mine["now"]) or left != right:
            return Difference(step, command, left, right)
    return None


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip()]


def _events(answer: dict[str, Any], other: dict[str, Any]) -> list[Any]:
    """What of an answer counts: no log lines, and the inner state only where both tell it."""
    shown = {kind for event in other["out"] for kind in ("dump", "timers") if kind in event}
    return [
        canonical(event)
        for event in answer["out"]
        if "log" not in event and not any(kind in event and kind not in shown for kind in ("dump", "timers"))
    ]


def canonical(value: Any, name: str = "") -> Any:
    """The value with every order that does not count brought to one."""
    if isinstance(value, dict):
        exact = {"value": value["value"]} if value.get("kind") == TARGET else {}
        return {key: canonical(one, key) for key, one in _paired(value).items()} | exact
    if not isinstance(value, list):
        return value
    values = [canonical(one) for one in value]
    if name == "records":
        return _runs(values)
    if name in ORDER_COUNTS or (name in ("partitions", "assignmentEpochs") and values and isinstance(values[0], int)):
        return values
    return sorted(values, key=lambda one: json.dumps(one, sort_keys=True))


def _paired(value: dict[str, Any]) -> dict[str, Any]:
    """Partitions ascending, their epochs with them."""
    partitions = value.get("partitions")
    if not isinstance(partitions, list) or not all(isinstance(one, int) for one in partitions):
        return value
    epochs = value.get("assignmentEpochs")
    if not isinstance(epochs, list):
        return {**value, "partitions": sorted(partitions)}
    pairs = sorted(zip(partitions, epochs, strict=True))
    return {**value, "partitions": [one for one, _ in pairs], "assignmentEpochs": [epoch for _, epoch in pairs]}


def _runs(records: list[Any]) -> list[Any]:
    """Neighbours of one kind in the order of their keys; offsets are given out anew."""
    if not records:
        return records
    first = records[0].get("offset")
    sorted_records: list[Any] = []
    run: list[Any] = []
    for record in records:
        if run and _kind(run[0]) != _kind(record):
            sorted_records += sorted(run, key=_key)
            run = []
        run.append(record)
    sorted_records += sorted(run, key=_key)
    return [{**record, "offset": first + at} for at, record in enumerate(sorted_records)]


def _kind(record: Any) -> tuple[str, bool]:
    return record.get("kind"), record.get("value") is None


def _key(record: Any) -> str:
    return json.dumps(record.get("key"), sort_keys=True)
