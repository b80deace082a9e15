"""Compares predictions with the log of a real broker, where the same life ran under the predicted settings."""

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations
from pathlib import Path

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.answer import WhatIf, what_if
from coordinator_replay.simulation.what_if.measures import Measures
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.settings import Alternative
from scripts.what_if.lives import JUDGED, LIVES, judged_life, lives_part, lives_summary
from scripts.what_if.sample import recorded_groups

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
"""The six groups, and the settings under which each was recorded."""

CONFIGURED = {
    "heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "300",
    "metadata.max.age.ms": "2000",
}
"""Settings of all six groups that nobody wrote down. The records of all groups together suggest these values."""

SETTLED_MS = 1_795_381_646_851
"""Time 12.5 s after the first client was started: all six groups are Stable, and no member has left yet."""

AFTER_START = "intervals given, after the start"

SOURCES = ("shop-v-dynamic", "shop-v-coop", "shop-v-new", "shop-v-static", "shop-v-patient", "shop-v-newstatic")


_INTRODUCTION = """\
# What-if, judged by brokers

`scripts/judge-what-if` makes this page, and a test checks that it is up to date. Every prediction is in
[all predictions](judged/what-if-lives.md).

How good are the predictions of [`what-if`](what-if.md)? A *life* is a list of steps: clients start, close or crash, and
topics get partitions. On a real broker (4.3.1), six groups with different settings went through the same life, and
their records were kept. The recording of each group serves to predict the recordings of the other five. The
predictions are compared with the broker's records. A prediction is *within the bounds* if it differs from the record
by no more than this:

- rebalances: 1, or 10 % of the recorded number if this is more than 1
- partitions reassigned: 20 %
- time without owner: 30 %

Each prediction is made three times:

1. **Nothing given**: only the protocol, assignor, instance ids and session timeout of the predicted group are given.
   All other settings are measured from the recording that the prediction starts from, or are Kafka's defaults. These
   predictions are blind: they use nothing from the recording that they predict.
2. **Intervals given**: also {intervals}.
   A user knows the settings of a group, but nobody wrote them down for this recording. We inferred them from the
   records of all six groups, so the times of these predictions are not blind.
3. **Intervals given, after the start**: as in 2, but only from the time at which all six groups were Stable. This
   leaves out the start, in which the six recordings differ (see below).
"""

_PREDICTIONS_INTRODUCTION = """\
# What-if: all predictions

Made by `scripts/judge-what-if`; a test checks that both agree. [What-if, judged](../what-if-judged.md) is the summary.

A cell has the predicted value, its range in parentheses, and after the colon the value that the broker recorded. In a
**bold** cell, the prediction is wrong: neither the predicted value nor the range agrees with the recorded value.
"""

_WHAT_CELLS_MEAN = """\
A row has the predictions from recordings of groups with dynamic or with static members. *12 + 3 of 15* means: in 12 of
15 predictions, the likeliest value is within the bounds. Another 3 have a range that contains the recorded value.
"""

_WHY_PREDICTIONS_MISS = """\
With nothing given, a range covers all intervals from the shortest one to Kafka's default, because the record does not
show the true interval.

The misses come from **the start** of the recordings. Two groups had a third client that sent its first request
late: 0.7 s after the second client in shop-v-dynamic, and 0.8 s in shop-v-static. This caused one more generation. The
third client came within 0.3 s in the other four groups. So these two kinds of recordings differ by one rebalance and
three partitions, and no recording of one kind shows the start of the other kind. Ranges cover only arrivals up to a
second later than recorded.
"""


_MARGINS = """\
## How ranges are widened

A range reaches from the lowest to the highest value of all variants. It is then widened, because simulations miss some
details:

- Times: both ends move outwards by three tenths of the likeliest value.
- Counts: both ends move outwards by 15 % of the distance between them. Each end also keeps at least the following
  distance from the likeliest value. Percentages are shares of the likeliest value:

| count | at least, below | at least, above |
|---|---|---|
| rebalances, rebalances that stopped all members | | 14 % |
| rebalances of one cause | one rebalance | 14 %, but at least one rebalance: the order of requests decides the cause |
| partitions reassigned | 20 % | 25 % |
| members interrupted | 25 % | 25 % |

If join phases waited for static members, the percentages in the last column grow. They grow by 1.5 percentage points
for each 10 % of the time range that was spent waiting. All these shares were measured with the *looked at* lives, and
tested with the *only judged* lives.
"""


@dataclass(frozen=True)
class Judgement:
    """Two pages, in Markdown: the summary, and every prediction."""

    summary: str
    predictions: str


def judgement(repository: Path) -> Judgement:
    """Return both pages."""
    with ProcessPoolExecutor(2) as pool:
        judged = list(pool.map(judged_life, sorted((repository / LIVES).iterdir())))
    summary, predictions = variants_part(repository)
    return Judgement(
        "\n".join([*summary, "", *lives_summary(judged), "", _MARGINS]),
        "\n".join([*predictions, "", *lives_part(judged), ""]),
    )


def variants_part(repository: Path) -> tuple[list[str], list[str]]:
    """Return lines about the life in ``tests/data/variants``, for the summary and for the page of predictions.

    The second list also says how well the simulation reproduces all groups of the samples.
    """
    groups = recorded_groups(repository / "tests" / "data" / "variants")
    recorded = {name: what_if(group, []).recorded for name, group in groups.items()}
    intervals = ", ".join(f"`{name}={value}`" for name, value in CONFIGURED.items())
    summary = [
        *_INTRODUCTION.format(intervals=intervals).splitlines(),
        "",
        "## What was recorded",
        "",
        "| group | rebalances | partitions reassigned | without owner in total, ms |",
        "|---|---|---|---|",
        *(
            f"| {name} | {one.rebalances} | {one.partitions_reassigned} | {_shown(one.unowned_ms_total)} |"
            for name, one in recorded.items()
        ),
    ]
    tallies: dict[str, Tally] = {"nothing given": Tally(), "intervals given": Tally(), AFTER_START: Tally()}
    settled = {name: what_if(group, [], start_ms=SETTLED_MS).recorded for name, group in groups.items()}
    predictions = _PREDICTIONS_INTRODUCTION.splitlines()
    for source in SOURCES:
        predictions += ["", f"## From {source}"]
        for given, kind in zip(({}, CONFIGURED), tallies, strict=False):
            predictions += ["", f"### {kind.capitalize()}", ""]
            predictions += _predictions(groups[source], recorded, given, tallies[kind])
        predictions += ["", f"### {AFTER_START.capitalize()}", ""]
        predictions += _predictions(groups[source], settled, CONFIGURED, tallies[AFTER_START], SETTLED_MS)
    summary += ["", "## How many are within the bounds", "", *_summary(tallies)]
    predictions += ["", "## Recorded settings over all groups of the samples", "", *_fidelities(repository)]
    return summary, predictions


class Verdict(StrEnum):
    """Results of a prediction: its value is right, only its range is right, or both are wrong."""

    VALUE = "value"
    RANGE = "range"
    OUTSIDE = "outside"


@dataclass
class Tally:
    """Counts of results of predictions, separately for groups with dynamic and with static members."""

    found: Counter[tuple[str, str, Verdict]] = field(default_factory=Counter)
    ranges: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def count(self, source: str, measure: str, verdict: Verdict) -> None:
        """Count a prediction."""
        self.found[_members_of(source), measure, verdict] += 1


def _members_of(source: str) -> str:
    return "static" if "static" in source or "patient" in source else "dynamic"


def _summary(tallies: Mapping[str, Tally]) -> Iterable[str]:
    yield from _WHAT_CELLS_MEAN.splitlines()
    yield ""
    yield "| predicted from groups with | given | " + " | ".join(label for _, label in JUDGED) + " |"
    yield "|---|---|" + "---|" * len(JUDGED)
    for kind in ("dynamic", "static"):
        for given, tally in tallies.items():
            cells = []
            for name, _ in JUDGED:
                value, ranged, outside = (tally.found[kind, name, verdict] for verdict in Verdict)
                cells.append(f"{value} + {ranged} of {value + ranged + outside}")
            yield f"| {kind} members | {given} | " + " | ".join(cells) + " |"
    yield ""
    for kind in ("dynamic", "static"):
        held, missed = (sum(tally.ranges[kind, holds] for tally in tallies.values()) for holds in (True, False))
        yield (
            f"Predictions from groups with {kind} members have {held + missed} ranges. {held} of them contain the "
            "recorded value."
        )
    yield ""
    yield from _WHY_PREDICTIONS_MISS.splitlines()


def _predictions(
    source: Recorded,
    recorded: Mapping[str, Measures],
    given: Mapping[str, str],
    tally: Tally,
    start_ms: int | None = None,
) -> Iterable[str]:
    others = [name for name in VARIANTS if name != source.group_id]
    answer = what_if(
        source,
        [Alternative(values={**VARIANTS[name], **given}) for name in others],
        known={**given, **_known(source.group_id)},
        start_ms=start_ms,
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
    yield ""
    yield _ranking(dict(zip(others, answer.alternatives, strict=True)), recorded)


def _ranking(predicted: Mapping[str, Measures], recorded: Mapping[str, Measures]) -> str:
    """Return a sentence that says if alternatives with fewer recorded rebalances are predicted to have fewer."""
    unlike, reversed_, pairs, open_count = [], [], 0, 0
    for one, other in permutations(predicted, 2):
        if recorded[one].rebalances >= recorded[other].rebalances:
            continue
        pairs += 1
        (least, most), (other_least, other_most) = (_reach(predicted[name]) for name in (one, other))
        if predicted[one].rebalances > predicted[other].rebalances:
            (reversed_ if least <= other_most else unlike).append(f"{one} and {other}")
        open_count += most >= other_least and (least < most or other_least < other_most)
    if unlike:
        return f"The ranking by rebalances is wrong for {', '.join(unlike)}."
    if not open_count:
        return "The ranking by rebalances is right."
    told = (
        "The ranking by rebalances is right for all pairs whose ranges don't overlap. The ranges of "
        f"{open_count} of {pairs} pairs overlap"
    )
    if not reversed_:
        return f"{told}. The likeliest values rank these pairs right, too."
    return f"{told}. The likeliest values rank some of them wrong: {', '.join(reversed_)}."


def _reach(one: Measures) -> tuple[int, int]:
    return one.ranges.get("rebalances", (one.rebalances, one.rebalances))


def _known(group: str) -> dict[str, str]:
    """Return the session timeout of a consumer group, which is not on record. Classic members have it on record."""
    is_consumer = VARIANTS[group]["group.protocol"] == "consumer"
    return {"session.timeout.ms": VARIANTS[group]["session.timeout.ms"]} if is_consumer else {}


def _most_off(measure: str, truth: int) -> float:
    """Return by how much a prediction may differ from the recorded value."""
    return {"rebalances": max(1, truth / 10), "partitions_reassigned": truth / 5}.get(measure, truth * 0.3)


def _judged(source: str, measure: str, one: Measures, recorded: Measures, tally: Tally) -> str:
    predicted, truth = getattr(one, measure), getattr(recorded, measure)
    if truth is None or predicted is None:
        return f"{_shown(predicted)} : {_shown(truth)}"
    shown, verdict = f"{predicted:,}", Verdict.OUTSIDE
    if measure in one.ranges:
        least, most = one.ranges[measure]
        shown += f" ({least:,} to {most:,})"
        verdict = Verdict.RANGE if least <= truth <= most else verdict
        tally.ranges[_members_of(source), least <= truth <= most] += 1
    if abs(predicted - truth) <= _most_off(measure, truth):
        verdict = Verdict.VALUE
    tally.count(source, measure, verdict)
    text = f"{shown} : {truth:,}"
    return f"**{text}**" if verdict is Verdict.OUTSIDE else text


def _shown(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _fidelities(repository: Path) -> Iterable[str]:
    """Yield lines on how well each group of each sample is reproduced from its records alone."""
    yield "| sample | group | matched : recorded : simulated | share | |"
    yield "|---|---|---|---|---|"
    for folder in sorted(one.parent for one in (repository / "tests" / "data").glob("*/segments")):
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
