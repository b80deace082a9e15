"""Random lives as dumps of which the cleaner took records, one dump a night, held against what happened in them.

What an audit of these dumps calls exact must be what the whole log says; what it calls certain must be what the
simulated coordinator did. Its evidence and the clients that its findings name must be true, too.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable

from coordinator_replay.analysis.findings.thresholds import DEFAULTS
from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.pipeline.options import ExpiryOptions
from coordinator_replay.simulation.simulated_log import TOPICS
from coordinator_replay.times import milliseconds
from scripts.reasons.named_clients import falsely_named, names_anybody
from scripts.reasons.removed import removals
from scripts.reasons.simulated import Row, judge_rows, rebalances
from scripts.world.cluster import Cluster, clusters
from scripts.world.life import Life
from scripts.world.mixes import Mix
from tests.cleaner.recorded_log import recorded_log
from tests.completeness.random_lives import dumps_of

FEW = DEFAULTS.with_changes(
    {"storm_rebalances": 3, "flapping_returns": 2}
    | dict.fromkeys(("stuck_ms", "unrevoked_ms", "unowned_ms", "mixed_protocols_ms", "disjoint_ms"), 1)
    | dict.fromkeys(("unbalanced_ms", "stall_ms", "patience"), 1)
)
"""So small that most lives have findings that name clients."""

SAME = (
    *("group_type", "members_before", "members_after", "members_joined", "members_left", "partitions_total"),
    *("started_at", "began_by", "completed_at"),
)
"""What a rebalance that is exact must have in common with that of the whole log."""


@dataclass(slots=True)
class Held:
    """How many claims were held against what happened, and those that are false."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def hold(self, claim: str, about: object, *, is_true: bool) -> None:
        """Count a claim."""
        self.counts[claim] += 1
        if not is_true:
            self.faults.append(f"{claim}: {about}")


def judge_nights(seeds: Iterable[int], mix: Mix, folder: Path, audit: Callable[..., Summary]) -> Held:
    """Audit the nights of some lives, and hold what the tables say against what happened."""
    held = Held()
    for number, cluster in enumerate(clusters(seeds, mix)):
        place = folder / f"{mix.name}-{number}"
        _audit_nights(cluster, place, Random(f"{mix.name} {min(cluster.lives)}"), audit)
        _hold(cluster, place / "tables", held)
    return held


def _audit_nights(cluster: Cluster, folder: Path, random: Random, audit: Callable[..., Summary]) -> None:
    """Audit one to three dumps of a cluster, taken while the cleaner works."""
    cluster.write(folder / "log")
    nights = [*sorted(random.uniform(0.2, 0.9) for _ in range(random.choice([0, 1, 1, 2]))), 1.0]
    dumps = dumps_of(folder, recorded_log(folder / "log" / "segments"), nights, random.randrange(1 << 16))
    expiry = ExpiryOptions(retention_ms=cluster.retention_minutes * 60_000)
    for dump in dumps:
        options = {"topics": str(folder / "log" / TOPICS), "expiry": expiry, "thresholds": FEW}
        audit(folder / "tables", dump, **options)


def _hold(cluster: Cluster, warehouse: Path, held: Held) -> None:
    found = [_in_milliseconds(row) for row in _rows(warehouse, "rebalances")]
    findings = _rows(warehouse, "findings")
    for seed, life in cluster.lives.items():
        hold_rebalances(seed, life, [row for row in found if row["group_id"] == life.group], held)
        for finding in (row for row in findings if row["group_id"] == life.group and names_anybody(row)):
            named = falsely_named(life, finding)
            held.hold(f"named by {finding['rule']}", (seed, finding["message"], named), is_true=not named)
    for removal in removals(cluster, warehouse):
        told = (removal.seed, removal.row["to_offset"], removal.row["ended_by"], removal.trigger)
        if removal.row["ended_confidence"] == "certain":
            held.hold("certain removal", told, is_true=removal.is_right)
        held.hold("removal named", told, is_true=removal.is_among)
        held.counts["facts about removals"] += len(removal.row["ended_facts"])
        held.faults += [f"fact: {told} {fact} {removal.row['ended_evidence']}" for fact in removal.false]


def hold_rebalances(seed: int, life: Life, rows: Sequence[Row], held: Held) -> None:
    """Hold the rows of a life's rebalances against the whole log and against what happened."""
    whole = {_key(row): row for row in rebalances(life)}
    exact = [row for row in rows if row["is_exact"] and row["completed_offset"] is not None]
    held.counts["rebalances that are not exact"] += len(rows) - len(exact)
    for verdict in judge_rows(seed, life, exact):
        row = verdict.row
        told = (seed, row["group_type"], row["epoch"], row["cause"], verdict.truth, verdict.why)
        if row["confidence"] == "certain":
            held.hold("certain cause", told, is_true=verdict.is_right)
        held.counts["facts"] += len(row["facts"])
        held.faults += [f"fact: {told} {fact}" for fact in verdict.false]
        truth = whole.get(_key(row))
        differing = list(_differing(row, truth)) if truth is not None else ["no such rebalance"]
        held.hold("exact rebalance", (*told, *differing), is_true=not differing)


def _key(row: Row) -> tuple[object, ...]:
    """Return what tells a rebalance from others: two may be over with the same record."""
    return row["group_type"], row["epoch"], row["completed_offset"]


def _differing(row: Row, truth: Row) -> Iterator[tuple[str, Any, Any]]:
    """Yield what a row says otherwise than that of the whole log; null claims nothing."""
    for name in SAME:
        if row[name] is not None and _unordered(row[name]) != _unordered(truth[name]):
            yield name, truth[name], row[name]


def _unordered(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(warehouse / table)).to_pyarrow_table().to_pylist()
    return found


def _in_milliseconds(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its times as the analysis has them."""
    return {name: milliseconds(value) if isinstance(value, datetime) else value for name, value in row.items()}
