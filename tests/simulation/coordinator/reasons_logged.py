"""Rebalances of classic groups with the reasons that Kafka's coordinator logs, and with those that ours reports."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from coordinator_replay.simulation.coordinator import Event, RebalanceStarted
from coordinator_replay.simulation.coordinator.script import ScriptRun

Reason = tuple[str, int, str]
"""Group, generation before the rebalance, reason."""

PREPARING = re.compile(
    r"Preparing to rebalance group (?P<group>\S+) in state \w+ with old generation (?P<old>\d+) "
    r"\(reason: (?P<why>.*)\)\.$"
)
PENDING = re.compile(r"^Removing \[(.*)\] on pending sync request expiration$")


def logged(answers: Iterable[Mapping[str, Any]]) -> list[Reason]:
    """The rebalances in the log lines among Kafka's answers."""
    lines = [event["log"] for answer in answers for event in answer["out"] if "log" in event]
    found = [match for line in lines if (match := PREPARING.search(line))]
    return [_in_any_order((match["group"], int(match["old"]), match["why"])) for match in found]


def reported(script: Iterable[str]) -> tuple[list[dict[str, Any]], list[Reason]]:
    """What our coordinator answers to a script, and the rebalances that it reports."""
    events: list[Event] = []
    run, answers, found = ScriptRun(events.append), [], []
    for line in script:
        answers.append(json.loads(run.run(line)))
        for event in events:
            if isinstance(event, RebalanceStarted):
                # A member has a name only from the answer on that first shows its id.
                reason = json.loads(run.renamed(json.dumps(event.reason)))
                found.append(_in_any_order((event.group_id, event.generation, reason)))
        events.clear()
    return answers, found


def _in_any_order(entry: Reason) -> Reason:
    """Kafka names members whose SyncGroup is missing in the order of a hash set."""
    group_id, generation, reason = entry
    names = PENDING.search(reason)
    if names is None:
        return entry
    return group_id, generation, f"{sorted(names[1].split(', '))}"
