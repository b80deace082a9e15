"""Judges the causes of removed offsets by random lives: which request or rule removed each."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable

from coordinator_replay.pipeline.options import ExpiryOptions
from coordinator_replay.simulation.coordinator import BatchWritten
from coordinator_replay.simulation.coordinator.truth import TriggerKind
from coordinator_replay.simulation.simulated_log import write_log
from scripts.reasons.simulated import TRIGGERS_A_LIFE
from scripts.world.life import Life
from scripts.world.mixes import Mix

MINUTE_MS = 60_000

BY_REQUEST = {"OffsetDelete": "DELETED", "DeleteGroups": "GROUP_DELETED"}

Audit = Callable[..., Any]
"""Audits a dump into a warehouse: ``audit(warehouse, dump, **options)``."""


class Removal(NamedTuple):
    """An offset that was removed, and what removed it.

    Attributes:
        seed: seed of the life.
        row: the row of ``removed_offsets``.
        truth: its cause.
        trigger: the request, rule or change.
    """

    seed: int
    row: dict[str, Any]
    truth: str
    trigger: str

    @property
    def is_right(self) -> bool:
        """The row names the cause."""
        return bool(self.row["ended_by"] == self.truth)

    @property
    def is_among(self) -> bool:
        """The cause is named, or among the alternatives."""
        return self.is_right or self.truth in (self.row["ended_alternatives"] or ())


def judge_life(seed: int, mix: Mix, folder: Path, audit: Audit, *, is_retention_known: bool) -> Iterator[Removal]:
    """Judge every offset that an audit finds removed in a life."""
    life = Life(seed, mix).run(TRIGGERS_A_LIFE)
    log = folder / "log"
    write_log(log, life.results, life.topics)
    retention_ms = life.retention_minutes * MINUTE_MS if is_retention_known else None
    expiry = ExpiryOptions(retention_ms=retention_ms)
    audit(folder / "tables", log / "segments", topics=str(log / "topics.csv"), expiry=expiry)
    batches = [event for event in life.truth if isinstance(event, BatchWritten)]
    for row in DeltaTable(f"{folder}/tables/removed_offsets").to_pyarrow_table().to_pylist():
        batch = next((b for b in batches if b.first_offset <= row["to_offset"] <= b.last_offset), None)
        if batch is not None:
            trigger = batch.trigger
            yield Removal(seed, row, _cause(trigger.kind, trigger.name), f"{trigger.kind} {trigger.name}")


def _cause(kind: TriggerKind, name: str) -> str:
    if kind is TriggerKind.REQUEST:
        return BY_REQUEST.get(name, name)
    return "DELETED" if kind is TriggerKind.TOPICS else "EXPIRED"


def judge_removed(
    seeds: Iterable[int], mix: Mix, folder: Path, audit: Audit, *, is_retention_known: bool
) -> list[Removal]:
    """Judge the removed offsets of some lives."""
    return [
        removal
        for seed in seeds
        for removal in judge_life(
            seed, mix, folder / f"{mix.name}-{seed}", audit, is_retention_known=is_retention_known
        )
    ]


def removed_table(name: str, removals: Sequence[Removal]) -> list[str]:
    """Return the table of some removed offsets, as lines."""
    counts = Counter(
        (removal.trigger, removal.row["ended_by"], removal.row["ended_confidence"], removal.is_right, removal.is_among)
        for removal in removals
    )
    lines = [f"### {name}: {len(removals)} removed offsets", ""]
    lines += ["| removed by | said | confidence | right | truth named | offsets |", "|---|---|---|---|---|---|"]
    for (trigger, said, confidence, is_right, is_among), count in sorted(counts.items()):
        cells = (trigger, said, confidence, *("yes" if fact else "no" for fact in (is_right, is_among)), count)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]
