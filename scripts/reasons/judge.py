"""Compares an audit's rebalances and causes with the brokers' logs: missing and invented rebalances, right causes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from scripts.reasons.logged_truth import Truth, Witness
from scripts.reasons.sample import SEGMENTS, Sample

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "docs" / "reasons-judged.md"

COMPACTED = frozenset({"compacted"})
"""Samples whose logs were compacted while they were written. No audit can find the removed records."""

BROKERS = {
    "kafka-3.9": "3.9.1",
    "old-format-gzip": "2.8.2",
    "old-format-none": "2.8.2",
    "2.8": "2.8.2",
    "3.9": "3.9.1",
    "3.9-scala": "3.9.1, Scala",
    "4.0": "4.0.0",
    "4.1": "4.1.0",
}
"""Broker version by sample. All other samples were recorded from 4.3.1."""


_Told = TypeVar("_Told")


class Verdict(NamedTuple):
    """A rebalance in the broker's log and in the audit. One of the two may be missing.

    Attributes:
        sample: name of the sample.
        group_type: type of the group; None if the audit has no rebalance of the group.
        truth: the rebalance in the broker's log.
        row: the row of ``rebalances``.
    """

    sample: str
    group_type: str | None
    truth: Truth | None
    row: dict[str, Any] | None

    @property
    def is_exact(self) -> bool:
        """Return whether the row names the true cause."""
        return self.truth is not None and self.row is not None and self.row["cause"] in self.truth.accepted

    @property
    def is_marked(self) -> bool:
        """Return whether the row's cause is ``possible`` and wrong, and the true cause is one of the alternatives."""
        truth, row = self.truth, self.row
        if truth is None or row is None or self.is_exact:
            return False
        return row["confidence"] == "possible" and str(truth.cause) in row["alternatives"]

    @property
    def is_unknown(self) -> bool:
        """Return whether the row's cause is UNKNOWN, and this is wrong."""
        return self.row is not None and self.row["cause"] == Cause.UNKNOWN and not self.is_exact

    @property
    def is_right(self) -> bool:
        """Return whether the row names the true cause, as its cause or among the alternatives of a possible cause."""
        return self.is_exact or self.is_marked


def judge(sample: Sample, *, with_log: bool = False) -> list[Verdict]:
    """Return every rebalance that the broker logged or the audit found. The audit may get the broker's log, too."""
    logged = Witness(sample.journal, sample.clients()).read(sample.broker_log)
    found = sample.rebalances_with_log() if with_log else sample.rebalances()
    truths = _by_life([((one.group, one.epoch), one) for one in logged])
    rows = _by_life([((row["group_id"], row["epoch"]), row) for row in found])
    types = {row["group_id"]: row["group_type"] for row in found}
    return [
        Verdict(
            sample.name, rows[key]["group_type"] if key in rows else types.get(key[0]), truths.get(key), rows.get(key)
        )
        for key in {**truths, **rows}
    ]


def _by_life(found: list[tuple[tuple[str, int], _Told]]) -> dict[tuple[str, int, int], _Told]:
    """Return values by group, epoch and a number that counts from 0. A deleted group may have the same epoch again."""
    lives: Counter[tuple[str, int]] = Counter()
    told = {}
    for key, one in found:
        told[*key, lives[key]] = one
        lives[key] += 1
    return told


def judge_all(samples: Path, *, with_log: bool = False) -> list[Verdict]:
    """Judge all samples of a folder that have segments and a broker's log."""
    patterns = ("*/broker-log.jsonl", "*/server-1.log", "broker-logs/*/server.log")
    logs = [path for pattern in patterns for path in samples.glob(pattern)]
    folders = [path.parent for path in sorted(logs) if any((path.parent / name).is_dir() for name in SEGMENTS)]
    return [verdict for folder in folders for verdict in judge(Sample(folder), with_log=with_log)]


def whole(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the rebalances of samples with complete logs."""
    return [one for one in verdicts if one.sample not in COMPACTED]


def _share(part: int, of: int) -> str:
    return f"{part} of {of} ({100 * part / of:.1f} %)" if of else "0 of 0"


def document(verdicts: Sequence[Verdict], with_log: Sequence[Verdict], simulated: Sequence[str] = ()) -> str:
    """Return the page about the quality of causes.

    Args:
        verdicts: results of audits that do not read the broker's log.
        with_log: results of audits that read the broker's log.
        simulated: the part of the page about random lives (see ``simulated_page.pages``).
    """
    told = whole(verdicts)
    both = [one for one in told if one.truth is not None and one.row is not None]
    logged = sum(one.truth is not None for one in told)
    marked = sum(one.is_marked for one in both)
    lines = [
        "# Causes, compared with the brokers' logs",
        "",
        "This page shows how often the causes of rebalances are right. `scripts/judge-reasons` writes it, and a test",
        "checks it. The recorded samples (`tests/data`) include the logs of their brokers, and a journal of what was",
        "done to the clients. The numbers at the top are for an audit that reads neither logs nor journal. The section",
        "[With the brokers' logs](#with-the-brokers-logs) is about an audit that reads the logs (`--broker-log`).",
        "",
        f"- rebalances that the brokers logged and the audit found: {_share(len(both), logged)}",
        f"- rebalances that the audit found and no broker logged: {sum(one.truth is None for one in told)}",
        f"- causes right: {_share(sum(one.is_exact for one in both), len(both))}. Another {marked} rows are",
        "  `possible`, and have the right cause among their alternatives",
        f"- causes wrong: {sum(not one.is_right for one in both)}",
    ]
    lines += [
        *_by_confidence(both),
        "",
        *_compacted(verdicts),
        "",
        *_with_log(with_log),
        "",
        *_by_protocol(verdicts),
        "",
        *_by_cause(both),
        "",
        *_confusion(both),
        "",
        *_wrong(both),
        "",
        *simulated,
    ]
    return "\n".join(lines)


def _by_confidence(both: Sequence[Verdict]) -> list[str]:
    lines = []
    for confidence in Confidence:
        rated = [one for one in both if one.row is not None and one.row["confidence"] == confidence]
        lines.append(
            f"- `{confidence}`: {_share(sum(one.is_exact for one in rated), len(rated))} have the logged cause"
        )
    return lines


def _with_log(verdicts: Sequence[Verdict]) -> list[str]:
    both = [one for one in whole(verdicts) if one.truth is not None and one.row is not None]
    classic = [one.row for one in verdicts if one.row is not None and one.row["group_type"] == "classic"]
    return [
        "## With the brokers' logs",
        "",
        f"- causes right: {_share(sum(one.is_exact for one in both), len(both))}; another "
        f"{sum(one.is_marked for one in both)} rows have the right cause among their alternatives",
        f"- causes wrong: {sum(not one.is_right for one in both)}",
        *_by_confidence(both),
        f"- rebalances of classic groups with a known beginning and duration: "
        f"{_share(sum(row['duration_ms'] is not None for row in classic), len(classic))}",
    ]


def _compacted(verdicts: Sequence[Verdict]) -> list[str]:
    cut = [one for one in verdicts if one.sample in COMPACTED]
    rows = [one for one in cut if one.row is not None]
    told = [one for one in rows if one.row is not None and one.row["cause"] != "UNKNOWN"]
    certain = [one for one in told if one.row is not None and one.row["confidence"] == "certain"]
    logged = sum(one.truth is not None for one in cut)
    return [
        f"The compacted sample lacks records, but the audit still finds {len(rows)} of {logged} rebalances. "
        f"{len(told)} of them have a",
        f"cause, and {_right_of(told)} right. The other {len(rows) - len(told)} are `UNKNOWN`.",
        _certain_causes(certain),
    ]


def _right_of(told: Sequence[Verdict]) -> str:
    right = sum(verdict.is_right for verdict in told)
    return f"all {right} are" if right == len(told) else f"{right} of these are"


def _certain_causes(certain: Sequence[Verdict]) -> str:
    if not certain:
        return "No cause is `certain`."
    return f"Of the `certain` causes, {_share(sum(verdict.is_exact for verdict in certain), len(certain))} are right."


def _by_protocol(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each protocol and broker version. Compacted logs have lines of their own."""
    lines = [
        "## By protocol and broker version",
        "",
        "- *Shared*: the cause is `possible`, and the right cause is among the alternatives.",
        "- *Unknown*: the cause is UNKNOWN.",
        "- *Missing*: the broker logged the rebalance, and the audit did not find it.",
        "- *Invented*: the audit found the rebalance, and the broker did not log it.",
        "",
        "| protocol | broker | logged | right | shared | unknown | wrong | missing | invented |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    some: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for one in verdicts:
        version = BROKERS.get(one.sample, "4.3.1") + (", compacted" if one.sample in COMPACTED else "")
        some[one.group_type or "not on record", version].append(one)
    for (protocol, version), found in sorted(some.items()):
        both = [one for one in found if one.truth is not None and one.row is not None]
        counts = (
            sum(one.truth is not None for one in found),
            sum(one.is_exact for one in both),
            sum(one.is_marked for one in both),
            sum(one.is_unknown for one in both),
            sum(not one.is_right and not one.is_unknown for one in both),
            sum(one.row is None for one in found),
            sum(one.truth is None for one in found),
        )
        lines.append(f"| {protocol} | {version} | {' | '.join(map(str, counts))} |")
    return lines


def _by_cause(both: Sequence[Verdict]) -> list[str]:
    lines = [
        "## Precision and recall",
        "",
        "An audit's row is *right* if it has the cause that the broker logged. The *precision* of a cause is the share",
        "of right rows among all rows with this cause. Its *recall* is the share of right rows among all rebalances",
        "for which the broker logged this cause. In brackets: the share if *shared* rows (see above) count as right.",
        "",
        "| cause | precision | recall |",
        "|---|---|---|",
    ]
    for cause in Cause:
        named = [one for one in both if one.row is not None and one.row["cause"] == cause]
        logged = [one for one in both if one.truth is not None and _called(one) is cause]
        if named or logged:
            lines.append(f"| {cause} | {_rate(named)} | {_rate(logged)} |")
    return lines


def _called(one: Verdict) -> Cause | None:
    """Return the true cause. If several causes count as true, return the row's cause if it is one of them."""
    if one.truth is None:
        return None
    return Cause(one.row["cause"]) if one.is_exact and one.row is not None else one.truth.cause


def _rate(some: Sequence[Verdict]) -> str:
    if not some:
        return "–"
    exact, right = sum(one.is_exact for one in some), sum(one.is_right for one in some)
    return f"{exact}/{len(some)}" + (f" ({right}/{len(some)})" if right != exact else "")


def _confusion(both: Sequence[Verdict]) -> list[str]:
    counts: dict[Cause, Counter[str]] = defaultdict(Counter)
    for one in both:
        if one.truth is not None and one.row is not None:
            counts[one.truth.cause][one.row["cause"]] += 1
    shown = [cause for cause in Cause if any(counts[row][cause] for row in counts)]
    lines = [
        "## What the broker said (rows) and what the audit says (columns)",
        "",
        "| | " + " | ".join(shown) + " |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for cause in Cause:
        if counts[cause]:
            cells = (str(counts[cause][column] or "") for column in shown)
            lines.append(f"| {cause} | " + " | ".join(cells) + " |")
    return lines


def _wrong(both: Sequence[Verdict]) -> list[str]:
    lines = ["## Where they differ", ""]
    if all(one.is_right for one in both):
        lines.append("Only in the shared rows (see above).")
    for one in both:
        if one.truth is not None and one.row is not None and not one.is_right:
            beside = f" beside {', '.join(one.row['alternatives'])}" if one.row["alternatives"] else ""
            lines.append(
                f"- {one.sample}, {one.truth.group}, {one.truth.epoch}: "
                f"{one.row['cause']} ({one.row['confidence']}{beside}); it was {one.truth.cause}"
            )
    return lines
