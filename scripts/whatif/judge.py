"""Holds predictions against what a real broker wrote when the same life was lived under the settings predicted."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from coordinator_replay.errors import UsageError
from coordinator_replay.whatif.alternative import Alternative
from coordinator_replay.whatif.answer import WhatIf, what_if
from coordinator_replay.whatif.measures import Measures
from coordinator_replay.whatif.recorded import Recorded
from scripts.whatif.sample import recorded_groups

VARIANTS: Mapping[str, Mapping[str, str]] = {
    "shop-v-dynamic": {
        "group.protocol": "classic",
        "partition.assignment.strategy": "range",
        "group.instance.id": "none",
        "session.timeout.ms": "6000",
    },
    "shop-v-static": {
        "group.protocol": "classic",
        "partition.assignment.strategy": "range",
        "group.instance.id": "per-client",
        "session.timeout.ms": "6000",
    },
    "shop-v-patient": {
        "group.protocol": "classic",
        "partition.assignment.strategy": "range",
        "group.instance.id": "per-client",
        "session.timeout.ms": "20000",
    },
    "shop-v-coop": {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "group.instance.id": "none",
        "session.timeout.ms": "6000",
    },
    "shop-v-new": {
        "group.protocol": "consumer",
        "group.remote.assignor": "uniform",
        "group.instance.id": "none",
        "session.timeout.ms": "5000",
    },
    "shop-v-newstatic": {
        "group.protocol": "consumer",
        "group.remote.assignor": "uniform",
        "group.instance.id": "per-client",
        "session.timeout.ms": "5000",
    },
}
"""The six groups, and the settings that each was recorded under."""

COMMON = {
    "heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "300",
    "metadata.max.age.ms": "2000",
}
"""Settings of all six that no record holds: read from how long joins took, so these predictions are not blind."""

SOURCES = ("shop-v-dynamic", "shop-v-coop", "shop-v-new", "shop-v-static", "shop-v-patient", "shop-v-newstatic")


def page(repository: Path) -> str:
    """The page, in Markdown."""
    folder = repository / "tests" / "data" / "variants"
    groups = recorded_groups(folder)
    recorded = {name: what_if(group, []).recorded for name, group in groups.items()}
    lines = [
        "# What-if, judged by brokers",
        "",
        "Made by `scripts/judge-what-if`; a test holds both together.",
        "",
        "The same life, step by step, was recorded by a real broker (4.3.1) in six groups with six settings. Each is",
        "predicted from each other one and held against what the broker wrote. Wanted are rebalances within ±1 or",
        "10 %, partitions reassigned within 20 %, time without owner within 30 % where it is on record. What is",
        "outside is **bold**.",
        "",
        "The settings that no record holds are given. They were read from this sample itself, from how long its joins",
        "and delays took, so these predictions are not blind; nobody has tried Kafka's defaults in their place:",
        "",
        *(f"- `{name}={value}`" for name, value in COMMON.items()),
        "- and the session timeout and assignor of each group.",
        "",
        "## What was recorded",
        "",
        "| group | rebalances | partitions reassigned | without owner in all, ms |",
        "|---|---|---|---|",
        *(
            f"| {name} | {one.rebalances} | {one.partitions_reassigned} | {_shown(one.unowned_ms_total)} |"
            for name, one in recorded.items()
        ),
    ]
    for source in SOURCES:
        lines += ["", f"## From {source}", "", *_predictions(groups[source], recorded)]
    lines += ["", "## Recorded settings over all groups of the samples", "", *_fidelities(repository)]
    return "\n".join([*lines, ""])


def _predictions(source: Recorded, recorded: Mapping[str, Measures]) -> Iterable[str]:
    others = [name for name in VARIANTS if name != source.group_id]
    answer = what_if(
        source, [Alternative(values={**VARIANTS[name], **COMMON}) for name in others], known=_known(source.group_id)
    )
    yield str(answer.fidelity)
    yield ""
    if not answer.alternatives:
        yield " ".join(answer.differences)
        return
    yield "| predicted: recorded | rebalances | partitions reassigned | without owner in all, ms |"
    yield "|---|---|---|---|"
    for name, one in zip(others, answer.alternatives, strict=True):
        truth = recorded[name]
        cells = [
            _judged(one.rebalances, truth.rebalances, max(1, truth.rebalances / 10)),
            _judged(one.partitions_reassigned, truth.partitions_reassigned, truth.partitions_reassigned / 5),
            _judged(one.unowned_ms_total, truth.unowned_ms_total, (truth.unowned_ms_total or 0) * 0.3),
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    predicted = {name: one.rebalances for name, one in zip(others, answer.alternatives, strict=True)}
    inverted = [
        (one, other)
        for one in others
        for other in others
        if recorded[one].rebalances < recorded[other].rebalances and predicted[one] > predicted[other]
    ]
    yield ""
    yield (
        "The ranking by rebalances is right."
        if not inverted
        else "The ranking by rebalances is wrong for "
        + ", ".join(f"{one} and {other}" for one, other in inverted)
        + "."
    )


def _known(group: str) -> dict[str, str]:
    """What is known of the recorded life beside its records, which hold the session timeout of classic members."""
    known = dict(COMMON)
    if VARIANTS[group]["group.protocol"] == "consumer":
        known["session.timeout.ms"] = VARIANTS[group]["session.timeout.ms"]
    return known


def _judged(predicted: int | None, truth: int | None, most: float) -> str:
    if truth is None or predicted is None:
        return f"{_shown(predicted)} : {_shown(truth)}"
    text = f"{predicted:,} : {truth:,}"
    return text if abs(predicted - truth) <= most else f"**{text}**"


def _shown(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _fidelities(repository: Path) -> Iterable[str]:
    """How well each group of each sample is reproduced with nothing given that its records don't tell."""
    yield "| sample | group | matched : recorded : simulated | share | |"
    yield "|---|---|---|---|---|"
    for folder in sorted(one.parent for one in (repository / "tests" / "data").glob("*/cluster-metadata")):
        for name, group in recorded_groups(folder).items():
            yield f"| {folder.name} | {name} | {_fidelity(group)} |"


def _fidelity(group: Recorded) -> str:
    try:
        answer: WhatIf = what_if(group, [])
    except UsageError as problem:
        return f"- | - | {problem}"
    one = answer.fidelity
    told = "" if one.is_enough else "nothing is predicted"
    return f"{one.matched} : {one.recorded} : {one.simulated} | {one.share:.0%} | {told}"
