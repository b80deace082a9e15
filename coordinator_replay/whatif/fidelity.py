"""How well a simulation with the recorded settings reproduces the record.

Two rebalances are the same where the same clients joined and left in them, as many members were there after them, and
they lie near each other in time. The order of both lives is kept.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_replay.times import time_order
from coordinator_replay.whatif.measure import Lived, moment_of

LOWEST = 0.7
"""Share of rebalances, recorded and simulated, that must match before anything is predicted."""

NEAR_MS = 10_000
"""Rebalances farther apart than this are not the same; timeouts and intervals differ by seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """How well the record is reproduced.

    Attributes:
        recorded: rebalances on record.
        simulated: rebalances of the simulation with the recorded settings.
        matched: rebalances of both with the same clients.
        same_targets: of the matched ones: each client got as many partitions.
        share: matched rebalances of all there are in either life.
        recorded_unowned_ms: time without owner on record, summed; null where it is not.
        simulated_unowned_ms: the same in the simulation.
        misses: what does not match, in sentences.
    """

    recorded: int
    simulated: int
    matched: int
    same_targets: int
    share: float
    recorded_unowned_ms: int | None
    simulated_unowned_ms: int | None
    misses: tuple[str, ...]

    @property
    def is_enough(self) -> bool:
        """Whether predictions may rest on it."""
        return self.share >= LOWEST

    def __str__(self) -> str:
        text = (
            f"With the recorded settings the simulation reproduces {self.matched} of {self.recorded} rebalances with "
            f"the same members ({self.simulated} were simulated), as many partitions for each client in "
            f"{self.same_targets} of {self.matched}"
        )
        if self.recorded_unowned_ms is not None and self.simulated_unowned_ms is not None:
            recorded, simulated = f"{self.recorded_unowned_ms:,} ms", f"{self.simulated_unowned_ms:,} ms"
            text += f", time without owner {simulated} against {recorded} recorded"
        return f"{text}."


def compare(recorded: Lived, simulated: Lived, recorded_ms: int | None, simulated_ms: int | None) -> Fidelity:
    """Compare two lives, the second one the simulation of the first.

    Args:
        recorded: as the record has it.
        simulated: as it was simulated.
        recorded_ms: time without owner on record.
        simulated_ms: the same in the simulation.
    """
    left = [*simulated.rebalances, *simulated.late]
    matched = same_targets = 0
    shares, simulated_shares = _shares(recorded), _shares(simulated)
    misses = []
    for row in recorded.rebalances:
        mark = _mark(row, recorded.by_member)
        place = next(
            (
                at
                for at, other in enumerate(left)
                if _mark(other, simulated.by_member) == mark and abs(moment_of(other) - moment_of(row)) <= NEAR_MS
            ),
            None,
        )
        if place is None:
            misses.append(f"Recorded only: {_sentence(row)}.")
            continue
        other = left.pop(place)
        matched += 1
        same_targets += shares.get(row["completed_at"]) == simulated_shares.get(other["completed_at"])
    # What comes after the time range counts where it is on record a moment earlier only.
    late = {row["rebalance_id"] for row in simulated.late}
    misses += [f"Simulated only: {_sentence(row)}." for row in left if row["rebalance_id"] not in late]
    late_matched = len(late) - sum(row["rebalance_id"] in late for row in left)
    count = matched + len(misses)
    return Fidelity(
        recorded=len(recorded.rebalances),
        simulated=len(simulated.rebalances) + late_matched,
        matched=matched,
        same_targets=same_targets,
        share=round(matched / count, 4) if count else 1.0,
        recorded_unowned_ms=recorded_ms,
        simulated_unowned_ms=simulated_ms,
        misses=tuple(misses),
    )


def _mark(row: Mapping[str, Any], by_member: Mapping[str, str]) -> tuple[Any, ...]:
    came = Counter(by_member.get(member_id, member_id) for member_id in row["members_joined"])
    went = Counter(by_member.get(member_id, member_id) for member_id in row["members_left"])
    return row["members_after"], sorted(came.items()), sorted(went.items())


def _sentence(row: Mapping[str, Any]) -> str:
    number = "generation" if row["group_type"] == "classic" else "epoch"
    return f"{number} {row['epoch']}, {row['cause']}, {row['members_before']} to {row['members_after']} members"


def _shares(life: Lived) -> dict[int, list[tuple[str, int]]]:
    """How many partitions each client owned at each moment at which a rebalance was over."""
    moments = sorted({row["completed_at"] for row in life.rebalances if row["completed_at"] is not None})
    changes: list[tuple[int, int, str]] = []
    for row in life.rows.get("partition_ownership", ()):
        name = life.by_member.get(row["member_id"], row["member_id"])
        changes.append((time_order(row["owned_from"]), 1, name))
        if row["to_offset"] is not None:
            changes.append((time_order(row["owned_to"]), -1, name))
    changes.sort()
    owned: Counter[str] = Counter()
    counts, place = {}, 0
    for at_ms in moments:
        while place < len(changes) and changes[place][0] <= at_ms:
            owned[changes[place][2]] += changes[place][1]
            place += 1
        counts[at_ms] = sorted((name, count) for name, count in owned.items() if count)
    return counts
