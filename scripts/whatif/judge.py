"""Holds predictions against what a real broker wrote when the same life was lived under the settings predicted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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

CONFIGURED = {
    "heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "300",
    "metadata.max.age.ms": "2000",
}
"""Settings of all six that nobody wrote down, as the records of all six together suggest them."""

SOURCES = ("shop-v-dynamic", "shop-v-coop", "shop-v-new", "shop-v-static", "shop-v-patient", "shop-v-newstatic")


def page(repository: Path) -> str:
    """The page, in Markdown."""
    folder = repository / "tests" / "data" / "variants"
    groups = recorded_groups(folder)
    recorded = {name: what_if(group, []).recorded for name, group in groups.items()}
    intervals = ", ".join(f"`{name}={value}`" for name, value in CONFIGURED.items())
    lines = [
        "# What-if, judged by brokers",
        "",
        "Made by `scripts/judge-what-if`; a test holds both together.",
        "",
        "The same life, step by step, was recorded by a real broker (4.3.1) in six groups with six settings. Each is",
        "predicted from each other one and held against what the broker wrote. Wanted are rebalances within ±1 or",
        "10 %, partitions reassigned within 20 %, time without owner within 30 % where it is on record. What is",
        "outside is **bold**. A life with static members leaves open when and how they went: a range stands in",
        "parentheses then, which is to hold what was recorded, and is bold where it does not.",
        "",
        "Each prediction is made twice:",
        "",
        "1. **Nothing given**: the alternative's protocol, assignor, instance ids and session timeout, as the",
        "   recording documents them. All else is measured from the one life that it starts from, or Kafka's default.",
        "   These predictions are blind.",
        f"2. **Intervals given**: besides {intervals}.",
        "   A user knows these settings; of this recording nobody wrote them down. They were read from the records of",
        "   all six, so these predictions are not blind in their times.",
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
    tallies: dict[str, Tally] = {"nothing given": Tally(), "intervals given": Tally()}
    told = []
    for source in SOURCES:
        told += ["", f"## From {source}"]
        for given, (kind, tally) in zip(({}, CONFIGURED), tallies.items(), strict=True):
            told += ["", f"### {kind.capitalize()}", "", *_predictions(groups[source], recorded, given, tally)]
    lines += ["", "## How many are within the bounds", "", *_summary(tallies), *told]
    lines += ["", "## Recorded settings over all groups of the samples", "", *_fidelities(repository)]
    return "\n".join([*lines, ""])


@dataclass
class Tally:
    """How many predictions are within the bounds: of lives with dynamic members, and of those with static ones."""

    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    made: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, source: str, measure: str, *, holds: bool) -> None:
        """Take up a prediction."""
        kind = "static" if "static" in source or "patient" in source else "dynamic"
        self.made[kind, measure] += 1
        self.held[kind, measure] += holds


def _summary(tallies: Mapping[str, Tally]) -> Iterable[str]:
    yield "| from lives with | | " + " | ".join(label for _, label in JUDGED) + " |"
    yield "|---|---|" + "---|" * len(JUDGED)
    for kind in ("dynamic", "static"):
        for given, tally in tallies.items():
            cells = [f"{tally.held[kind, name]} of {tally.made[kind, name]}" for name, _ in JUDGED]
            yield f"| {kind} members | {given} | " + " | ".join(cells) + " |"
    yield ""
    yield from (
        "Why predictions miss:",
        "",
        "- **Time without owner with nothing given**: brokers have members of consumer groups beat every 5 s by",
        "  default; this one had them beat ten times as often, which no record of a classic group tells. A slower",
        "  heartbeat also lets several changes fall into one rebalance.",
        "- **The start**: three clients started within a second. Whether the third one comes in time for the first",
        "  generation is decided by some hundred milliseconds that no record has: a rebalance and three partitions.",
        "- **Cooperative-sticky**: librdkafka joins at most once a second, which is simulated; its main loop woke",
        "  up to half a second after that, which is not. When each member renews its metadata is known to within an",
        "  interval.",
    )


def _predictions(
    source: Recorded, recorded: Mapping[str, Measures], given: Mapping[str, str], tally: Tally
) -> Iterable[str]:
    others = [name for name in VARIANTS if name != source.group_id]
    answer = what_if(
        source,
        [Alternative(values={**VARIANTS[name], **given}) for name in others],
        known={**given, **_known(source.group_id)},
    )
    yield str(answer.fidelity)
    yield ""
    if not answer.alternatives:
        yield " ".join(answer.differences)
        return
    yield "| predicted: recorded | " + " | ".join(label for _, label in JUDGED) + " |"
    yield "|---|" + "---|" * len(JUDGED)
    for name, one in zip(others, answer.alternatives, strict=True):
        cells = [_judged(source.group_id, measure, one, recorded[name], tally) for measure, _ in JUDGED]
        yield f"| {name} | " + " | ".join(cells) + " |"
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
    """The session timeout of a consumer group, which only its broker has; classic members have it on record."""
    is_consumer = VARIANTS[group]["group.protocol"] == "consumer"
    return {"session.timeout.ms": VARIANTS[group]["session.timeout.ms"]} if is_consumer else {}


JUDGED = (
    ("rebalances", "rebalances"),
    ("partitions_reassigned", "partitions reassigned"),
    ("unowned_ms_total", "without owner in all, ms"),
)


def _most_off(measure: str, truth: int) -> float:
    """By how much a prediction may differ from what was recorded."""
    return {"rebalances": max(1, truth / 10), "partitions_reassigned": truth / 5}.get(measure, truth * 0.3)


def _judged(source: str, measure: str, one: Measures, recorded: Measures, tally: Tally) -> str:
    predicted, truth = getattr(one, measure), getattr(recorded, measure)
    if truth is None or predicted is None:
        return f"{_shown(predicted)} : {_shown(truth)}"
    shown = f"{predicted:,}"
    is_near = abs(predicted - truth) <= _most_off(measure, truth)
    if measure in one.ranges:
        least, most = one.ranges[measure]
        shown += f" ({least:,} to {most:,})"
        is_near = least <= truth <= most
    tally.count(source, measure, holds=is_near)
    text = f"{shown} : {truth:,}"
    return text if is_near else f"**{text}**"


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
