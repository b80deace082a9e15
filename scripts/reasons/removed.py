"""Judges the causes of removed offsets by random lives, where the request or rule that removed each offset is known."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from deltalake import DeltaTable

from coordinator_replay.analysis.reasons.vocabulary import Confidence
from coordinator_replay.pipeline.options import ExpiryOptions
from coordinator_replay.simulation.coordinator import BatchWritten
from coordinator_replay.simulation.coordinator.truth import TriggerKind
from coordinator_replay.simulation.simulated_log import TOPICS
from scripts.reasons.true_removals import RemovalWitness
from scripts.world.cluster import Cluster, clusters
from scripts.world.mixes import MIXES, Mix

MINUTE_MS = 60_000

BY_REQUEST = {"OffsetDelete": "DELETED", "DeleteGroups": "GROUP_DELETED"}

Audit = Callable[..., Any]
"""A function that audits a dump into a warehouse: ``audit(warehouse, dump, **options)``."""


class Removal(NamedTuple):
    """A removed offset, and the true cause of its removal.

    Attributes:
        seed: seed of the life.
        row: the row of ``removed_offsets``.
        truth: the true cause.
        trigger: the request, timer or change that removed the offset.
        false: facts of the row's evidence that are not true.
    """

    seed: int
    row: dict[str, Any]
    truth: str
    trigger: str
    false: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_right(self) -> bool:
        """Return whether the row names the true cause."""
        return bool(self.row["ended_by"] == self.truth)

    @property
    def is_among(self) -> bool:
        """Return whether the row's cause or one of its alternatives is the true cause."""
        return self.is_right or self.truth in (self.row["ended_alternatives"] or ())


def judge_cluster(cluster: Cluster, audit: Audit, *, is_retention_known: bool) -> list[Removal]:
    """Judge every offset that an audit finds removed in the lives of a cluster."""
    retention_ms = cluster.retention_minutes * MINUTE_MS if is_retention_known else None
    expiry = ExpiryOptions(retention_ms=retention_ms)
    with TemporaryDirectory() as name:
        folder = Path(name)
        cluster.write(folder / "log")
        audit(folder / "tables", folder / "log" / "segments", topics=str(folder / "log" / TOPICS), expiry=expiry)
        return list(removals(cluster, folder / "tables"))


def removals(cluster: Cluster, warehouse: Path) -> Iterator[Removal]:
    """Yield the offsets that an audit found removed, each with the true cause."""
    rows = DeltaTable(str(warehouse / "removed_offsets")).to_pyarrow_table().to_pylist()
    for seed, life in cluster.lives.items():
        batches = [event for event in life.truth if isinstance(event, BatchWritten)]
        others = (other for other in cluster.lives.values() if other is not life)
        of_group = [row for row in rows if row["group_id"] == life.group]
        on_record = frozenset(row["to_offset"] for row in of_group)
        witness = RemovalWitness(life, others, cluster.retention_minutes * MINUTE_MS, on_record)
        for row in of_group:
            batch = next(b for b in batches if b.first_offset <= row["to_offset"] <= b.last_offset)
            trigger = batch.trigger
            false = tuple(witness.false_facts(row, batch))
            yield Removal(seed, row, _cause(trigger.kind, trigger.name), f"{trigger.kind} {trigger.name}", false)


def _cause(kind: TriggerKind, name: str) -> str:
    if kind is TriggerKind.REQUEST:
        return BY_REQUEST.get(name, name)
    return "DELETED" if kind is TriggerKind.TOPICS else "EXPIRED"


def judge_removed(seeds: Iterable[int], mix: Mix, audit: Audit, *, is_retention_known: bool) -> Iterator[list[Removal]]:
    """Yield the judged removed offsets of some lives, cluster after cluster."""
    for cluster in clusters(seeds, mix):
        yield judge_cluster(cluster, audit, is_retention_known=is_retention_known)


def judge_many(
    seeds: Iterable[int], mix: Mix, audit: Audit, least: int, *, is_retention_known: bool
) -> Iterator[list[Removal]]:
    """Judge lives until ``least`` offsets or more are judged. After each cluster, yield all removed offsets so far."""
    judged: list[Removal] = []
    for found in judge_removed(seeds, mix, audit, is_retention_known=is_retention_known):
        judged += found
        yield judged
        if len(judged) >= least:
            return


def removed_table(name: str, judged: Sequence[Removal]) -> list[str]:
    """Return the table of some removed offsets, as lines."""
    lines = [f"### {name}: {len(judged)} removed offsets", ""]
    for confidence in Confidence:
        rated = [removal for removal in judged if removal.row["ended_confidence"] == confidence]
        right, among = sum(removal.is_right for removal in rated), sum(removal.is_among for removal in rated)
        lines.append(f"- `{confidence}`: {right} of {len(rated)} right; the truth is named in {among}")
    counts = Counter(
        (removal.trigger, removal.row["ended_by"], removal.row["ended_confidence"], removal.is_right, removal.is_among)
        for removal in judged
    )
    stated = sum(len(removal.row["ended_facts"]) for removal in judged)
    lines.append(f"- facts of the evidence: {stated}; not true: {sum(len(removal.false) for removal in judged)}")
    lines += [
        "",
        "| removed by | the row's cause | confidence | right | truth named | offsets |",
        "|---|---|---|---|---|---|",
    ]
    for (trigger, said, confidence, is_right, is_among), count in sorted(counts.items()):
        cells = (trigger, said, confidence, *("yes" if fact else "no" for fact in (is_right, is_among)), count)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def missed(judged: Iterable[Removal]) -> list[str]:
    """Return a line for each removed offset that misses a goal.

    Its cause is ``certain`` and wrong, its true cause is not named, or a fact of its evidence is not true.
    """
    lines = []
    for removal in judged:
        is_sure = removal.row["ended_confidence"] == Confidence.CERTAIN
        if removal.false or not removal.is_among or (is_sure and not removal.is_right):
            lines.append(f"- {removal.seed}: {removal.trigger}; not true: {removal.false}; {removal.row}")
    return lines


HEAD = "## Removed offsets, compared with the simulated coordinator"
PAGE = f"""{HEAD}

The simulated coordinator also knows which request, timer or deleted topic removed each offset. The lives come from the
same mixes. While we changed rules, we did not look at these lives. At the end of each life, all consumers crash, and
time passes until their offsets have expired. The audit is given the records, a list of topics, and the value of
offsets.retention.minutes.
"""
PAGE_LIVES = range(1_000_000, 1_000_008)


def judge_page(audit: Audit) -> dict[str, list[Removal]]:
    """Judge the removed offsets of the page, by the name of the mix."""
    return {
        name: list(chain.from_iterable(judge_removed(PAGE_LIVES, mix, audit, is_retention_known=True)))
        for name, mix in MIXES.items()
    }


def removed_page(judged: Mapping[str, Sequence[Removal]]) -> str:
    """Return the part of ``docs/reasons-judged.md`` about removed offsets."""
    lines = PAGE.splitlines()
    for name, removals_of_mix in judged.items():
        lines += ["", *removed_table(name, removals_of_mix)]
    return "\n".join([*lines, ""])
